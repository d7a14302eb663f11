# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of the script after its ranks, or in their place. Standard library only."""

from __future__ import annotations

from typing import NoReturn

from artifact import verdict
from core import held_steps
from core.state import SIGNAL, Ended, Job
from end import restart


def end(job: Job) -> NoReturn:
    """Verdict first; then everything that is still held, with bounded seconds; then the queue."""
    job.to_requeue = False
    restart.after_early(job)
    restart.after_preemption(job)
    if job.lost_nodes:
        restart.after_node_failure(job)
    step = job.step
    code = verdict.write(job, step.ended_by, step.exit_code, step.message)
    held_steps.release(job)
    if job.to_requeue:
        from end import requeue

        requeue.requeue(job)
    # After a signal the job may be requeued and need them again; then the controller removes them at the final state. A
    # step is not requeued.
    if step.ended_by != SIGNAL or job.attached:
        verdict.remove_secrets(job)
    raise Ended(code)
