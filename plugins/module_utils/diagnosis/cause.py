# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events to one cause: which of them is the root, and which follow from it.

Earliest first, not last or loudest: an exception of any rank goes before what the other ranks say because of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.events import (
    CARRIER,
    LAUNCHER,
    Event,
    FileEvents,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    DECISIVE,
    ECHO,
    LIMIT,
    RAISED,
    WEAK,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.times import YEAR

_CANCELLED, _KILLED = "preempted_or_cancelled", "host_oom_killed"
HEALTHY = "healthy"
UNKNOWN = "unknown"
# A launcher gives up.
_FINAL = re.compile(r"srun: error: |ChildFailedError|Force Terminated|mpirun (?:detected|noticed)")
# So many steps after an exception mean that the program went on.
WENT_ON = 8
BARS = 30
# So many seconds the clocks of two nodes may differ, and from this strength on an exception's wording is known.
SKEW = 300.0
KNOWN = LIMIT
# These end a process, whatever words of a normal end a wrapper says afterwards.
_ENDS = ("crash", "host_oom_killed")


@dataclass(frozen=True)
class Cause:
    """The family and its root event (None: healthy). `confidence`: high, medium or low. `followed`: what came after."""

    family: str
    root: Event | None
    confidence: str
    followed: tuple[Event, ...] = ()


def find_cause(logs: Sequence[FileEvents]) -> Cause:
    """The cause of the newest run in these logs."""
    events = [event for log in logs for event in in_chains(current(log))]
    ordered = events
    # Without clocks everywhere each file's own order is all there is.
    clocks = all(event.time is not None for event in events)
    if len(logs) > 1 and clocks:
        ordered = sorted(events, key=_clock(events))
    root, confidence = _root(ordered, SKEW if clocks else float("inf"))
    if root is None:
        return Cause(HEALTHY, None, "high")
    return Cause(root.family, root, confidence, tuple(event for event in ordered if event is not root))


def _clock(events: Sequence[Event]) -> Callable[[Event], float]:
    """When an event was, where none states the year: after New Year's Eve January is later than December."""
    first = max((event.time or 0.0 for event in events), default=0.0) - YEAR / 2
    return lambda event: (event.time or 0.0) + (YEAR if (event.time or 0.0) < first else 0.0)


def current(log: FileEvents) -> list[Event]:
    """The events of a log's newest run, without those that the program lived through."""
    events = [event for event in log.events if event.run == log.runs]
    failed = [event for event in events if event.family == LAUNCHER or event.strength >= LIMIT]
    last_failure = max((event.line for event in failed), default=0)
    kept = []
    for event in events:
        if event.strength < LIMIT and log.done and event.line > log.done and not last_failure > event.line:
            continue
        if event.strength <= WEAK and 0 < log.last_step < event.line and not last_failure > event.line:
            # What a script sweeps up after the last step of all.
            continue
        if not _lived_through(event, log, events, last_failure):
            kept.append(event)
    return kept


def _lived_through(event: Event, log: FileEvents, events: Sequence[Event], last_failure: int) -> bool:
    """Whether the program went on after an event as if it were nothing: many steps, or a normal end."""
    lived_on = log.progress - event.progress >= WENT_ON
    # It made the last step of all, and no launcher complained of a rank: torchrun itself may have begun anew.
    complained = any(other.line > event.line and _FINAL.search(other.text) for other in events)
    at_the_end = log.last_step > event.line and not complained
    ended_well = at_the_end or (log.done > event.line and not last_failure > event.line)
    if ECHO < event.strength < CARRIER and (lived_on or (ended_well and event.family not in _ENDS)):
        return True
    # What was printed before an exception may come after it, out of a buffer: steps alone are no proof.
    later = any(other.progress - event.progress >= WENT_ON and other.strength >= WEAK for other in events)
    # A progress bar is not buffered: the program, or the next run in the same file, went on.
    ended = any(other.family == LAUNCHER and other.line > event.line for other in events)
    bars = log.bars - event.bars >= BARS and not log.ranks and not ended
    return event.strength <= CAUSE and ((lived_on and (later or ended_well)) or bars)


def in_chains(events: Sequence[Event]) -> list[Event]:
    """Of exceptions that were raised one from another only the one that explains: the first of a direct chain, else
    the first whose wording is known, else the last."""
    kept: list[Event] = []
    last: dict[tuple[str, int | None, str | None], int] = {}
    for event in events:
        before = last.get(event.stream)
        if event.after and before is not None and kept[before].strength < RAISED >= event.strength:
            # What nobody knows, raised because another rank went away: an echo as well.
            continue
        if event.after and before is not None and kept[before].strength >= RAISED:
            earlier = kept[before]
            known = event.strength >= CAUSE and earlier.strength < LIMIT
            if earlier.strength >= event.strength or (event.after == "direct" and not known):
                continue
            kept[before] = event
        else:
            last[event.stream] = len(kept)
            kept.append(event)
    return kept


def _first_raised(raised: Sequence[Event], skew: float) -> Event:
    """The earliest, unless it is one that nobody knows and another file has one whose wording is known: clocks of two
    nodes may differ by `skew` seconds."""
    first = raised[0]
    if first.strength >= KNOWN:
        return first
    for event in raised:
        near = event.time is None or first.time is None or abs(event.time - first.time) <= skew
        if event.file != first.file and event.strength >= KNOWN and near:
            return event
    return first


def _root(events: Sequence[Event], skew: float) -> tuple[Event | None, str]:
    decisive = [event for event in events if event.strength >= DECISIVE]
    if decisive:
        return decisive[0], "high"
    raised = [event for event in events if event.strength >= RAISED]
    if raised:
        first = _first_raised(raised, skew)
        return first, "high" if first.strength >= LIMIT else "medium"
    symptoms = _without_victims([event for event in events if event.strength > ECHO])
    if symptoms:
        strongest = max(event.strength for event in symptoms)
        first = next(event for event in symptoms if event.strength == strongest)
        return first, "medium" if strongest >= WEAK else "low"
    return (events[0], "low") if _failed(events) else (None, "high")


def _without_victims(symptoms: list[Event]) -> list[Event]:
    """Who is killed after the step was cancelled, by somebody, was not killed for its memory."""
    if symptoms and symptoms[0].family == _CANCELLED:
        return [event for event in symptoms if event.family != _KILLED]
    return symptoms


def _failed(events: Sequence[Event]) -> bool:
    return any(event.family == LAUNCHER for event in events)
