# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What follows the end of the ranks: whether the job goes back into the queue, and what the verdict says of that. Only
the batch script requeues; two requeuers would fight. Standard library only.
"""

from __future__ import annotations

import contextlib
import hashlib
import os

from artifact import verdict
from core import files, slurm
from core.log import first_line, publish
from core.state import PROGRAM, SIGNAL, Job

# Why the ranks do not start again inside the job, where it has too few nodes for that.
NO_SPARE = "no spare node is left"
# A file that shows progress is compared whole up to this size, and at both ends beyond it.
WHOLE_BYTES, END_BYTES = 64 << 20, 1 << 20


def of_at_most(attempt: int, restarts: int) -> str:
    return f"attempt {attempt} of at most {restarts + 1}"


def follows(job: Job, restarts: int) -> str:
    return f"{of_at_most(job.attempt + 2, restarts)} follows"


def limit_reached(job: Job, restarts: int) -> str:
    return f"this was {of_at_most(job.attempt + 1, restarts)} (checkpoint.max_restarts)"


def no_progress(job: Job) -> str:
    """Why the job is not started again: the file that shows progress is as an attempt before left it. Keeps what this
    attempt leaves. Empty where it has got further, or no such file is named.
    """
    name = job.get("RANKZERO_PROGRESS")
    if not name:
        return ""
    folder = job.path("progress")
    now = _digest(os.path.join(job.get("RANKZERO_CHECKPOINT_DIR") or job.path("work"), name))
    with contextlib.suppress(OSError):
        os.makedirs(folder, exist_ok=True)
        publish(os.path.join(folder, str(job.attempt)), f"{now}\n")
    # An attempt that Slurm itself ended has left no word.
    for before in range(job.attempt - 1, -1, -1):
        left = first_line(os.path.join(folder, str(before)))
        if left:
            if left != now:
                return ""
            return (
                f"no progress: {name} (checkpoint.progress) is the same after attempt {before + 1} and attempt "
                f"{job.attempt + 1}"
            )
    return ""


def _digest(path: str) -> str:
    """What tells a file from another; a file that cannot be read is the same as one that was missing before.

    The folder may be shared, so what lies there is neither waited for nor read without a limit. Of a large file both
    ends are compared, its size, and when it was written.
    """
    digest = hashlib.sha256()
    try:
        with open(files.opened(path), "rb") as stream:
            status = os.fstat(stream.fileno())
            if status.st_size <= WHOLE_BYTES:
                digest.update(stream.read(WHOLE_BYTES))
            else:
                digest.update(f"{status.st_size} {status.st_mtime_ns} ".encode() + stream.read(END_BYTES))
                stream.seek(status.st_size - END_BYTES)
                digest.update(stream.read(END_BYTES))
    except OSError:
        return "missing"
    return digest.hexdigest()


def why_not(job: Job) -> str:
    """Why the job may not be requeued; empty where it may."""
    if not job.get("RANKZERO_MAX_RESTARTS"):
        return "checkpoint.requeue is not true"
    restarts = job.number("RANKZERO_MAX_RESTARTS")
    if job.attempt >= restarts:
        return limit_reached(job, restarts)
    return no_progress(job)


def after_early(job: Job) -> None:
    """What the early signal means for the end."""
    step = job.step
    if not job.signals.early or step.ended_by != PROGRAM:
        return
    # A script that has asked for the signal knows what to do, unless the job is to be requeued for it.
    if job.is_script and not job.get("RANKZERO_MAX_RESTARTS"):
        return
    # It reached its end just in time.
    if step.exit_code == 0 and verdict.proven(job):
        return
    step.ended_by = SIGNAL
    reason = why_not(job)
    if reason:
        step.message = (
            f"stopped by the signal before the time limit (checkpoint.signal_before_end); not requeued: {reason}"
        )
        return
    job.to_requeue, job.requeue_reason = True, "stopped by the signal before the time limit"
    step.message = f"requeued: {follows(job, job.number('RANKZERO_MAX_RESTARTS'))}"


def after_preemption(job: Job) -> None:
    """A preempted job has its partition's GraceTime: Slurm sends TERM to the ranks, but not to this script. A script
    that then ends by itself would make the job FAILED, and Slurm would not requeue it: so it does that here, where the
    job may be requeued at all.
    """
    step = job.step
    if job.to_requeue or step.ended_by not in (PROGRAM, SIGNAL) or not slurm.preempted(job):
        return
    if step.ended_by == PROGRAM and step.exit_code == 0 and verdict.proven(job):
        return
    step.ended_by, job.requeue_reason = SIGNAL, "preempted by a job of a higher priority"
    if slurm.field(job.slurm_shown, "Requeue") == "1":
        job.to_requeue = not slurm.requeues_by_itself(job)
        message = f"requeued: attempt {job.attempt + 2} follows"
    elif job.get("RANKZERO_MAX_RESTARTS"):
        # Asked for, and the site does not allow it: another job takes over.
        job.to_requeue, message = True, "not requeued: this site does not allow it"
    else:
        message = "not requeued: this site does that for jobs that ask for it only (checkpoint.requeue)"
    step.message = f"{job.requeue_reason}; {message}"


def after_node_failure(job: Job) -> None:
    """A node failed and there was no way on inside the job: back into the queue, where that is asked for."""
    step = job.step
    if not job.lost_nodes or job.to_requeue or step.ended_by != PROGRAM:
        return
    step.ended_by, job.requeue_reason = SIGNAL, f"{','.join(job.lost_nodes)} failed"
    message = f"{job.requeue_reason}; not restarted inside the job: {job.no_restart_reason}; "
    if job.get("RANKZERO_MAX_RESTARTS") and job.no_restart_reason != NO_SPARE:
        step.message = f"{message}not requeued for the same reason"
        return
    reason = why_not(job)
    job.to_requeue = not reason
    step.message = message + (
        f"not requeued: {reason}" if reason else f"requeued: {follows(job, job.number('RANKZERO_MAX_RESTARTS'))}"
    )
