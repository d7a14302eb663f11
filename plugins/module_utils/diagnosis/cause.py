# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find one cause in events: which of them is the root, and which follow from it.

The earliest event counts, not the last or most frequent: an exception of any rank precedes the messages that other
ranks log because of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import phrases
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.event import (
    CANCELLED,
    HANG,
    LAUNCHER,
    QUIET,
    UNEXPLAINED,
    Event,
    FileEvents,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.last_words import IN_THE_PROGRAM
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.lines import YEAR
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    DECISIVE,
    ECHO,
    HINT,
    LIMIT,
    RAISED,
    WEAK,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.streams import BELOW, CARRIER
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.survival import CAUGHT, lasting

_KILLED = "host_oom_killed"
_PRIVATE_TMP = "private_tmp"
HEALTHY = "healthy"
UNKNOWN = "unknown"
# A rank ended otherwise than by a kill, or the launcher began to end the others.
_STEP_ENDED = re.compile(
    r"Terminating StepId|Job step aborted|CANCELLED AT|"
    r"srun: error: \S+: tasks? [\d,-]+: (?:Exited|Aborted|Segmentation|Bus|Illegal|Floating)|"
    r"Sending process \d+ closing signal"
)
# What a process says while a signal from outside ends it.
_DYING = re.compile(
    r"SIGTERM|SIGINT|SIGUSR|[Ss]ignal (?:15|2|10)\b|killed by signal|[Tt]erminated\b|[Ii]nterrupted|KeyboardInterrupt|"
    "SystemExit"
)
# srun has ended the step: what its processes raise after that follows from it.
_STEP_GONE = re.compile(r"Terminating StepId|Job step aborted|\*\*\* STEP .*CANCELLED AT")
# Slurm has ended the job: its private /tmp goes, while processes may still ask for it.
_JOB_ENDED = re.compile(r"\*\*\* JOB \S+ ON \S+ CANCELLED AT")
# A batch script prepared nothing for the program, and started it all the same.
_SET_UP = re.compile(rf"{phrases.NOT_ACTIVATED}|CondaHTTPError|: cd: |fatal: unable to access|Could not resolve host")
# A look-up that failed: functions try whether they have something.
_LOOKED_UP = re.compile(r"(?:KeyError|LookupError|StopIteration)\b")
# How a process ends that a watchdog aborts.
_ABORTS = re.compile(r"[Aa]bort|terminate called|SIGABRT|exitcode: -6")
# What Slurm, another batch system or a parser of arguments says as it ends a program.
_LAST_LINE = re.compile(
    r"slurmstepd|srun: |sbatch: |salloc: |\[[\dT:.-]+\] error: |=>> PBS|TERM_|\S+: (?:error: |can't open file)"
)
# Up to so many lines after Ctrl-C a program says what it ends with.
INTERRUPTED = 40
# Up to so many lines below its report an installer shows the traceback of a build.
BUILD = 60
# The clocks of two nodes may differ by SKEW seconds. From strength KNOWN on, the wording of an exception is known.
SKEW = 300.0
KNOWN = LIMIT
_CAUSED_BY = re.compile(r"\W*[Cc]aused by: ")
_DIGITS = re.compile(r"\d+")
# Families of a connection that does not come about, and how often a rank tries it in vain before that is the cause of a
# cancellation: who waited for it gave up.
CONNECTIONS, IN_VAIN = ("rendezvous_failure", "gloo_interface", "nccl_network", "offline"), 3
# From this many different causes on, a file contains more than one run.
MANY = 3


@dataclass(frozen=True)
class Cause:
    """The family and its root event (None: healthy, or unknown). `confidence`: high, medium, low.

    `followed`: the other events.
    """

    family: str
    root: Event | None
    confidence: str
    followed: tuple[Event, ...] = ()


def find_cause(logs: Sequence[FileEvents], *, failed: bool = False) -> Cause:
    """The cause of the newest run in these logs. `failed`: it is known that it failed, so nothing is called healthy."""
    cause = _cause([(log, in_chains(lasting(log))) for log in logs])
    if cause.root is None and failed:
        # What the program seems to have survived, it did not.
        cause = _cause([(log, in_chains([event for event in log.events if event.run == log.runs])) for log in logs])
        return Cause(UNKNOWN, None, "low") if cause.root is None else replace(cause, confidence="low")
    return cause


def _cause(events_of: Sequence[tuple[FileEvents, list[Event]]]) -> Cause:
    events = [event for _log, events in events_of for event in events]
    logs = [log for log, _events in events_of]
    ordered = events
    # Unless all events have a time, only the order within each file is known.
    clocks = all(event.time is not None for event in events)
    if len(logs) > 1 and clocks:
        ordered = sorted(events, key=_clock(events))
    all_events = [event for log in logs for event in log.events]
    root, confidence = _root(_without_ends(ordered), SKEW if clocks else float("inf"), all_events)
    if root is None:
        return _without_cause(logs)
    if confidence == "high" and root.strength < DECISIVE and (_mixed(root, ordered) or _went_on(root, events_of)):
        confidence = "medium"
    followed = [event for event in ordered if event is not root]
    if root.family in (CANCELLED, HANG):
        # Slurm kills what does not end by itself.
        followed = [event for event in followed if event.family != _KILLED or event.strength >= LIMIT]
    return Cause(root.family, root, confidence, tuple(followed))


def _mixed(root: Event, events: Sequence[Event]) -> bool:
    """Whether its file has failures that one run does not have: several runs or programs whose limits are not known."""
    same = [event for event in events if event.file == root.file]
    if len({event.family for event in same if event.strength >= CAUSE}) >= MANY:
        return True
    if any(event.family == LAUNCHER or event.rank is not None for event in same):
        return False
    later = (event for event in same if event.line > root.line and event.family != root.family and not event.after)
    return any(event.strength >= RAISED or event.text.startswith("KeyboardInterrupt") for event in later)


def _went_on(root: Event, events_of: Sequence[tuple[FileEvents, list[Event]]]) -> bool:
    """Whether its file goes on for long after it and shows no other event: something was not ended by it."""
    log, events = next((log, events) for log, events in events_of if log.file == root.file)
    quoted = not (phrases.EXCEPTION.match(root.text) or _LAST_LINE.match(root.text))
    alone = quoted and all(event.family == root.family for event in events)
    few = (root.caught or alone) and not (log.ranks or log.several)
    return log.lines - max(event.line for event in events) > (CAUGHT if few else QUIET)


def _without_cause(logs: Sequence[FileEvents]) -> Cause:
    """Healthy only with a proof: a normal end, or steps until the end. Otherwise nothing is known."""
    if any(log.finished and not _only_echoed(log) for log in logs):
        return Cause(HEALTHY, None, "high")
    if any(log.to_the_end and not log.complains for log in logs):
        return Cause(HEALTHY, None, "medium")
    return Cause(UNKNOWN, None, "low")


def _only_echoed(log: FileEvents) -> bool:
    """Whether only a line that a script may echo reports a normal end, and something was complained of before."""
    return log.echoed and any(event.run == log.runs and event.strength > HINT for event in log.events)


def _clock(events: Sequence[Event]) -> Callable[[Event], float]:
    """A sort key by time. Log times carry no year: around New Year, January counts as later than December."""
    first = max((event.time or 0.0 for event in events), default=0.0) - YEAR / 2
    return lambda event: (event.time or 0.0) + (YEAR if (event.time or 0.0) < first else 0.0)


def in_chains(events: Sequence[Event]) -> list[Event]:
    """Reduce chained exceptions to the one that explains the failure.

    This is the first of a direct chain, else the first whose wording is known, else the first that is more than the
    failed look-up with which a function tries whether it has something.
    """
    kept: list[Event] = []
    last: dict[tuple[str, int | None, str | None, str], int] = {}
    for event in events:
        before = last.get(event.stream)
        if event.after and before is not None and kept[before].strength < CARRIER and event.strength <= RAISED:
            # An unknown exception, raised because another rank was lost: an echo as well. Or all of the chain is weak.
            if WEAK <= kept[before].strength < event.strength < CARRIER:
                kept[before] = event
            continue
        if event.after and before is not None and kept[before].strength >= RAISED:
            earlier = kept[before]
            # The program handled the earlier one, and waited or tried again when it was interrupted.
            interrupted = event.top and event.text.startswith("KeyboardInterrupt")
            if interrupted or _was_a_trial(earlier, event):
                kept[before] = event
                continue
            known = event.strength >= CAUSE and earlier.strength < LIMIT
            if earlier.strength >= event.strength or (event.after == "direct" and not known):
                kept[before] = _placed(earlier, event)
                continue
            kept[before] = event
        else:
            last[event.stream] = len(kept)
            kept.append(event)
    return kept


def _placed(earlier: Event, later: Event) -> Event:
    """The earlier exception of a chain, at the place of the later one if only that one came through the program."""
    if earlier.family != UNEXPLAINED or earlier.what == IN_THE_PROGRAM or later.what != IN_THE_PROGRAM:
        return earlier
    captured = {**dict(later.captured), "raised": dict(earlier.captured).get("raised", earlier.text)}
    return replace(earlier, what=later.what, remedy=later.remedy, captured=tuple(captured.items()))


def _was_a_trial(earlier: Event, event: Event) -> bool:
    """Whether a function tried a look-up, and the exception is of what it did where that failed."""
    tried = event.after == "during" and earlier.family == event.family and bool(_LOOKED_UP.match(earlier.text))
    return tried and not _LOOKED_UP.match(event.text)


def _first_raised(raised: Sequence[Event], skew: float) -> Event:
    """The earliest exception, or a known one of another file within `skew` seconds if the earliest is not known.

    The clocks of two nodes may differ by `skew` seconds.
    """
    first = raised[0]
    if first.strength >= KNOWN:
        return first
    for event in raised:
        near = event.time is None or first.time is None or abs(event.time - first.time) <= skew
        if event.file != first.file and event.strength >= KNOWN and near:
            return event
    return first


def _reason_below(first: Event, events: Sequence[Event]) -> Event:
    """The reason that an installer gives below what it could not do, in its words or in those of a build; else that."""
    if first.family != "build":
        return first
    below = [event for event in events if event.file == first.file and 0 < event.line - first.line <= BUILD]
    reasons = (event for event in below if event.family == "build" and event.strength > first.strength)
    caused = (event for event in below if event.strength >= CAUSE and _CAUSED_BY.match(event.text))
    return next((event for event in caused if event.line - first.line <= BELOW), next(reasons, first))


def _set_up_before(first: Event, events: Sequence[Event]) -> Event | None:
    """What failed in the batch script before its program lacked a package or a file."""
    if first.family not in ("import_error", "file_missing") or first.rank is not None:
        return None
    earlier = (event for event in events if event.file == first.file and event.line < first.line)
    return next((event for event in earlier if _SET_UP.search(event.text)), None)


def _tried_in_vain(events: Sequence[Event], all_events: Iterable[Event]) -> Event | None:
    """The first failure of a connection that a rank tried again and again, until the job was cancelled.

    `all_events`: also those of runs before: an exception that the rank handled looks like the end of a run.
    """
    tries = Counter(_trial(event) for event in all_events if event.strength >= WEAK)
    failed = (event for event in events if event.family in CONNECTIONS and event.strength >= WEAK)
    return next((event for event in failed if tries[_trial(event)] >= IN_VAIN), None)


def _trial(event: Event) -> tuple[object, ...]:
    """What the tries of one connection have in common: no step was made between them."""
    return (event.family, event.progress, *event.stream)


def complained_often(root: Event, followed: Sequence[Event]) -> bool:
    """Whether one process complained of the same again and again: it has tried already, and another try is no help."""
    shape = _DIGITS.sub("#", root.text)
    alike = (event for event in followed if event.stream == root.stream and event.family == root.family)
    return sum(_DIGITS.sub("#", event.text) == shape for event in alike) >= IN_VAIN - 1


def _root(events: Sequence[Event], skew: float, all_events: Sequence[Event]) -> tuple[Event | None, str]:
    decisive = [event for event in events if event.strength >= DECISIVE]
    if decisive:
        return decisive[0], "high"
    raised = [event for event in events if event.strength >= RAISED]
    if raised:
        first = _first_raised(raised, skew)
        before = _set_up_before(first, events)
        if before is not None:
            return before, "medium"
        first = _reason_below(first, raised)
        outside = [event for event in raised if event.strength == LIMIT]
        first = outside[0] if outside and _DYING.search(first.text) else first
        in_vain = _tried_in_vain(events, all_events) if first.family == CANCELLED else None
        if in_vain is not None:
            return in_vain, "medium"
        return first, "high" if first.strength >= LIMIT else "medium"
    symptoms = _without_victims(_without_names([event for event in events if event.strength > ECHO]), events)
    if symptoms:
        strongest = max(event.strength for event in symptoms)
        first = next(event for event in symptoms if event.strength == strongest)
        return first, "medium" if strongest >= WEAK else "low"
    failed = [event for event in events if event.family == LAUNCHER]
    return (failed[0], "low") if failed else (None, "high")


@dataclass
class _Ends:
    """What has ended the processes of one file so far, and what was known before that."""

    explained: bool = False
    raised: bool = False
    exited: bool = False
    step_gone: bool = False
    watchdog: bool = False
    job_ended: bool = False
    interrupt: Event | None = None

    def explains(self, event: Event) -> bool:
        """Whether a process, or slurmstepd, says this only because something else ends it."""
        if event.family == _PRIVATE_TMP and self.job_ended:
            return True
        if not ECHO < event.strength < DECISIVE:
            return False
        aborted = self.watchdog and event.family == "crash" and bool(_ABORTS.search(event.text))
        if aborted or event.strength == LIMIT:
            return aborted
        if self.step_gone and self.explained and (event.family != CANCELLED or self.exited):
            return True
        first = self.interrupt
        return first is not None and event.line - first.line <= INTERRUPTED and event.progress == first.progress

    def note(self, event: Event) -> None:
        """Take account of an event that counts."""
        gone = bool(_STEP_GONE.search(event.text))
        self.step_gone |= gone
        self.job_ended |= bool(_JOB_ENDED.search(event.text)) and not phrases.REQUEUED.search(event.text)
        self.exited |= "Exited with exit code" in event.text
        victim = self.step_gone and event.family == _KILLED
        self.explained |= not (gone or victim) and event.strength > ECHO + 4
        self.watchdog |= event.family == "collective_timeout"
        if event.text.startswith("KeyboardInterrupt") and not self.raised and self.interrupt is None:
            self.interrupt = event
        self.raised |= event.strength >= RAISED


def _without_ends(events: Sequence[Event]) -> list[Event]:
    """Drop what processes say while something else ends them: srun, Ctrl-C, or a watchdog, earlier in their file."""
    kept: list[Event] = []
    ends: dict[str, _Ends] = {}
    for event in events:
        file = ends.setdefault(event.file, _Ends())
        if not file.explains(event):
            file.note(event)
            kept.append(event)
    return kept


def _without_names(symptoms: list[Event]) -> list[Event]:
    """Drop what C++ says of an exception without a reason, where its reason is known as well."""
    if not any("what():" in event.text[:12] for event in symptoms):
        return symptoms
    return [event for event in symptoms if not event.text.startswith("terminate called")]


def _without_victims(symptoms: list[Event], events: Sequence[Event]) -> list[Event]:
    """Drop kills that followed the end of the step: the launcher killed these ranks, not the kernel."""
    if symptoms and symptoms[0].family == CANCELLED:
        return [event for event in symptoms if event.family != _KILLED]
    ended: set[str] = set()
    victims = set()
    for place, event in enumerate(events):
        if event.family == _KILLED and event.strength < LIMIT and event.file in ended:
            victims.add(place)
        elif event.family != _KILLED and _STEP_ENDED.search(event.text):
            ended.add(event.file)
    # By identity: thousands of ranks may be among them.
    dropped = {id(events[place]) for place in victims}
    return [event for event in symptoms if id(event) not in dropped]
