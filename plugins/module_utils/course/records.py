# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's records of the jobs of a class: one query to accounting, and the queue for what accounting does not know."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.course.judge import Word
from ansible_collections.rankzero.slurm.plugins.module_utils.run import steps
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm, expand_nodes
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord, find_by_id, query_sacct

# No course is older than this (seconds). Slurm may reuse a job's number after some years.
REACH = 2 * 365 * 86400.0


@dataclass
class Records:
    """Slurm's answers. `accounting` as in `Slurm`; `silent`: why jobs that are missing here could not be queried."""

    jobs: dict[str, JobRecord] = field(default_factory=dict)
    steps: dict[str, list[JobRecord]] = field(default_factory=dict)
    nodes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    accounting: str = "unknown"
    silent: str = ""

    def word(self, job_id: str) -> Word:
        """What Slurm's records say about a job. If there is no job, `silent` says why."""
        job = self.jobs.get(job_id)
        if job is None:
            return Word(silent=self.silent)
        return Word(job, self.nodes.get(job.node_list, ()), tuple(self.steps.get(job_id, ())))


def query_jobs(slurm: Slurm, job_ids: Iterable[str]) -> Records:
    """The jobs of these ids that Slurm knows, with steps and nodes. If Slurm does not answer, `silent` says why."""
    wanted = sorted(set(job_ids), key=int)
    records = Records()
    if not wanted:
        return records
    rows = query_sacct(slurm, ["--allusers", f"--jobs={','.join(wanted)}"], time.time() - REACH, steps=True)
    for row in rows:
        if steps.is_step(row.job_id):
            # Leave out the batch script and the steps that Slurm itself runs.
            records.steps.setdefault(steps.job_of(row.job_id), []).append(row)
        elif row.job_id in wanted:
            records.jobs[row.job_id] = row
    records.accounting = slurm.accounting
    _ask_queue(slurm, records, wanted)
    records.jobs = {job_id: _whole(job, records.steps.get(job_id, ())) for job_id, job in records.jobs.items()}
    try:
        for listed in {job.node_list for job in records.jobs.values()}:
            records.nodes[listed] = tuple(dict.fromkeys(expand_nodes(slurm, listed)))
    except SlurmUnavailable as error:
        slurm.note(error.message)
    records.jobs = {
        job_id: replace(job, work_dir=os.path.realpath(job.work_dir) if job.work_dir else "")
        for job_id, job in records.jobs.items()
    }
    if records.accounting == "disabled":
        records.silent = "this cluster keeps no accounting, and the queue has forgotten the job"
    elif records.accounting != "ok":
        records.silent = "accounting does not answer"
    return records


def _ask_queue(slurm: Slurm, records: Records, wanted: Sequence[str]) -> None:
    """Ask the queue, which keeps jobs for some minutes, about jobs that accounting does not know, or not by name."""
    lost = {job_id: job for job_id, job in records.jobs.items() if job.nameless}
    # Accounting knows every job that ever started.
    absent = [] if records.accounting == "ok" else [job_id for job_id in wanted if job_id not in records.jobs]
    if not lost and not absent:
        return
    try:
        known = find_by_id(slurm, [*absent, *lost])
    except SlurmUnavailable as error:
        slurm.note(error.message)
        return
    for job_id, job in known.items():
        if job_id not in lost or (not job.nameless and job.submit == lost[job_id].submit):
            records.jobs[job_id] = job


def _whole(job: JobRecord, its_steps: Iterable[JobRecord]) -> JobRecord:
    """Add all steps' nodes to a nameless job: accounting recorded only those of the first step that it heard of."""
    listed = sorted({step.node_list for step in its_steps if step.node_list})
    return replace(job, node_list=",".join(listed)) if job.nameless and listed else job
