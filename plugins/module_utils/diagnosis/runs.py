# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a new run begins in a file that several runs were appended to: nohup, `open-mode=append`, a loop.

Only the newest run counts. After the end of a run, another one begins where the file's first lines appear again, where
a launcher prints what it prints at its start, where a progress bar of steps begins at 0 %, where steps are counted from
the start again, where the clock jumps, where the same program raises again, or where Slurm names another job.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import phrases
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.event import LAUNCHER, Event, FileEvents
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.lines import Line, time_of
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import RAISED, WEAK
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.streams import Stream

# This many lines of the beginning of a file are compared, up to COMPARED characters of each, digits aside.
HEAD = 6
COMPARED = 80
SHORTEST = 12
# A line of the beginning that appears again within this many lines opens nothing.
ONCE = 400
# A run that begins with so many of the file's FIRST lines in a row, and then shows so many lines of its OWN, or so many
# in all, is one even if it shows nothing else. A script may print the state of its node at its end as well.
IN_A_ROW, FIRST, OWN, LONG = 2, 40, 5, 60
# Tracebacks, exceptions, steps and frames of a box appear in the middle of a run as well.
_OF_A_RUN = re.compile(
    rf"\W*\s|srun: |slurmstepd|{phrases.HEADER.pattern}|{phrases.DURING}|{phrases.DIRECT}|{phrases.EXCEPTION.pattern}|"
    rf".*(?:{phrases.PROGRESS})"
)
_NUMBERS = re.compile(r"[\d\s]+")
# torchrun and DeepSpeed print these once a node, before their ranks start.
_BANNER = re.compile(
    r"Setting OMP_NUM_THREADS environment variable for each process|\[runner\.py:\d+:main\] cmd = |"
    r"\[launch\.py:\d+:main\] WORLD INFO DICT|^Submitted batch job \d+$"
)
# Paddle's processes connect once. It names no rank, and each has a log of its own.
_CONNECTS = re.compile(
    r"I\d{4} [\d:.]+ +\d+ (?:gen_comm_id_helper\.cc:\d+\] Server listening|"
    r"tcp_utils\.cc:\d+\] (?:The server starts|Success)|nccl_context\.cc:\d+\] init nccl)"
)
# A batch script names its job at its start.
_JOB_LINE = re.compile(r"(?:SLURM_JOB_?ID|(?:Slurm |SLURM )?[Jj][Oo][Bb][ _]?I[Dd])(?: is)?\s*[:= ]\s*(\d{2,})\b")
# A progress bar of steps before its first one.
_FIRST_BAR = re.compile(r"(?:(?:[Ee]poch|[Tt]rain|[Ss]tep|[Ii]ter)[^|%]{0,40})?\s*0%\|[^|]*\| *0/")
# The number of a step and of its epoch. A run counts as started again where both are as at its first step.
_STEP = re.compile(r"\b(?:iter(?:ation)?s?|(?:global_)?steps?|batch)\b\W{0,4}(\d{1,9})\b", re.IGNORECASE)
_EPOCH = re.compile(r"\bepoch\b\W{0,4}(\d{1,9})\b", re.IGNORECASE)
# What ends a program without an exception of its own.
_ENDS = re.compile(r"CANCELLED AT|^KeyboardInterrupt|^(?:\S+: line \d+: +\d+ )?(?:Killed|Terminated)\b")
# A clock that jumps this far (seconds) within this many lines after the end of a run belongs to the next one. Watchdogs
# and launchers that give up late do not count.
JUMP = 900.0
AFTER_END = 200
_LATE = re.compile(r"NCCL|ProcessGroup|TCPStore|[Ww]atchdog|[Rr]endezvous|elastic|srun|slurmstepd")
# Several processes of one program raise as well: where these modules are in a traceback, it proves no other run.
_PROCESSES = re.compile(
    r"distributed_c10d\.py|parallel/distributed\.py|fsdp|distributed/elastic|multiprocessing/(?:process|spawn|pool)|"
    r"concurrent/futures/process|/ray/|deepspeed/(?:launcher|comm)|mpi4py|horovod"
)
# In the outer frames: what a program imports may come through the same modules.
OUTER = 2000
_JOB = re.compile(r"\*\*\* (?:JOB|STEP) (\d+)|StepId=(\d+)|job step (\d+)|/job0*(\d+)/slurm_script")


class Runs:
    """Follows one file. `begins` and `note` are called for each line and each event, in order."""

    def __init__(self, file_events: FileEvents) -> None:
        self._events = file_events
        self._head: set[tuple[int | None, str]] = set()
        self._lines = 0
        # The first lines of the file, how many of them the newest run repeats in a row, and how many lines are its own.
        self._opening: list[str] = []
        self._repeated = self._own = 0
        # A run that began with them has failed: then they are no last words of a script.
        self._open_runs = False
        # The program that refused its arguments last.
        self._refused = ""
        self._ended = False
        # The first and the last step of the run, of lines that name an epoch and of those that do not.
        self._steps: dict[bool, tuple[tuple[int, int], tuple[int, int]]] = {}
        self._ended_at: float | None = None
        self._since = 0
        self._job = self._announced = ""
        self._connected_in = -1
        self._named = 0
        # The program whose exception ended a run, that exception, and the run.
        self._raised = ("", "", 0)
        # The line where the newest chain of exceptions began, and what had been raised before it.
        self._chain, self._before_chain = 0, self._raised
        self._processes = False
        # The programs that raised before torchrun gave up; whether several launchers write to this file.
        self._scripts: set[str] = set()
        self._given_up = False
        self._several = False

    def begins(self, line: Line) -> bool:
        """Whether a run begins at this line; it is then counted."""
        text = line.text
        if phrases.BEGIN.match(text) or (text[0] in "SJj" and self._is_of_another_job(text)):
            return self._begin(line.number, inferred=False)
        connects = text[0] == "I" and bool(_CONNECTS.match(text))
        if connects:
            # The first one may be of a rank that was slower than the one that failed.
            again = self._connected_in >= 0
            begins = self._ended and self._begin(line.number, inferred=not again)
            if again and self._connected_in < self._events.runs:
                self._events.inferred = False
            self._connected_in = self._events.runs
            return begins
        if self._events.runs and self._events.inferred:
            self._confirm(line)
        elif len(self._opening) < FIRST and not self._events.runs:
            self._opening.append(text)
        if not self._ended:
            if self._lines < ONCE and not self._events.runs:
                self._learn(line)
            return False
        begins = (line.rank, _shape(text)) in self._head or bool(_BANNER.search(text)) or self._starts_over(line)
        begins = begins or self._is_refused_by_another(text)
        if begins:
            self._begin(line.number, inferred=True)
            self._repeated, self._own = int(self._opening[:1] == [_shape(text)]), 0
        return begins

    def _confirm(self, line: Line) -> None:
        """Look for the proof that the newest run is one, whatever else it shows."""
        if not self._repeated or self._processes or self._events.ranks:
            return
        shape = _shape(line.text)
        if line.number - self._events.begun > LONG:
            self._own = OWN
        if self._repeated < IN_A_ROW:
            known = self._opening[self._repeated : self._repeated + 1]
            self._repeated = self._repeated + 1 if known == [shape] else 0
        elif self._open_runs or shape not in self._opening:
            self._own += 1
        elif shape == self._opening[0]:
            # Once more: no script ends twice.
            self._own = OWN
        self._events.inferred = self._own < OWN

    def _is_of_another_job(self, text: str) -> bool:
        """Whether a batch script names a job at its start, and earlier lines of the file are of another one."""
        named = _JOB_LINE.match(text)
        before, self._announced = self._announced, named[1] if named else self._announced
        # Its epilog names the job that Slurm has ended.
        return bool(named and before and named[1] not in (before, self._job))

    def _is_refused_by_another(self, text: str) -> bool:
        """Whether a program shows its usage after another program refused its arguments and ended."""
        words = text.split(None, 2)
        other = bool(self._refused) and words[0] == "usage:" and len(words) > 1 and words[1] != self._refused
        return other and not self._events.ranks

    def stepped(self, line: Line, start: int) -> bool:
        """Whether a run begins at this line with a step: after an end, the steps are counted from the start again.

        `start`: where the step is in the text.
        """
        step = _STEP.search(line.text, start) or _STEP.search(line.text)
        if not step:
            return False
        epoch = _EPOCH.search(line.text) if "poch" in line.text or "POCH" in line.text else None
        now = (int(epoch[1]) if epoch else 0, int(step[1]))
        first, last = self._steps.get(bool(epoch), (now, now))
        again = self._ended and now <= first < last
        if again:
            self._steps.clear()
        self._steps[bool(epoch)] = (now if again else first, now)
        alone = again and not (self._processes or self._events.ranks or self._events.several)
        return alone and self._begin(line.number, inferred=True)

    def _starts_over(self, line: Line) -> bool:
        """Whether a progress bar begins again, or much time has passed since the end of the run."""
        if "0%|" in line.text and not self._events.ranks and _FIRST_BAR.match(line.text):
            return True
        self._since += 1
        if self._ended_at is None or self._since > AFTER_END:
            return False
        time = time_of(line.stamp or line.text)
        if time is None or time - self._ended_at < JUMP or phrases.DONE.search(line.text):
            return False
        return not (_LATE.search(line.text) or phrases.COMPLAINT.match(line.text) or phrases.ECHOES.search(line.text))

    def _learn(self, line: Line) -> None:
        """Remember the first lines of the file, except those that are repeated soon, such as steps."""
        self._lines += 1
        if self._lines > HEAD and not self._head:
            return
        known = (line.rank, _shape(line.text))
        if known in self._head:
            self._head.discard(known)
        elif self._lines <= HEAD and len(line.text) >= SHORTEST and not _OF_A_RUN.match(line.text):
            self._head.add(known)

    def note(self, event: Event, stream: Stream) -> None:
        """Take account of an event: it may be the end of a run, or show that another one began before it."""
        ends = event.family == LAUNCHER or event.strength >= RAISED or bool(_ENDS.search(event.text))
        self._processes = (
            self._processes or event.family == LAUNCHER or (0 < event.strength < WEAK and event.family != "crash")
        )
        gives_up = "ChildFailedError" in event.text
        self._several |= (gives_up and self._given_up) or "srun: " in event.text or "slurmstepd: " in event.text
        self._given_up = self._given_up or gives_up
        if stream.script:
            self._raises_again(event, stream)
        self._refused = event.text.partition(": error:")[0] if event.family == "usage" else ""
        self._head.discard((event.rank, _shape(event.text)))
        named = _JOB.search(event.text)
        job = next(filter(None, named.groups()), "") if named else ""
        if job and self._job and job != self._job and self._events.begun <= self._named:
            self._begin_before(self._named + 1, inferred=False)
        if job:
            self._job, self._named = job, event.line
        # The event belongs to the run that began before it.
        if ends:
            self._open_runs = self._open_runs or self._repeated >= IN_A_ROW
            self._ended, self._ended_at, self._since = True, event.time, 0

    def _raises_again(self, event: Event, stream: Stream) -> None:
        """A program raises once. Where the same one raises something else later, it was started again."""
        script, stream.script = stream.script, ""
        says_little = event.family == LAUNCHER or event.strength < WEAK
        if stream.quoted or says_little or phrases.LAUNCHERS.search(stream.ended[:OUTER]):
            return
        if self._given_up and script in self._scripts and event.node is None and not self._several:
            # Its launcher had already ended.
            self._begin(stream.began or event.line, inferred=True)
            self._raised = (script, event.text, self._events.runs)
            return
        self._scripts.add(script)
        alone = not self._processes and not self._events.ranks and event.rank is None
        # Of several processes another one may raise the chain.
        alone = alone and not (event.after and self._events.several)
        if not alone or _PROCESSES.search(stream.ended[:OUTER]):
            return
        if not event.after:
            self._chain, self._before_chain = stream.began, self._raised
        known, text, run = self._before_chain
        refused = bool(self._refused) and event.family != "usage" and not event.after
        other = (known == script and text != event.text and run == self._events.runs) or refused
        if stream.top and other and self._events.begun < self._chain:
            self._begin_before(self._chain, inferred=True)
        self._raised = (script, event.text, self._events.runs)

    def finished(self) -> None:
        """The program reported a normal end."""
        self._ended = True

    def _begin_before(self, number: int, *, inferred: bool) -> None:
        """A run begins at an earlier line: the events since then are its own."""
        since = [place for place, event in enumerate(self._events.events) if event.line >= number]
        self._begin(number, inferred=inferred)
        for place in since:
            self._events.events[place] = replace(self._events.events[place], run=self._events.runs)

    def _begin(self, number: int, *, inferred: bool) -> bool:
        file_events = self._events
        file_events.runs += 1
        if file_events.runs == 1:
            # They are compared from now on.
            self._opening = list(map(_shape, self._opening))
        file_events.begun, file_events.inferred = number, inferred
        file_events.steps_before = file_events.steps
        self._ended = self._given_up = False
        self._repeated = 0
        return True


def _shape(text: str) -> str:
    return _NUMBERS.sub("#", text[:COMPARED])
