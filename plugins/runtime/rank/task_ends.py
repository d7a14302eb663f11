# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tasks that do not end although the others have. srun waits without bound for a task that vanished with its node where
the node is back before Slurm has missed it. launcher.wait is srun's own limit (--wait). A shorter one applies once the
artifact is proven and the task of rank 0 has ended. srun knows which tasks have ended, and reports the state of all
upon SIGINT (srun(1)). A task epilog would delay the end of each step by a second. Standard library only.
"""

from __future__ import annotations

import os
import re
import signal
import stat
from collections.abc import Sequence

from artifact import verdict
from core import processes
from core.log import ending, log_line
from core.state import ARTIFACT, PROGRAM, Ends, Job

# After the proof, and again after the end of rank 0.
SHORT_WAIT = 60
# Between two questions, as long as rank 0 runs on after its proof: each one leaves lines in the job's log.
LONGEST_PAUSE = 1800
# Between two looks for the artifact, which is on the shared file system, and between two checks of one that is there.
LOOK_EVERY, CHECK_EVERY = 5, 30
ANSWER_SECONDS = 1
AFTER_TERM = 30
# With these, srun does not answer SIGINT but passes it on, or ends the step.
DEAF = {"--disable-status", "--quit-on-interrupt"}

STATE = re.compile(r"^srun: \S+ tasks? ([\d,-]+): (.+)$", re.MULTILINE)
CUT_OFF = re.compile(r"^srun: First task exited (\d+)s ago$", re.MULTILINE)


def expect(job: Job, words: Sequence[str]) -> None:
    """Begin with a new step, whose srun is `words`."""
    job.ends = Ends()
    log = os.fstat(2)
    if not stat.S_ISREG(log.st_mode) or not job.number("RANKZERO_WAIT"):
        return
    job.ends.log_from = log.st_size
    answers = not DEAF.intersection(words) and not job.get("SLURM_DISABLE_STATUS")
    # Where the job ends with its artifact, nobody is waited for after it.
    if answers and job.get("RANKZERO_ARTIFACT_PATH") and job.get("RANKZERO_ARTIFACT_THEN") != "end":
        job.ends.look_at = processes.after(job.number("RANKZERO_LOOK_EVERY", LOOK_EVERY))


def check_tasks(job: Job) -> None:
    """Ask from time to time who has ended, and end the step when the others have had their time."""
    ends, short = job.ends, job.number("RANKZERO_SHORT_WAIT", SHORT_WAIT)
    if job.step.ended_by != PROGRAM or not processes.due(ends.look_at):
        return
    if not ends.proven:
        there = os.path.lexists(job.path("work", job.get("RANKZERO_ARTIFACT_PATH")))
        ends.proven = there and verdict.proven(job)
        every = short if ends.proven else CHECK_EVERY if there else job.number("RANKZERO_LOOK_EVERY", LOOK_EVERY)
        ends.look_at, ends.pause = processes.after(every), short
    elif ends.asked_at is None:
        log_line("the artifact is proven: srun is asked which tasks have ended")
        ends.asked_at = os.fstat(2).st_size
        processes.send_signal(job.step.process, signal.SIGINT)
        ends.look_at = processes.after(ANSWER_SECONDS)
    else:
        ended, running = _states(_log(ends.asked_at))
        ends.asked_at = None
        if 0 not in ended:
            ends.pause = min(2 * ends.pause, LONGEST_PAUSE)
        elif not ends.first_ended:
            ends.first_ended, ends.pause = True, short
        else:
            _end(job, ended, running)
        ends.look_at = processes.after(ends.pause)


def explain(job: Job) -> None:
    """Say of a step that has failed whether srun ended it because launcher.wait was over. A proven artifact counts."""
    if job.ends.log_from is None:
        return
    log = _log(job.ends.log_from)
    cut_off = CUT_OFF.search(log)
    if cut_off is None:
        return
    job.step.message = _message(*_states(log[cut_off.start() :]), f"{cut_off[1]} s after the first end")
    if verdict.proven(job):
        job.step.ended_by = ARTIFACT


def _end(job: Job, ended: set[int], running: set[int]) -> None:
    step = job.step
    if not verdict.proven(job):
        job.ends.proven = False
        return
    step.message, step.ended_by = _message(ended, running, "after the end of rank 0"), ARTIFACT
    log_line(step.message)
    processes.send_signal(step.process)
    step.kill_at = processes.after(AFTER_TERM)


def _message(ended: set[int], running: set[int], when: str) -> str:
    counts = f"{len(ended)} of {len(ended) + len(running)} tasks had ended, {len(running)} had not"
    return f"{counts}; the step was ended {when} (launcher.wait)"


def _log(start: int) -> str:
    """The job's log from this byte on: srun's standard error is this process's."""
    return ending("/proc/self/fd/2", start)


def _states(log: str) -> tuple[set[int], set[int]]:
    """(tasks that have ended, tasks that run) as the first report in the log has them."""
    ended: set[int] = set()
    running: set[int] = set()
    for tasks, state in STATE.findall(log):
        for part in tasks.split(","):
            first, _dash, last = part.partition("-")
            (running if state == "running" else ended).update(range(int(first), int(last or first) + 1))
    return ended, running
