# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the time of one attempt is divided: set-up, waiting for roles, start-up, steps, the rest. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.usage.attempt_spans import AttemptSpan
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.step_times import StepTimes

# The parts of the time for which a launch holds nodes. ROLES: the deciding role waits for others. IDLE: after the
# artifact, or after the last step.
SETUP, ROLES, STARTUP, STEPS, LOST = "set-up", "waiting for roles", "start-up", "steps", "lost"
CHECKPOINTS, STALLS, IDLE, UNKNOWN = "checkpoints", "stalls", "idle", "not known"
PARTS = (SETUP, ROLES, STARTUP, STEPS, LOST, CHECKPOINTS, STALLS, IDLE, UNKNOWN)


@dataclass(frozen=True)
class Limits:
    """A gap between two steps is a stall from this many usual steps and seconds on, as the wait and a diagnosis say."""

    factor: float
    seconds: float

    def stalled(self, gap: float, usual: float) -> bool:
        """Whether a gap (seconds) is a stall, where `usual` seconds are expected."""
        return gap >= max(self.seconds, self.factor * usual)


@dataclass(frozen=True)
class Segment:
    """A part of an attempt's time, in epoch seconds."""

    part: str
    began: float
    ended: float
    attempt: int | None = None


@dataclass(frozen=True)
class AttemptTimes(AttemptSpan):
    """The times of an attempt and of its steps. `resumed`: the first step of the next attempt that made steps."""

    resumed: int | None = None
    times: StepTimes = field(default_factory=StepTimes)


def divided(attempt: AttemptTimes, limits: Limits) -> list[Segment]:
    """The parts of an attempt, which follow each other from its begin to its end without a gap."""
    began, ended = attempt.began, max(attempt.began, attempt.ended)
    ranks = None if attempt.ranks is None or not began <= attempt.ranks <= ended else attempt.ranks
    marks = [(SETUP, ranks or began), (ROLES, min(attempt.waited or began, ended))]
    start = max(until for _part, until in marks)
    steps = [(step, min(max(at, start), ended), whole) for step, at, whole in attempt.times.steps]
    if not steps:
        marks += [(UNKNOWN, min(attempt.proven or ended, ended)), (IDLE, ended)]
    else:
        marks += [(STARTUP, steps[0][1])]
        usual = usual_seconds(steps)
        saves = [min(max(at, steps[0][1]), ended) for at in attempt.times.saves]
        marks += _between(steps, saves, usual, limits)
        marks += _after(attempt, (steps[-1][1], ended), saves, usual, limits)
    segments = list(_segments(marks, began, attempt.attempt))
    return _without_lost(segments, lost_from(attempt, steps))


def usual_seconds(steps: Sequence[tuple[int, float, bool]]) -> float:
    """The median time of a step; 0 where there is only one."""
    gaps = [
        (at - earlier) / max(1, step - before)
        for (before, earlier, _whole), (step, at, whole) in zip(steps, steps[1:])
        if whole and step > before
    ]
    return statistics.median(gaps) if gaps else 0.0


def lost_from(attempt: AttemptTimes, steps: Sequence[tuple[int, float, bool]]) -> float | None:
    """From when on the attempt's steps were repeated by a later attempt; None if none was, or if that is not known."""
    if attempt.resumed is None or not steps:
        return None
    repeated = next((index for index, (step, *_rest) in enumerate(steps) if step >= attempt.resumed), None)
    if repeated is None:
        return None
    at = steps[repeated][1]
    before = steps[repeated - 1][1] if repeated else at
    # Logs may show every tenth step only: a checkpoint in between is more precise.
    return max([before, *(save for save in attempt.times.saves if before < save <= at)])


def _between(
    steps: Sequence[tuple[int, float, bool]], saves: Sequence[float], usual: float, limits: Limits
) -> Iterator[tuple[str, float]]:
    """(part, its end) from the first step to the last one."""
    place = 0
    for (before, earlier, _whole), (step, at, whole) in zip(steps, steps[1:]):
        while place < len(saves) and saves[place] <= earlier:
            place += 1
        saved = place < len(saves) and saves[place] <= at
        gap, expected = at - earlier, usual * max(1, step - before)
        excess = max(0.0, gap - expected)
        if saved and excess:
            yield from ((STEPS, at - excess), (CHECKPOINTS, at))
        elif whole and limits.stalled(gap, expected):
            yield from ((STEPS, at - excess), (STALLS, at))
        else:
            yield STEPS, at


def _after(
    attempt: AttemptTimes, rest: tuple[float, float], saves: Sequence[float], usual: float, limits: Limits
) -> Iterator[tuple[str, float]]:
    """(part, its end) from the last step to the end of the attempt."""
    last, ended = rest
    saved = max((save for save in saves if save > last), default=None)
    if saved is not None:
        yield CHECKPOINTS, saved
    if attempt.proven is not None and (saved or last) < attempt.proven < ended:
        # Until the artifact is complete, the program works.
        yield STEPS, attempt.proven
    elif saved is not None:
        pass
    elif not attempt.succeeded and limits.stalled(ended - last, usual):
        yield from ((STEPS, min(ended, last + usual)), (STALLS, ended))
    elif attempt.runs:
        yield STEPS, ended
    yield IDLE, ended


def _segments(marks: Sequence[tuple[str, float]], began: float, attempt: int) -> Iterator[Segment]:
    """Consecutive segments from their ends; those of the same part that follow each other are one."""
    held: Segment | None = None
    for part, until in marks:
        end = max(until, began)
        if end == began:
            continue
        if held is not None and held.part == part:
            held = replace(held, ended=end)
        else:
            if held is not None:
                yield held
            held = Segment(part, began, end, attempt)
        began = end
    if held is not None:
        yield held


def _without_lost(segments: Sequence[Segment], since: float | None) -> list[Segment]:
    """The segments, where steps and the rest since that moment are lost. A stall stays one."""
    if since is None:
        return list(segments)
    result: list[Segment] = []
    for segment in segments:
        if segment.part not in (STEPS, IDLE, CHECKPOINTS) or segment.ended <= since:
            result.append(segment)
            continue
        cut = max(segment.began, since)
        if cut > segment.began:
            result.append(replace(segment, ended=cut))
        result.append(replace(segment, part=LOST, began=cut))
    return result
