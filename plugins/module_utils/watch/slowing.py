# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the steps of a run take longer than they once did, from looks at its log. Pure.

A look shows the steps that are new in the log, and when the log was written last. Where the lines give times, these
count. Else the time between the newest lines of two looks does, which holds any evaluation or checkpoint between them.
So no average decides, but the quick ones of some looks: all of them are slow where the steps are.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.values import step_times

# Steps are slow from so many times their usual time on, uneven ones from more, in looks of so many seconds, and in so
# many of them.
SLOWER, UNEVEN_SLOWER, SLOW_SECONDS, LOOKS = 1.25, 2.0, 60.0, 4
# The usual time is known from so many steps on. Of the looks before, so many are kept, evenly over the run.
STEPS, KEPT = 5, 64
# A look is uneven if the log had been silent before it for so many times the time between two of its lines, as it is by
# an evaluation, or where a file system shows lines late. Steps are even if so many of the looks are.
SILENT, EVEN = 1.5, 0.85


@dataclass(frozen=True)
class _Look:
    """`seconds`: since the look before with a step; `took`: seconds of a step."""

    steps: int
    seconds: float
    took: float
    even: bool = True


@dataclass
class _Usual:
    """The usual time of a step: `took`, in seconds, None until it is known."""

    took: float | None = None
    steps: int = 0
    _kept: list[float] = field(default_factory=list)
    _every: int = 1
    _skipped: int = 0

    def add(self, look: _Look, least: int) -> None:
        """Let a look count, once there are `least` of them."""
        self.steps += look.steps
        self._skipped += 1
        if self._skipped < self._every:
            return
        self._skipped = 0
        self._kept.append(look.took)
        if len(self._kept) >= KEPT:
            del self._kept[::2]
            self._every *= 2
        if self.steps >= STEPS and len(self._kept) >= least:
            # What slow steps add later makes nothing usual.
            quick = _quick(self._kept)
            self.took = quick if self.took is None else min(quick, self.took)


@dataclass
class Slowing:
    """Times are seconds of one clock. Add looks; `slower` says what they show. `looked`: when the last one was."""

    looked: float | None = None
    _newest: tuple[int, float] | None = None
    _told: tuple[float, float] = (1.0, 1.0)
    _seconds: float = SLOW_SECONDS
    _even: _Usual = field(default_factory=_Usual)
    _uneven: _Usual = field(default_factory=_Usual)
    _late: list[_Look] = field(default_factory=list)

    def add_look(self, lines: Sequence[tuple[int, str]], written: float, now: float) -> None:
        """See the lines with a step that are new in the log, oldest first, or none. `written`: when the log was last
        written.
        """
        before, self.looked = self.looked, now
        if not lines:
            return
        known, self._newest = self._newest, (lines[-1][0], written)
        newest = _read_look(known, lines, written, before)
        if newest is None:
            return
        self._late.append(newest)
        while len(self._late) > LOOKS and sum(look.seconds for look in self._late[1:]) >= self._seconds:
            past = self._late.pop(0)
            self._even.add(past, 1)
            if not past.even:
                self._uneven.add(past, LOOKS)

    def slower(self) -> tuple[float, float] | None:
        """(usual, new time of a step in seconds) when the newest steps take longer than they once did, and each time
        that has grown by half; None otherwise.
        """
        even = [look.took for look in self._late if look.even]
        usual, times, slower = self._even.took, even, SLOWER
        if len(even) < EVEN * len(self._late):
            # Their average holds pauses, and tells something only beside others that do.
            usual, times, slower = self._uneven.took, [look.took for look in self._late if not look.even], UNEVEN_SLOWER
        if usual is None or len(times) < LOOKS or sum(look.seconds for look in self._late) < self._seconds:
            return None
        if _quick(times) < slower * self._told[-1] * usual:
            return None
        took = statistics.median(times)
        self._told, self._seconds = (self._told[-1], took / usual), SLOW_SECONDS
        return usual, took

    def unproven(self) -> None:
        """Forget what was told: a look at the ranks has named none. It is told again where it lasts twice as long."""
        self._told, self._seconds = (self._told[0], self._told[0]), 2 * SLOW_SECONDS
        self._late.clear()


def _quick(times: Sequence[float]) -> float:
    """The time that one of eight falls below; of fewer, the least."""
    return sorted(times)[len(times) // 8]


def _read_look(
    known: tuple[int, float] | None, lines: Sequence[tuple[int, str]], written: float, before: float | None
) -> _Look | None:
    """What a look tells of the time of a step; None where it tells nothing. `known`: the newest step until then, and
    when the log was written with it; `before`: the time of the look before, None without one.
    """
    first, since = known or (lines[0][0], written)
    count, seconds = lines[-1][0] - first, written - since
    stated = step_times("\n".join(line for _step, line in lines))
    if stated:
        return _Look(len(stated), seconds, statistics.median(stated))
    if before is None or count <= 0:
        return None
    if known is None:
        # All of these came since the look before, which saw none.
        return _Look(count, 0.0, (written - before) / count) if count >= STEPS and written > before else None
    return (
        _Look(count, seconds, seconds / count, before - since <= SILENT * seconds / len(lines)) if seconds > 0 else None
    )
