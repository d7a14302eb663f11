# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which events of a file count: those of its newest run that its program did not survive."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.event import (
    CANCELLED,
    LAUNCHER,
    TEARDOWN,
    Event,
    FileEvents,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    DECISIVE,
    ECHO,
    HINT,
    LIMIT,
    MEANT,
    RAISED,
    WEAK,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.streams import CARRIER

# The messages of a launcher that gives up.
_FINAL = re.compile(r"srun: error: |ChildFailedError|Force Terminated|(?:mpi|prte)run (?:detected|noticed)")
# What a batch script needs to start the program; without any other command it goes on.
_PROGRAM = re.compile(
    r"(?:python|torchrun|srun|mpi|deepspeed|accelerate|uv$|apptainer|singularity|enroot|podman|docker)"
)
# How the shell and its tools begin what they complain of.
_SHELL = re.compile(
    r"\S+: line \d+: (?! *\d)|(?:find|cp|mv|ln|rm|mkdir|touch|chmod|tar|tee|cat|ls|source|rsync|wget|sed): "
)
# What argparse writes as it ends a program.
_REFUSED = re.compile(r"[^\s:(]+(?: \S+)?: error: ")
# This many steps after an exception mean that the program continued.
WENT_ON = 8
# So many lines after a command that was not found are of the program.
SCRIPT_WENT_ON = 30
# A function that catches what a single process raises may end it: so many lines further it has not. Nor has a line that
# is no exception: a text may quote it.
CAUGHT = 5
BARS = 30
# What a process writes to a file is held back up to this many bytes, and may appear after its exception.
BUFFERED = 16 << 10
# The other processes of a program that has ended write less than this.
MUCH = 256 << 10
# A process that a signal ends loses what it held back: more than this many bytes are of other processes.
UNBUFFERED = 4 << 10
_OF_A_CUT_FILE = ("data_error", "checkpoint")
_BUILD = "build"
# A run of so many lines is one, even without a step or a cause. Lines after a program refused its arguments that are of
# another program.
LONG, REFUSED = 400, 400
# What ranks raise that lack what the batch script should have prepared.
_LACKING = ("import_error", "file_missing", "checkpoint")
# These end a process, even if a wrapper logs a normal end afterwards.
_ENDS = ("crash", "host_oom_killed")


def lasting(log: FileEvents) -> list[Event]:
    """The events of a log's newest run, without those that the program survived."""
    events = _of_newest_run(log)
    failed = [
        event
        for event in events
        if (event.family == LAUNCHER or event.strength >= LIMIT) and not _restarted_after(event, log)
    ]
    last_failure = max((event.line for event in failed), default=0)
    kept: list[Event] = []
    survived: set[str] = set()
    for event in events:
        after_the_end = 0 < log.done < event.line <= log.done + TEARDOWN
        # An exception of the program itself ends it: what finished before was a part of its work.
        if event.strength < LIMIT and after_the_end and not last_failure > event.line and not event.top:
            continue
        if event.strength <= WEAK and 0 < log.last_step < event.line and not last_failure > event.line:
            # Messages of a script's cleanup after the very last step.
            continue
        if _of_a_script(event) and _script_went_on(event, log, last_failure):
            continue
        if event.family == _BUILD and _installed_less(event, log, events):
            continue
        if event.strength == HINT and not failed:
            continue
        if _before_its_ranks(event, log, events):
            continue
        again = event.text in survived and not event.top and (log.finished or _ends_later(events, event))
        if again or _lived_through(event, log, events, last_failure):
            survived.add(event.text)
        else:
            kept.append(event)
    return kept


def _ends_later(events: Sequence[Event], event: Event) -> bool:
    """Whether an exception of the program itself follows, which ended it."""
    return any(other.top and other.line > event.line for other in events)


def _restarted_after(event: Event, log: FileEvents) -> bool:
    """Whether many steps and a normal end follow: a launcher started its ranks again."""
    return log.progress - event.progress >= WENT_ON and log.done > event.line


def _of_a_script(event: Event) -> bool:
    """Whether a command of the batch script complained, not the program."""
    of_shell = event.strength < RAISED and event.family in ("file_missing", "permission_denied")
    return (event.family == "script_error" and event.strength < RAISED) or (of_shell and bool(_SHELL.match(event.text)))


def _of_the_program(event: Event) -> bool:
    """Whether the command that complained, or was not found, is what starts the program."""
    known = dict(event.captured)
    return bool(_PROGRAM.match(known.get("command") or known.get("path") or ""))


def _script_went_on(event: Event, log: FileEvents, last_failure: int) -> bool:
    """Whether a batch script that could not run a command ran the program all the same, before it or after it."""
    if event.progress and not last_failure:
        return True
    long_after = log.lines - event.line > SCRIPT_WENT_ON and not _of_the_program(event)
    ran = log.ran > event.line and not last_failure
    return log.progress > event.progress or log.bars > event.bars or long_after or ran


def _installed_less(event: Event, log: FileEvents, events: Sequence[Event]) -> bool:
    """Whether a script went on for long after it could not install a package, and nothing failed for want of it."""
    last = max(other.line for other in events if other.family == _BUILD)
    later = [other for other in events if other.line > event.line and other.family != _BUILD]
    failed = any(
        other.family in (LAUNCHER, *_ENDS) or (other.strength >= RAISED and other.strength != LIMIT) for other in later
    )
    return event.rank is None and log.lines - last > LONG and not failed


def _before_its_ranks(event: Event, log: FileEvents, events: Sequence[Event]) -> bool:
    """Whether a command of the batch script failed, and the ranks that srun labels started all the same.

    What it should have prepared they may lack.
    """
    if not event.top or event.rank is not None or event.strength >= DECISIVE or log.labelled < event.line:
        return False
    raised = (other for other in events if other.line > event.line and other.strength >= RAISED)
    return not any(other.rank is not None and other.family in _LACKING for other in raised)


def _of_newest_run(log: FileEvents) -> list[Event]:
    """The events of the newest run. A short run that only seems to begin, without a step or a cause, is none.

    Nor is one that shows nothing but that a launcher gave up, or ranks that Slurm killed for a reason that came before:
    then ranks of the same run logged later.
    """
    events = [event for event in log.events if event.run == log.runs]
    before = [event for event in log.events if event.run == log.runs - 1]
    nothing = log.steps == log.steps_before and not log.finished and log.lines - log.begun < LONG
    nothing = nothing or any(event.family == LAUNCHER for event in events)
    strongest = max((event.strength for event in events), default=ECHO)
    explained = strongest < RAISED and any(event.strength >= DECISIVE for event in before)
    if log.inferred and nothing and (strongest < WEAK or explained):
        return before + events
    if events and events[0].family in _OF_A_CUT_FILE and events[0].strength >= RAISED:
        # The full disk of the run before left a file behind that is cut short.
        events = [event for event in log.events if event.family == "disk_full" and event.run == log.runs - 1] + events
    while events and _is_outlived_signal(events[-1], log):
        events = events[:-1]
    ended = [event for event in events if _ends(event)]
    if ended and not log.finished and (_others_wrote_on(ended[-1], log) or _ran_on(ended[-1], log)):
        return [event for event in events if event.line > ended[-1].line]
    return events


def _ends(event: Event) -> bool:
    """Whether it ends a program."""
    refused = event.family == "usage" and bool(_REFUSED.match(event.text))
    return event.family in (LAUNCHER, *_ENDS) or event.strength >= RAISED or refused


def _is_outlived_signal(event: Event, log: FileEvents) -> bool:
    """Whether the file goes on after a signal that ends a process: another process, or the next run, wrote the rest."""
    if event.family != CANCELLED or event.strength > WEAK or log.ranks:
        return False
    stepped = log.progress > event.progress and log.to_the_end
    return stepped or log.ran > event.line or log.printed - event.printed > UNBUFFERED


def _others_wrote_on(event: Event, log: FileEvents) -> bool:
    """Whether the event ended its program, and the rest of the file is of another one.

    A single process prints no warning after its exception, and less than a buffer; several print less than MUCH.
    """
    if log.ranks or event is not log.events[-1] or event.family == LAUNCHER:
        return False
    if any(other.family == LAUNCHER or other.text == event.text for other in log.events[:-1]):
        return False
    printed = log.printed - event.printed
    alone = (event.top or bool(_REFUSED.match(event.text))) and not log.several
    return printed > MUCH or (alone and (log.ran > event.line or printed > BUFFERED))


def _ran_on(event: Event, log: FileEvents) -> bool:
    """Whether the program logged steps from the event until the end of the file: more than one buffer a rank holds."""
    steps = log.progress - event.progress + log.bars - event.bars
    if steps >= WENT_ON and log.printed - event.printed >= BUFFERED * max(1, len(log.ranks)) and log.to_the_end:
        return True
    if event.family == "usage" and event.strength == CAUSE and not log.ranks:
        # A program that refuses its arguments ends: a long log after that is of another one.
        return log.lines - event.line > REFUSED
    # A progress bar is not buffered.
    later = log.bars - event.bars >= WENT_ON and not log.ranks and event.family != LAUNCHER
    return later and log.lines - log.step_line <= TEARDOWN


def _lived_through(event: Event, log: FileEvents, events: Sequence[Event], last_failure: int) -> bool:
    """Whether the program continued after an event without a failure: many steps, or a normal end."""
    if event.top and log.several and not (event.process or log.ranks or log.finished or event.strength < WEAK):
        # Its other processes went on for a while.
        return False
    idle = log.progress + log.bars == event.progress + event.bars
    if idle and _of_a_script(event) and (log.echoed or _of_the_program(event)):
        # A script may say that all went well, whatever became of its program.
        return False
    if idle and event.family == CANCELLED and log.done > event.line and log.last_step <= event.line:
        # It ended in order because of the signal.
        return False
    lived_on = log.progress - event.progress >= WENT_ON
    # It made the last of all steps, and no launcher reported a rank: torchrun itself may have restarted them.
    complained = any(other.line > event.line and _FINAL.search(other.text) for other in events)
    at_the_end = log.last_step > event.line and not complained
    ended_well = at_the_end or (log.done > event.line and not last_failure > event.line)
    if ECHO < event.strength < CARRIER and (lived_on or (ended_well and event.family not in _ENDS)):
        return True
    ends_later = log.finished and max(log.done, log.last_step) > event.line
    if event.caught and event.strength < DECISIVE and ends_later and not complained and _no_end(events, event):
        return True
    last = max(other.line for other in events)
    if event.caught and event.process and event.strength <= MEANT and log.lines - last > CAUGHT:
        # A process of several logged it; who started it says so where it ended.
        return _no_end(events, event)
    # Buffered output of earlier steps may appear after an exception: steps alone are no proof.
    later = any(other.progress - event.progress >= WENT_ON and other.strength >= WEAK for other in events)
    # A progress bar is not buffered: the program continued, or the next run in the same file did.
    ended = any(other.family == LAUNCHER and other.line > event.line for other in events)
    bars = log.bars - event.bars >= BARS and not log.ranks and not ended
    return event.strength < DECISIVE and ((lived_on and (later or ended_well)) or bars)


def _no_end(events: Sequence[Event], after: Event) -> bool:
    """Whether nothing ended the program after an exception that it caught."""
    later = (event for event in events if event.line > after.line)
    return not any(event.top or event.family in (LAUNCHER, *_ENDS) or event.strength >= DECISIVE for event in later)
