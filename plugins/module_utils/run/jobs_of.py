# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which of Slurm's jobs belong to a launch: job ids are reused, and job names are not unique."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.run import steps
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory, array_of
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import (
    JobRecord,
    find_by_name,
    query_squeue,
)


def without_namesakes(records: Iterable[JobRecord], run_dir: str) -> list[JobRecord]:
    """Return the records without jobs of the same launch under another state_root, which have the same name.

    A job's work folder is its run directory. A job with any other work folder is kept, because a site may change that
    path, and overlooking a job would mean submitting it twice.
    """
    tail = "/" + "/".join(run_dir.split("/")[-4:])  # /runs/<name>/<key>/<generation>

    def elsewhere(record: JobRecord) -> bool:
        return record.work_dir.endswith(tail) and os.path.realpath(record.work_dir) != os.path.realpath(run_dir)

    return [record for record in records if not elsewhere(record)]


def own(record: JobRecord | None, run_dir: str) -> JobRecord | None:
    """Return the record of a launch's job, found by id; None if the id now belongs to another job.

    Ids are reused after months, or immediately if slurmctld crashed and forgot the job that it had accepted last. A
    script that was submitted by hand, under any name, still works in a folder of its launch. A record with neither name
    nor folder is accepted, because it can only be identified by its id.
    """
    if record is None:
        return None
    if record.nameless and not record.work_dir:
        return record
    name, key = run_dir.split("/")[-3:-1]
    if record.name.startswith(f"{name}.{key}.") or f"/runs/{name}/{key}/" in record.work_dir:
        return record
    place = array_of(RunDirectory(run_dir).own_events())
    if place is None:
        return None
    return record if record.name == place.job_name(name) or f"/runs/{name}/{place.array}" in record.work_dir else None


def deciding(records: Sequence[JobRecord]) -> JobRecord | None:
    """Return, of the jobs of a launch that none of them has claimed yet (resources.any_of), the one that it is judged
    by: one that runs, else one that waits, else the first.
    """
    waiting = [record for record in records if record.active]
    return next((record for record in waiting if not record.pending), next(iter([*waiting, *records]), None))


def by_name(slurm: Slurm, names: Mapping[RunDirectory, str], *, since: float) -> dict[RunDirectory, list[JobRecord]]:
    """Return the jobs with the names of some launches or arrays, submitted since `since` (epoch seconds), oldest first.

    One query for all, and one for each launch inside another job. `names`: the job name for each run directory whose
    journal records the job.
    """
    inside = [run for run in names if steps.host_job(run)]
    named: dict[str, list[JobRecord]] = {}
    for record in find_by_name(slurm, [name for run, name in names.items() if run not in inside], since=since):
        named.setdefault(record.name, []).append(record)
    records_of = {run: without_namesakes(named.get(name, ()), run.path) for run, name in names.items()}
    return {**records_of, **{run: steps.by_name(slurm, run, names[run]) for run in inside}}


def in_the_queue(slurm: Slurm, run: RunDirectory, name: str) -> list[JobRecord]:
    """Return the launch's jobs that wait or run now. One squeue; accounting is not asked."""
    if steps.host_job(run):
        return steps.by_name(slurm, run, name)
    records = query_squeue(slurm, [f"--user={os.geteuid()}", f"--name={name}"])
    return without_namesakes((record for record in records if record.name == name and record.active), run.path)
