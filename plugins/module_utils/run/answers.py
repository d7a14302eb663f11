# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asking Slurm about many launches with one question, for those who look and change nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.run import steps
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.jobs_of import own, without_namesakes
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import identity
from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import (
    EVERYTHING,
    NOT_ASKED,
    QUEUE,
    SILENT,
    JobAnswer,
    LaunchStatus,
    RunFacts,
    status_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import (
    CLOCK_SLACK,
    DEFAULT_REACH,
    JobRecord,
    find_by_name,
    query_sacct,
)


@dataclass
class SlurmAnswer:
    """What Slurm said of some jobs. `silent`: the complaint of a Slurm that did not answer, else empty.
    `queue_only`: accounting, which remembers what has left the queue, did not answer. `asked`: the job that it was
    asked about, by run directory; None where it was asked by name.
    """

    asked: dict[str, str | None] = field(default_factory=dict)
    records: dict[str, JobRecord] = field(default_factory=dict)
    by_name: dict[str, JobRecord] = field(default_factory=dict)
    silent: str = ""
    queue_only: bool = False

    def status(self, run: RunDirectory) -> LaunchStatus:
        """What became of one of the launches that were asked about. Its run directory is read now, after the answer."""
        facts = RunFacts.read(run)
        record = (
            self.by_name.get(identity(run.path).job_name)
            if facts.job_id is None
            else own(self.records.get(facts.job_id), run.path)
        )
        heard = SILENT if self.silent else QUEUE if self.queue_only else EVERYTHING
        if record is None and facts.job_id != self.asked.get(run.path):
            # Another job has taken the launch since.
            heard = NOT_ASKED
        return status_of(facts, JobAnswer(record, heard))


def ask_slurm(slurm: Slurm, runs: Sequence[RunDirectory]) -> SlurmAnswer:
    """One lookup for all runs, one more for those whose job id was never recorded. Silence is an answer here."""
    ids = {run.path: run.job_id() for run in runs}
    answer = SlurmAnswer(asked=ids)
    intents = [_first_time(run) for run in runs]
    nameless = {identity(run.path).job_name: run for run in runs if ids[run.path] is None and run.rejected() is None}
    since = min((moment for moment in intents if moment), default=None)
    try:
        known = {job_id: identity(path).job_name for path, job_id in ids.items() if job_id}
        answer.records = steps.find(slurm, known, since=since)
        _add_history(slurm, answer, since)
        inside = {name: run for name, run in nameless.items() if steps.host_job(run)}
        for name, run in inside.items():
            answer.by_name.update({record.name: record for record in steps.named(slurm, run, name)})
            del nameless[name]
        # Oldest first: of two submissions of one name the newest one counts.
        for record in find_by_name(slurm, nameless, since=since or 0):
            if without_namesakes([record], nameless[record.name].path):
                answer.by_name[record.name] = record
    except SlurmUnavailable as error:
        answer.silent = error.message
    answer.queue_only = slurm.accounting == "silent"
    return answer


def _add_history(slurm: Slurm, answer: SlurmAnswer, since: float | None) -> None:
    """The attempts before a requeue, which only accounting remembers: one question for all jobs that had one."""
    wanted = [
        job_id
        for job_id, record in answer.records.items()
        if record.restarts and not record.earlier and not steps.is_step(job_id)
    ]
    if not wanted:
        return
    begun = (since or time.time() - DEFAULT_REACH) - CLOCK_SLACK
    for row in query_sacct(slurm, [f"--jobs={','.join(wanted)}"], begun):
        known = answer.records.get(row.job_id)
        if known is not None and row.name == known.name:
            answer.records[row.job_id] = replace(known, earlier=row.earlier)


def _first_time(run: RunDirectory) -> float | None:
    return next((event["time"] for event in run.events()), None)
