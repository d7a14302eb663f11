# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the jobs that Slurm shows are a launch's: numbers are used again, and names are not one user's alone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.run import steps
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory, array_of
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import (
    JobRecord,
    find_by_name,
    query_squeue,
)


def without_namesakes(records: Iterable[JobRecord], run_dir: str) -> list[JobRecord]:
    """Records without the jobs of the same launch under another state_root: they bear the same name.

    A job works in its run directory. Whatever else a site makes of that path is left in: to overlook a job would mean
    to submit it twice.
    """
    tail = "/" + "/".join(run_dir.split("/")[-4:])  # /runs/<name>/<key>/<generation>

    def elsewhere(record: JobRecord) -> bool:
        return record.work_dir.endswith(tail) and os.path.realpath(record.work_dir) != os.path.realpath(run_dir)

    return [record for record in records if not elsewhere(record)]


def own(record: JobRecord | None, run_dir: str) -> JobRecord | None:
    """The record of a launch's job by its id; None where another job has got that number.

    That happens after months, and at once where a slurmctld that crashed has forgotten the job that it had taken last.
    A script that was submitted by hand, under whatever name, still works in a folder of its launch. A record that tells
    neither name nor folder is believed: its number is all that there is.
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


def by_name(slurm: Slurm, names: Mapping[RunDirectory, str], *, since: float) -> dict[RunDirectory, list[JobRecord]]:
    """The jobs that Slurm knows by the names of some launches or arrays, submitted at or after `since` (epoch seconds),
    oldest first. One question for all, and one for each that runs inside another job.

    `names`: the name, by the run directory whose journal tells of the job.
    """
    inside = [run for run in names if steps.host_job(run)]
    records = find_by_name(slurm, [name for run, name in names.items() if run not in inside], since=since)
    found = {
        run: without_namesakes((one for one in records if one.name == name), run.path) for run, name in names.items()
    }
    return {**found, **{run: steps.named(slurm, run, names[run]) for run in inside}}


def in_the_queue(slurm: Slurm, run: RunDirectory, name: str) -> list[JobRecord]:
    """Those that wait or run now: one squeue, and accounting is not asked."""
    if steps.host_job(run):
        return steps.named(slurm, run, name)
    found = query_squeue(slurm, [f"--user={os.geteuid()}", f"--name={name}"])
    return without_namesakes((record for record in found if record.name == name and record.active), run.path)
