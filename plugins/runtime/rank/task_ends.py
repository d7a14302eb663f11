# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tasks of the ranks' step have ended. srun waits without bound for one that vanished with its node where the
node is back before Slurm has missed it. The ranks of one program end together, but for what the first one still saves,
so the others get launcher.wait seconds after the first end; once the task of rank 0 has ended and the artifact is
proven, a minute. Standard library only.
"""

from __future__ import annotations

import os
import shlex
import time

from artifact import verdict
from core import processes
from core.log import say
from core.state import ARTIFACT, PROGRAM, Job

# After the proof and the end of rank 0, and where all tasks have ended and srun has not.
SHORT_WAIT = 60
# Between two looks; the folder lies on the shared file system.
LOOK_EVERY = 5
LOOK_PROOF_EVERY = 30
AFTER_TERM = 30


def expect(job: Job) -> None:
    """Make the folder in which each task leaves a file when it has ended: slurmstepd runs a program then."""
    if not job.number("RANKZERO_WAIT"):
        return
    folder = job.path("ended", str(job.attempt))
    note = os.path.join(folder, "note")
    # It says nothing and never fails: slurmstepd would put that into the ranks' logs.
    text = f'#!/bin/bash\n{{ : > {shlex.quote(folder)}/task-"$SLURM_PROCID"; }} 2> /dev/null\nexit 0\n'
    try:
        os.makedirs(folder, exist_ok=True)
        with open(note, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)
        os.chmod(note, 0o700)
    except OSError:
        return
    # A file system may not allow programs.
    if os.access(note, os.X_OK):
        job.ends.folder = folder
        job.ends.look_at = processes.after(_seconds(job, "RANKZERO_LOOK_EVERY", LOOK_EVERY))


def _seconds(job: Job, name: str, default: int) -> int:
    return job.number(name, default)


def count(job: Job) -> None:
    """Look from time to time who has ended, and end the step when the others have had their time."""
    ends, step = job.ends, job.step
    if not ends.folder or step.ended_by != PROGRAM or not processes.due(ends.look_at):
        return
    ends.look_at = processes.after(_seconds(job, "RANKZERO_LOOK_EVERY", LOOK_EVERY))
    ended = sum(name.startswith("task-") for name in os.listdir(ends.folder))
    if not ended:
        return
    total = job.number("RANKZERO_WORLD_SIZE" if job.tasks_are_ranks else "RANKZERO_NODES")
    wait = job.number("RANKZERO_WAIT")
    if ends.deadline is None:
        ends.first = time.monotonic()
        ends.deadline = ends.first + wait
    if ends.proof_deadline is None and _all_but_over(job, ended, total):
        ends.proof_deadline = processes.after(min(wait, _seconds(job, "RANKZERO_SHORT_WAIT", SHORT_WAIT)))
    if not processes.due(ends.deadline) and not processes.due(ends.proof_deadline):
        return
    after = int(time.monotonic() - ends.first)
    step.message = (
        f"{ended} of {total} tasks had ended, {total - ended} had not; the step was ended {after} s after the first end"
        " (launcher.wait)"
    )
    say(step.message)
    ends.cut_off = True
    if verdict.proven(job):
        step.ended_by = ARTIFACT
    processes.send_signal(step.process)
    step.kill_at = processes.after(AFTER_TERM)
    ends.look_at = None


def _all_but_over(job: Job, ended: int, total: int) -> bool:
    """Whether nothing is left to wait for but a minute: all tasks have ended, or that of rank 0 has and its artifact is
    proven.
    """
    if ended >= total:
        return True
    ends = job.ends
    if not os.path.exists(os.path.join(ends.folder, "task-0")):
        return False
    if ends.proof_look_at is not None and not processes.due(ends.proof_look_at):
        return False
    ends.proof_look_at = processes.after(LOOK_PROOF_EVERY)
    return verdict.proven(job)
