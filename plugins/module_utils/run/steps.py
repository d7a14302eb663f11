# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Launches inside other jobs, which Slurm shows as steps: JOB.STEP, with the launch's name.

squeue lists a step only while it runs, and a requeued job counts its steps from 0 again. Therefore a step belongs to
the launch only if both number and name match. If accounting does not report a step's end, the end follows from the job
around it. Sources: squeue(1) --steps, sacct(1).
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
# Seconds that a cancelled launch inside another job has to end by itself.
CANCEL_SECONDS = 45.0
# The names of a launch's other steps are the launch's name with one of these suffixes.
PARTS = (".preflight", ".ranks")


def is_step(job_id: str | None) -> bool:
    """Return whether an id is that of a step, JOB.STEP."""
    return job_id is not None and STEP_ID.fullmatch(job_id) is not None


def job_of(step_id: str) -> str:
    """Return the id of the job around a step."""
    return step_id.partition(".")[0]


def from_row(row: Mapping[str, str]) -> JobRecord:
    """Build a record from one row of SQUEUE_STEP_COLUMNS."""
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
    """Return the running steps of some jobs. Raises `SlurmUnavailable` if slurmctld does not answer."""
    wanted = list(dict.fromkeys(job_ids))
    if not wanted:
        return []
    rows = squeue_rows(slurm, SQUEUE_STEP_COLUMNS, ("--steps", f"--jobs={','.join(wanted)}"))
    return [from_row(row) for row in rows if STEP_ID.fullmatch(row["StepID"])]


def of_launch(records: Iterable[JobRecord], name: str) -> list[JobRecord]:
    """Return the steps that belong to a launch: its main step first, then its other parts."""
    names = [name, *(name + part for part in PARTS)]
    return sorted((step for step in records if step.name in names), key=lambda step: names.index(step.name))


def find(slurm: Slurm, names: Mapping[str, str], *, since: float | None = None) -> dict[str, JobRecord]:
    """Return records of jobs and steps by id. `names`: id -> the launch's name, which a step must have.

    A step that is over has a final state, from accounting or from the job around it. A job that no source knows is
    missing from the result, as in `find_by_id`, and so are its steps.
    """
    steps = {step_id: name for step_id, name in names.items() if is_step(step_id)}
    records = find_by_id(slurm, [job_id for job_id in names if job_id not in steps], since=since)
    if not steps:
        return records
    alive = {record.job_id: record for record in running(slurm, map(job_of, steps))}
    over = []
    for step_id, name in steps.items():
        record = alive.get(step_id)
        if record is not None and record.name == name:
            records[step_id] = record
        else:
            over.append(step_id)
    if over:
        around = find_by_id(slurm, dict.fromkeys(map(job_of, over)))
        for step_id in over:
            record = _ended(slurm, step_id, steps[step_id], around.get(job_of(step_id)))
            if record is not None:
                records[step_id] = record
    return records


def _ended(slurm: Slurm, step_id: str, name: str, around: JobRecord | None) -> JobRecord | None:
    accounted = _accounted(slurm, step_id, name)
    if around is None:
        return accounted
    if around.final:
        end = states.describe_end(around.state, around.exit_code, around.signal, around.reason)
        reason = f"job {around.job_id} around it has ended ({end})"
    elif accounted is None:
        reason = f"job {around.job_id} around it continues: the step was cancelled, or its node failed"
    else:
        return accounted
    known = accounted or JobRecord(step_id, name, "CANCELLED", end=around.end, source=around.source)
    return replace(known, reason=reason)


def describe_end(record: JobRecord) -> str:
    """Describe in one sentence how a job or a step ended."""
    if is_step(record.job_id) and record.reason:
        return f"{record.state}: {record.reason}"
    return states.describe_end(record.state, record.exit_code, record.signal, record.reason)


def _accounted(slurm: Slurm, step_id: str, name: str) -> JobRecord | None:
    """Return accounting's record of a step that is over, or None. Accounting may lag or be absent."""
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
    """Return a step's record, ended according to the launch's outcome, even if Slurm still closes the step."""
    if record is None or outcome is None or not is_step(record.job_id):
        return record
    state = "COMPLETED" if outcome.get("success") else "CANCELLED" if outcome.get("ended_by") == "signal" else "FAILED"
    return replace(record, state=state, reason="", exit_code=None, signal=None, end=outcome.get("time"))


def host_job(run: RunDirectory) -> str | None:
    """Return the job that a generation runs in according to its newest intent; None for a separate job."""
    intents = [event for event in run.events() if event["event"] == "intent"]
    return str(intents[-1]["inside_job"]) if intents and intents[-1].get("inside_job") else None


def by_name(slurm: Slurm, run: RunDirectory, name: str) -> list[JobRecord]:
    """Return the running step of a generation whose id was never recorded, found by name."""
    job_id = host_job(run)
    return [record for record in running(slurm, [job_id]) if record.name == name] if job_id else []


def cancel(slurm: Slurm, job_id: str, name: str, *, hard: bool) -> list[str]:
    """End the steps of a launch in job `job_id`; return their ids. The job itself continues.

    The ranks get TERM, and the conductor is told to stop; it waits half a minute for the ranks. `hard` kills everything
    at once, which is right if the script is gone and its ranks were left behind.
    """
    steps = of_launch(running(slurm, [job_id]), name)
    script = [step.job_id for step in steps if step.name == name]
    ranks = [step.job_id for step in steps if step.name == name + ".ranks"]
    everything = [step.job_id for step in steps]
    if everything and (hard or not script):
        _signal(slurm, *everything)
    elif everything:
        # Signal the script first; otherwise it would take the ranks' end for a failure of their own.
        _signal(slurm, "--signal=URG", *script)
        if ranks:
            _signal(slurm, "--signal=TERM", *ranks)
    return everything


def _signal(slurm: Slurm, *arguments: str) -> None:
    """Run scancel for steps. Its exit code is ignored: 22.05 reports a step that received its signal as an invalid job
    id.
    """
    result = slurm.attempt("scancel", *arguments)
    if result.silent:
        raise_for(result, slurm.timeout)
