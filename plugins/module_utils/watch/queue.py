# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of a poll that asks Slurm: one squeue for all jobs, and one for all steps of other jobs."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError, SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.run import steps
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import LIST_BYTES, Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord, query_squeue
from ansible_collections.rankzero.slurm.plugins.module_utils.watch import budget
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.poll import Poll

# How long (seconds) squeue may take.
SQUEUE_TIMEOUT = 30.0


def asked(jobs: Sequence[str], most: int) -> Poll:
    """Return what squeue says of some jobs, by their ids, as a poll without views. `most`: Request.budget."""
    if most and not budget.count(most):
        return Poll(whole=True, spent=True)
    slurm = Slurm(timeout=SQUEUE_TIMEOUT)
    ids = list(dict.fromkeys(jobs))
    queue: dict[str, JobRecord] = {}
    silent = ""
    try:
        if alone := [job_id for job_id in ids if not steps.is_step(job_id)]:
            listed = f"--jobs={','.join(alone)}"
            # One query, however many jobs there are.
            selection = listed if len(listed) <= LIST_BYTES else f"--user={os.getuid()}"
            queue.update((record.job_id, record) for record in query_squeue(slurm, (selection,)))
        inside = steps.running(slurm, map(steps.job_of, filter(steps.is_step, ids)))
        queue.update((record.job_id, record) for record in inside)
    except SlurmUnavailable as error:
        silent = error.reason or error.message
    except RankzeroError as error:
        silent = error.message
    return Poll(whole=True, asked=True, silent=silent, queue=queue, warnings=tuple(slurm.notes))
