# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pace of a run's steps: the time left, and whether the run stalls. Pure."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import duration
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import (
    LATE,
    LATE_SECONDS,
    STALL_FACTOR,
    STALL_SECONDS,
)

# How long (seconds) steps are observed before their pace gives an estimate of the end.
PACE_SECONDS = 10.0
# The same for a run that never showed a step: seconds without a new line in the log.
SILENT_SECONDS = 300.0
# The usual step time is the median of this many steps.
KEPT = 64


@dataclass
class Pace:
    """Times are seconds of the caller's monotonic clock.

    `heard`: when the log last grew; `stepped`: when the newest step was first seen; `ends`: the expected end.
    """

    heard: float | None = None
    stepped: float | None = None
    ends: float | None = None
    _first: tuple[int, float] | None = None
    _last: tuple[int, float] | None = None
    _took: list[float] = field(default_factory=list)
    _told: float = 0.0

    def begin(self, now: float) -> None:
        """Start a new attempt and forget the steps of the one before."""
        self.heard, self.stepped, self.ends = now, None, None
        self._first = self._last = None
        self._took.clear()
        self._told = 0.0

    def step(self, step: int, total: int | None, now: float) -> float | None:
        """Record a step. Returns the seconds until the last step, where the pace so far allows an estimate."""
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
        """The usual time of a step in seconds; None until two steps were seen."""
        return statistics.median(self._took) if self._took else None

    def late(self, now: float) -> bool:
        """Whether the next step is so late that an estimate of the end is no longer worth showing."""
        usual = self.usual
        return usual is not None and self.stepped is not None and now - self.stepped > max(LATE_SECONDS, LATE * usual)

    def stands(self, now: float) -> str:
        """Why the run counts as stalled, or an empty string."""
        usual = self.usual
        if self.stepped is not None and usual is not None:
            age = now - self.stepped
            if age < max(STALL_SECONDS, STALL_FACTOR * usual):
                return ""
            return f"no step for {duration(age)}, where a step took {usual:.2g} s"
        since = max((moment for moment in (self.heard, self.stepped) if moment is not None), default=now)
        return f"no line in its log for {duration(now - since)}" if now - since >= SILENT_SECONDS else ""

    def news(self, now: float) -> str:
        """The same, but only when a stall begins and each time its length has doubled; else an empty string."""
        text = self.stands(now)
        since = self.stepped if self.stepped is not None and self.usual is not None else self.heard
        if not text or since is None or now - since < self._told:
            return ""
        self._told = 2 * (now - since)
        return text
