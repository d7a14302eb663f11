# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pace of a run's steps: when it should be done, and whether it stands still. Pure."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import duration

# How long (seconds) steps are watched before their pace says anything about the end.
PACE_SECONDS = 10.0
# No step for so many times the usual step, and at least so many seconds: it stands still. The same as in a diagnosis.
STALL_FACTOR, STALL_SECONDS = 10.0, 60.0
# Where there never was a step: so many seconds without a line of the log.
SILENT_SECONDS = 300.0
# The usual step is the middle one of so many.
KEPT = 64


@dataclass
class Pace:
    """Times are seconds of the caller's monotonic clock. `heard`: when the log last grew; `stepped`: when a step was
    last seen that is further than the one before.
    """

    heard: float | None = None
    stepped: float | None = None
    ends: float | None = None
    _first: tuple[int, float] | None = None
    _last: tuple[int, float] | None = None
    _took: list[float] = field(default_factory=list)
    _told: float = 0.0

    def begin(self, now: float) -> None:
        """An attempt begins: nothing of the one before counts."""
        self.heard, self.stepped, self.ends = now, None, None
        self._first = self._last = None
        self._took.clear()
        self._told = 0.0

    def step(self, step: int, total: int | None, now: float) -> float | None:
        """A step was seen. Seconds until the last one, where the pace so far tells that."""
        if self._last is None or step < self._last[0]:
            self._first = self._last = (step, now)
            self.stepped = now
        elif step > self._last[0]:
            before, since = self._last
            self._took = [*self._took, (now - since) / (step - before)][-KEPT:]
            self._last, self.stepped, self._told = (step, now), now, 0.0
        first, since = self._first or (step, now)
        done, took = step - first, now - since
        if not total or step >= total or done <= 0 or took < PACE_SECONDS:
            self.ends = None
            return None
        left = took / done * (total - step)
        self.ends = now + left
        return left

    @property
    def usual(self) -> float | None:
        """The seconds of a usual step; None before two were seen."""
        return statistics.median(self._took) if self._took else None

    def stands(self, now: float) -> str:
        """Why it stands still, or nothing."""
        usual = self.usual
        if self.stepped is not None and usual is not None:
            age = now - self.stepped
            if age < max(STALL_SECONDS, STALL_FACTOR * usual):
                return ""
            return f"no step for {duration(age)}, where a step took {usual:.2g} s"
        since = max((moment for moment in (self.heard, self.stepped) if moment is not None), default=now)
        return f"no line in its log for {duration(now - since)}" if now - since >= SILENT_SECONDS else ""

    def news(self, now: float) -> str:
        """The same where it is news: when it begins, and each time that it has lasted twice as long."""
        text = self.stands(now)
        since = self.stepped if self.stepped is not None and self.usual is not None else self.heard
        if not text or since is None or now - since < self._told:
            return ""
        self._told = 2 * (now - since)
        return text
