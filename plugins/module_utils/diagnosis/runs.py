# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a new run begins in a file that several runs were appended to: nohup, `open-mode=append`, a loop.

Only the newest run counts. After the end of a run, another one begins where the file's first lines appear again, where
a launcher prints what it prints at its start, or where Slurm names another job.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import phrases
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.event import LAUNCHER, Event, FileEvents
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.lines import Line
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import RAISED

# This many lines of the beginning of a file are compared, up to COMPARED characters of each, digits aside.
HEAD = 6
COMPARED = 80
SHORTEST = 12
# A line of the beginning that appears again within this many lines opens nothing.
ONCE = 400
# Tracebacks, exceptions, steps and frames of a box appear in the middle of a run as well.
_OF_A_RUN = re.compile(
    rf"\W*\s|{phrases.HEADER.pattern}|{phrases.DURING}|{phrases.DIRECT}|{phrases.EXCEPTION.pattern}|.*(?:{phrases.PROGRESS.pattern})"
)
_DIGITS = str.maketrans("0123456789", "##########")
# torchrun and DeepSpeed print these once a node, before their ranks start.
_BANNER = re.compile(
    r"Setting OMP_NUM_THREADS environment variable for each process|\[runner\.py:\d+:main\] cmd = |"
    r"\[launch\.py:\d+:main\] WORLD INFO DICT|^Submitted batch job \d+$"
)
_JOB = re.compile(r"\*\*\* (?:JOB|STEP) (\d+)|StepId=(\d+)|job step (\d+)")


class Runs:
    """Follows one file. `begins` and `note` are called for each line and each event, in order."""

    def __init__(self, file_events: FileEvents) -> None:
        self._events = file_events
        self._head: set[tuple[int | None, str]] = set()
        self._lines = 0
        self._ended = False
        self._job = ""
        self._named = 0

    def begins(self, line: Line) -> bool:
        """Whether a run begins at this line; it is then counted."""
        text = line.text
        if phrases.BEGIN.match(text):
            return self._begin(line.number, inferred=False)
        if not self._ended:
            if self._lines < ONCE:
                self._learn(line)
            return False
        begins = (line.rank, _shape(text)) in self._head or bool(_BANNER.search(text))
        return begins and self._begin(line.number, inferred=True)

    def _learn(self, line: Line) -> None:
        """Remember the first lines of the file, except those that are repeated soon, such as steps."""
        self._lines += 1
        known = (line.rank, _shape(line.text))
        if known in self._head:
            self._head.discard(known)
        elif self._lines <= HEAD and len(line.text) >= SHORTEST and not _OF_A_RUN.match(line.text):
            self._head.add(known)

    def note(self, event: Event) -> None:
        """Take account of an event: it may be the end of a run, or name another job than the last one."""
        ends = event.family == LAUNCHER or event.strength >= RAISED or "CANCELLED AT" in event.text
        self._ended = self._ended or ends
        self._head.discard((event.rank, _shape(event.text)))
        named = _JOB.search(event.text)
        job = next(filter(None, named.groups()), "") if named else ""
        if job and self._job and job != self._job and self._events.begun <= self._named:
            later = [place for place, other in enumerate(self._events.events) if other.line > self._named]
            self._begin(self._named + 1, inferred=False)
            for place in later:
                self._events.events[place] = replace(self._events.events[place], run=self._events.runs)
        if job:
            self._job, self._named = job, event.line

    def finished(self) -> None:
        """The program reported a normal end."""
        self._ended = True

    def _begin(self, number: int, *, inferred: bool) -> bool:
        file_events = self._events
        file_events.runs += 1
        file_events.begun, file_events.inferred = number, inferred
        file_events.steps_before = file_events.progress
        self._ended = False
        return True


def _shape(text: str) -> str:
    return text[:COMPARED].translate(_DIGITS)
