# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the jobs that Slurm shows are a launch's: numbers are used again, and names are not one user's alone."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ansible_collections.rankzero.slurm.plugins.module_utils.run import steps
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory, array_of
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import (
    JobRecord,
    base_id,
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


def named(slurm: Slurm, run: RunDirectory, name: str, *, since: float) -> list[JobRecord]:
    """The jobs that Slurm knows of a generation, by its `name`, submitted at or after `since` (epoch seconds)."""
    if steps.host_job(run):
        return steps.named(slurm, run, name)
    place = array_of(run.own_events())
    if place is not None:
        # An element of a sweep: what Slurm knows by name is its array.
        found = find_by_name(slurm, [place.job_name(run.path.split("/")[-3])], since=since)
        mine = [record for record in found if record.job_id == f"{base_id(record.job_id)}_{place.task}"]
        return without_namesakes(mine, run.beside(place.array))
    return without_namesakes(find_by_name(slurm, [name], since=since), run.path)


def in_the_queue(slurm: Slurm, run: RunDirectory, name: str) -> list[JobRecord]:
    """Those that wait or run now: one squeue, and accounting is not asked."""
    if steps.host_job(run):
        return steps.named(slurm, run, name)
    found = query_squeue(slurm, [f"--user={os.geteuid()}", f"--name={name}"])
    return without_namesakes((record for record in found if record.name == name and record.active), run.path)
