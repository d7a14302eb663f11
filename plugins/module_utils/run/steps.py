# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Launches inside other jobs, as Slurm sees them: a step, known as JOB.STEP and by the launch's name.

squeue lists a step only while it runs, and a requeued job counts its steps from 0 again: a step is ours where number
and name are. What accounting does not tell of its end follows from the job around it. Sources: squeue(1) --steps,
sacct(1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.documents import Outcome
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse, states
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm, raise_for
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord, find_by_id, squeue_rows

STEP_ID = re.compile(r"(\d+)\.(\d+)")
SQUEUE_STEP_COLUMNS = ("StepID", "StepState", "StartTime", "TimeUsed", "Nodes", "Partition", "UserName", "StepName")
SACCT_STEP_COLUMNS = ("JobID", "State", "ExitCode", "Start", "End", "NodeList", "JobName")
# The names of a launch's other steps begin with its own and go on with one of these.
PARTS = (".preflight", ".ranks")


def is_step(job_id: str | None) -> bool:
    """Whether an id is that of a step, JOB.STEP."""
    return job_id is not None and STEP_ID.fullmatch(job_id) is not None


def job_of(step_id: str) -> str:
    """The job around a step."""
    return step_id.partition(".")[0]


def from_row(row: Mapping[str, str]) -> JobRecord:
    """A record of one row of SQUEUE_STEP_COLUMNS."""
    return JobRecord(
        job_id=row["StepID"],
        name=row["StepName"],
        state=states.state_of(row["StepState"]),
        node_list=row["Nodes"],
        partition=row["Partition"],
        start=parse.parse_epoch(row["StartTime"]),
        elapsed=parse.parse_duration(row["TimeUsed"]),
        source="squeue",
        user=row["UserName"],
    )


def running(slurm: Slurm, job_ids: Iterable[str]) -> list[JobRecord]:
    """The running steps of some jobs. Raises `SlurmUnavailable` when slurmctld is silent."""
    wanted = list(dict.fromkeys(job_ids))
    if not wanted:
        return []
    rows = squeue_rows(slurm, SQUEUE_STEP_COLUMNS, ("--steps", f"--jobs={','.join(wanted)}"))
    return [from_row(row) for row in rows if STEP_ID.fullmatch(row["StepID"])]


def of_launch(records: Iterable[JobRecord], name: str) -> list[JobRecord]:
    """Those of some steps that are the launch's: the one that is known as the launch first, then its parts."""
    names = [name, *(name + part for part in PARTS)]
    return sorted((one for one in records if one.name in names), key=lambda one: names.index(one.name))


def find(slurm: Slurm, names: Mapping[str, str], *, since: float | None = None) -> dict[str, JobRecord]:
    """Records by id of jobs and steps. `names`: id -> the launch's name, which a step must bear.

    A step that is over has a final state, whoever knows it: accounting, or the job around it. A job that nobody knows
    is missing from the result, as in `find_by_id`; so is a step of it.
    """
    steps = {step_id: name for step_id, name in names.items() if is_step(step_id)}
    found = find_by_id(slurm, [job_id for job_id in names if job_id not in steps], since=since)
    if not steps:
        return found
    alive = {record.job_id: record for record in running(slurm, map(job_of, steps))}
    over = []
    for step_id, name in steps.items():
        record = alive.get(step_id)
        if record is not None and record.name == name:
            found[step_id] = record
        else:
            over.append(step_id)
    if over:
        around = find_by_id(slurm, dict.fromkeys(map(job_of, over)))
        for step_id in over:
            record = _ended(slurm, step_id, steps[step_id], around.get(job_of(step_id)))
            if record is not None:
                found[step_id] = record
    return found


def _ended(slurm: Slurm, step_id: str, name: str, around: JobRecord | None) -> JobRecord | None:
    told = _accounted(slurm, step_id, name)
    if around is None:
        return told
    if around.final:
        end = states.describe_end(around.state, around.exit_code, around.signal, around.reason)
        reason = f"job {around.job_id} around it has ended ({end})"
    elif told is None:
        reason = f"job {around.job_id} around it continues: the step was cancelled, or its node failed"
    else:
        return told
    known = told or JobRecord(step_id, name, "CANCELLED", end=around.end, source=around.source)
    return replace(known, reason=reason)


def describe_end(record: JobRecord) -> str:
    """One sentence on how a job or a step ended."""
    if is_step(record.job_id) and record.reason:
        return f"{record.state}: {record.reason}"
    return states.describe_end(record.state, record.exit_code, record.signal, record.reason)


def _accounted(slurm: Slurm, step_id: str, name: str) -> JobRecord | None:
    """What accounting says of a step that is over. It may lag, or not be there at all."""
    if slurm.accounting == "disabled" or slurm.find("sacct") is None:
        return None
    result = slurm.attempt(
        "sacct",
        "--noheader",
        "--duplicates",
        "--parsable2",
        f"--delimiter={parse.FIELD}",
        f"--format={','.join(SACCT_STEP_COLUMNS)}",
        f"--jobs={step_id}",
    )
    if result.rc != 0:
        return None
    rows, _warnings = parse.parse_lines(result.stdout, SACCT_STEP_COLUMNS)
    for row in rows:
        state = states.state_of(row["State"])
        if row["JobID"] == step_id and row["JobName"] == name and states.is_final(state):
            exit_code, signal = parse.parse_exit(row["ExitCode"])
            return JobRecord(
                step_id,
                name,
                state,
                exit_code=exit_code,
                signal=signal,
                node_list=row["NodeList"],
                start=parse.parse_epoch(row["Start"]),
                end=parse.parse_epoch(row["End"]),
                source="sacct",
            )
    return None


def judged(record: JobRecord | None, outcome: Outcome | None) -> JobRecord | None:
    """A step's record once the launch has spoken: its outcome is its end, whatever Slurm still closes."""
    if record is None or outcome is None or not is_step(record.job_id):
        return record
    state = "COMPLETED" if outcome.get("success") else "CANCELLED" if outcome.get("ended_by") == "signal" else "FAILED"
    return replace(record, state=state, reason="", exit_code=None, signal=None, end=outcome.get("time"))


def host_job(run: RunDirectory) -> str | None:
    """The job that the newest intent of a generation wants to run in; None for a job of its own."""
    intents = [event for event in run.events() if event["event"] == "intent"]
    return str(intents[-1]["attach"]) if intents and intents[-1].get("attach") else None


def named(slurm: Slurm, run: RunDirectory, name: str) -> list[JobRecord]:
    """The step of a generation whose id was never recorded, by its name."""
    job_id = host_job(run)
    return [record for record in running(slurm, [job_id]) if record.name == name] if job_id else []


def cancel(slurm: Slurm, job_id: str, name: str, *, hard: bool) -> list[str]:
    """End what runs of a launch in job `job_id`; the ids of its steps. The job itself goes on.

    The ranks get TERM and the conductor learns that it is over; it waits half a minute for them. `hard` kills
    everything at once, as is right where the script is gone and its ranks were left behind.
    """
    steps = of_launch(running(slurm, [job_id]), name)
    script = [one.job_id for one in steps if one.name == name]
    ranks = [one.job_id for one in steps if one.name == name + ".ranks"]
    everything = [one.job_id for one in steps]
    if everything and (hard or not script):
        _signal(slurm, *everything)
    elif everything:
        # The script first: else it would take the ranks' end for their own.
        _signal(slurm, "--signal=URG", *script)
        if ranks:
            _signal(slurm, "--signal=TERM", *ranks)
    return everything


def _signal(slurm: Slurm, *arguments: str) -> None:
    """scancel for steps. Its exit code says nothing: 22.05 calls a step that got its signal an invalid job id."""
    result = slurm.attempt("scancel", *arguments)
    if result.silent:
        raise_for(result, slurm.timeout)
