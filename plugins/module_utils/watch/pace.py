# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pace of a run's steps: the time left, and whether the run stalls. Pure."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import duration
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import (
    LATE,
    LATE_SECONDS,
    STALL_FACTOR,
    STALL_SECONDS,
    is_last,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.event import Event
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.slowing import Slowing

# How long (seconds) steps are observed before their pace gives an estimate of the end.
PACE_SECONDS = 10.0
# The same for a run whose steps have no time: seconds without a new line in the log; what a look at the ranks shows
# counts from STALL_SECONDS on. A wait that has just begun, and may see an old log first, watches for so long before.
SILENT_SECONDS, WATCHED_SECONDS = 300.0, 10.0
# A look at the ranks that names none of them is repeated after so many seconds, so often: the nodes of a busy cluster
# answer late, and a rank may be on its way to where it will hang.
AGAIN_SECONDS, AGAIN = 20.0, 3
# The usual step time is the median of this many steps.
KEPT = 64


@dataclass
class Pace:
    """Times are seconds of the caller's monotonic clock.

    `heard`: when the log last grew; `stepped`: when the newest step was first seen; `ends`: the expected end; `blamed`:
    when the log had last grown as a look at the ranks showed which of them the others wait for, and what it said of
    them; `worked`: when it had at a look that showed an evaluation or a checkpoint. `_told`, `_looked`: when the log
    had last grown, and the age at which the silence is told of next, or looked at. `_again`: when the log had last
    grown before looks that named none, when the next one is due, and how many follow it.
    """

    heard: float | None = None
    stepped: float | None = None
    ends: float | None = None
    blamed: tuple[float, str] | None = None
    worked: float | None = None
    slowing: Slowing = field(default_factory=Slowing)
    _begun: float = 0.0
    _watched: float = 0.0
    _first: tuple[int, float] | None = None
    _last: tuple[int, float] | None = None
    _took: list[float] = field(default_factory=list)
    _over: bool = False
    _told: tuple[float, float] = (0.0, 0.0)
    _looked: tuple[float, float] = (0.0, 0.0)
    _again: tuple[float, float, int] = (0.0, math.inf, 0)

    def begin(self, now: float, age: float = 0.0) -> None:
        """Start a new attempt, which is that old already, and forget the steps of the one before."""
        self._begun = now - age
        self.heard, self.stepped, self.ends, self._watched = now, None, None, now
        self.blamed, self.worked, self.slowing = None, None, Slowing(now)
        self._first, self._last, self._over = None, None, False
        self._took.clear()

    def step(self, step: int, total: int | None, now: float) -> float | None:
        """Record a step. Returns the seconds until the last step, where the pace so far allows an estimate."""
        if self._last is None or step < self._last[0]:
            self._first = self._last = (step, now)
            self.stepped = now
        elif step > self._last[0]:
            before, since = self._last
            took_one = (now - since) / (step - before)
            self._took = [*self._took, took_one][-KEPT:]
            self._last, self.stepped = (step, now), now
        self._over = is_last(step, total)
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
        """The usual time of a step in seconds, where another is to come; None until two steps were seen."""
        return statistics.median(self._took) if self._took and not self._over else None

    def late(self, now: float) -> bool:
        """Whether the next step is so late that an estimate of the end is no longer worth showing."""
        usual = self.usual
        return usual is not None and self.stepped is not None and now - self.stepped > max(LATE_SECONDS, LATE * usual)

    def attach(self, written: float, steps: list[int]) -> None:
        """Take over what the log showed before the wait began: when it was written, and the steps in it.

        Their time is at most that since the start: steps before them, and the start itself, took a part of it.
        """
        self.heard, self.stepped = written, written if steps else None
        if len(steps) > 1 and steps[-1] > steps[0] and written > self._begun and not self._took:
            self._took.append((written - self._begun) / (steps[-1] - steps[0]))

    def stands(self, now: float) -> str:
        """Why the run counts as stalled, or an empty string."""
        if now - self._watched < WATCHED_SECONDS:
            return ""
        usual = self.usual
        if self.worked == self._grew(now) and now - self._grew(now) < SILENT_SECONDS:
            return ""
        if self.stepped is not None and usual is not None:
            age = now - self.stepped
            if age < max(STALL_SECONDS, STALL_FACTOR * usual):
                return ""
            return f"no step for {duration(age)}, where a step took {usual:.2g} s"
        since = self._grew(now)
        limit = STALL_SECONDS if self.blamed is not None and self.blamed[0] == since else SILENT_SECONDS
        return f"no line in its log for {duration(now - since)}" if now - since >= limit else ""

    def _since(self, now: float) -> float:
        """When a silence began: with the newest step where another is due, else with the newest line."""
        return self.stepped if self.stepped is not None and self.usual is not None else self._grew(now)

    def _grew(self, now: float) -> float:
        return max((moment for moment in (self.heard, self.stepped) if moment is not None), default=now)

    def news(self, now: float) -> str:
        """The same, but only when a stall begins and each time its length has doubled; else an empty string."""
        text = self.stands(now)
        since = self._since(now)
        if not text or now - since < _due(self._told, since):
            return ""
        self._told = (since, 2 * (now - since))
        return text

    def silent(self, now: float) -> bool:
        """Whether the ranks of a run whose steps have no time yet should be looked at: its log has not grown for a
        minute, and each minute again; after SILENT_SECONDS, each time that has doubled. A program that still imports
        its modules at one look may hang at the next, and after one hang there may be another.
        """
        since = self._grew(now)
        age = now - since
        timed = self.stepped is not None and self.usual is not None
        if timed or now - self._watched < WATCHED_SECONDS or age < max(STALL_SECONDS, _due(self._looked, since)):
            return False
        self._looked = (since, age + STALL_SECONDS if age < SILENT_SECONDS else 2 * age)
        return True

    def events(self, now: float, rest: str) -> list[Event]:
        """News of a run that stands still (`rest`: what is said besides), or whose ranks should be looked at."""
        text, slower, silent = self.news(now), self.slowing.slower(), self.silent(now)
        if text:
            return [Event("stalled", f"{text}: it stands still{rest}")]
        if slower is not None:
            return [Event("slow", "", paces=slower)]
        return [Event("quiet", "")] if silent or self._repeats(now) else []

    def due(self, now: float) -> float:
        """In how many seconds the ranks are to be looked at, if nothing comes until then; endless where they were."""
        usual, since = self.usual, self._grew(now)
        begins = since + STALL_SECONDS
        if self.stepped is not None and usual is not None:
            begins = self.stepped + max(STALL_SECONDS, STALL_FACTOR * usual)
        moments = [begins, self._again[1] if self._again[0] == since else math.inf]
        return min((moment - now for moment in moments if moment > now), default=math.inf)

    def unnamed(self, now: float) -> None:
        """A look has named no rank: look again soon, a few times, unless the log grows."""
        since = self._grew(now)
        left = self._again[2] - 1 if self._again[0] == since else AGAIN - 1
        self._again = (since, now + AGAIN_SECONDS if left >= 0 else math.inf, left)

    def _repeats(self, now: float) -> bool:
        """Whether a look that named no rank is to be repeated now."""
        since, due, left = self._again
        if since != self._grew(now) or now < due:
            return False
        self._again = (since, math.inf, left)
        return True

    def silence(self, now: float) -> float:
        """For how many seconds there was neither a step nor a line."""
        return now - self._grew(now)

    def work(self, now: float) -> None:
        """A look has shown that the ranks evaluate or save: the run stands still only if that takes long."""
        self.worked = self._grew(now)

    def blame(self, now: float, culprit: str = "") -> bool:
        """A look has shown which rank the others wait for: until the log grows, the run stands still. Whether no look
        at this silence has said the same.
        """
        since, before = self._since(now), self.blamed
        self.blamed = (since, culprit)
        if _due(self._told, since) == 0.0:
            self._told = (since, 2 * (now - since))
        return before != self.blamed


def _due(done: tuple[float, float], since: float) -> float:
    """The age at which a silence is told of or looked at next: of one that began after the last of these, at once."""
    return done[1] if done[0] == since else 0.0
