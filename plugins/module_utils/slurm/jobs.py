# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look up jobs in Slurm by id or by name: one squeue for all of them, then scontrol and sacct for missing ones.

`squeue --states=all` shows a job for MinJobAge seconds after its end; sacct (if the site has accounting) shows it much
longer. An empty result of one source does not mean that the job is gone: the next source is asked. But only slurmctld
says that a job waits or runs: what accounting alone believes to be active is FORGOTTEN. If slurmctld does not answer,
`SlurmUnavailable` is raised; the result is never empty for that reason. The look-up handles a failing squeue, a lagging
sacct, reused ids and duplicate rows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import client, parse, states
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm, raise_for, short_queries

SQUEUE_COLUMNS = (
    *("JobArrayID", "State", "Reason", "exit_code", "restartcnt", "SubmitTime", "EligibleTime", "StartTime"),
    *("EndTime", "TimeUsed", "NumNodes", "NodeList", "Partition", "Account", "UserName", "Cluster", "WorkDir"),
    *("Name",),
)
SACCT_COLUMNS = (
    *("JobID", "State", "Reason", "ExitCode", "Submit", "Eligible", "Start", "End", "ElapsedRaw", "NNodes"),
    *("NodeList", "Partition", "Account", "User", "Cluster", "WorkDir", "JobName"),
)
# Seconds within which Slurm requeues a job after a node failure or a preemption, if at all.
REQUEUE_TIME = 30
# `scontrol show job` takes one id, so each id costs one command. For more ids than this it is not used.
SCONTROL_LIMIT = 3


@dataclass(frozen=True)
class JobRecord:
    """What one source reports about a job. Times are epoch seconds, `elapsed` is in seconds, unknown values are None.

    `limit`: when the time limit will end it. `node_list` is Slurm's compressed list (expand it with
    client.expand_nodes). `earlier`: the attempts before a requeue in accounting, oldest first. `source`: the command.
    """

    job_id: str
    name: str
    state: str
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    nodes: int | None = None
    node_list: str = ""
    partition: str = ""
    account: str = ""
    submit: float | None = None
    eligible: float | None = None
    start: float | None = None
    end: float | None = None
    limit: float | None = None
    elapsed: int | None = None
    restarts: int | None = None
    work_dir: str = ""
    source: str = ""
    user: str = ""
    cluster: str = ""
    earlier: tuple[JobRecord, ...] = ()

    @property
    def nameless(self) -> bool:
        """Whether accounting has lost the job's name."""
        return self.name in states.NAMELESS

    @property
    def array_job_id(self) -> str:
        """The id that sbatch printed: 13 for 13_2, 20 for 20+1, the id itself for an ordinary job."""
        return base_id(self.job_id)

    @property
    def pending(self) -> bool:
        """Whether the job waits in the queue."""
        return states.is_pending(self.state)

    @property
    def running(self) -> bool:
        """Whether the job holds nodes."""
        return states.is_running(self.state)

    @property
    def final(self) -> bool:
        """Whether the job has ended and cannot start again, judged by a single look-up.

        Slurm may requeue a preempted job or a job whose node failed, so such a job is final only after the time for
        that. A job that another cluster of the federation runs is REVOKED here for as long as squeue shows it
        (squeue(1)).
        """
        if states.state_of(self.state) == "REVOKED" and self.source != "sacct":
            return False
        settled = self.source == "sacct" or (self.end is not None and time.time() - self.end > REQUEUE_TIME)
        return states.is_final(self.state, settled=settled)

    @property
    def active(self) -> bool:
        """Whether the job waits, runs or may be requeued."""
        return not self.final


def base_id(job_id: str) -> str:
    """Return the job id without the array task or het job component."""
    return job_id.split("_")[0].split("+")[0]


def _clean(text: str) -> str:
    return "" if text in ("N/A", "(null)", "None assigned", "Unknown") else text


@dataclass(frozen=True)
class _Names:
    """The names that a source uses for the values that squeue, scontrol and sacct have in common."""

    job_id: str
    name: str
    state: str
    exit_code: str
    nodes: str
    submit: str
    eligible: str
    start: str
    end: str
    user: str


_SQUEUE = _Names(
    "JobArrayID", "Name", "State", "exit_code", "NumNodes", "SubmitTime", "EligibleTime", "StartTime", "EndTime",
    "UserName",
)  # fmt: skip
_SCONTROL = _Names(
    "JobId", "JobName", "JobState", "ExitCode", "NumNodes", "SubmitTime", "EligibleTime", "StartTime", "EndTime",
    "UserId",
)  # fmt: skip
_SACCT = _Names("JobID", "JobName", "State", "ExitCode", "NNodes", "Submit", "Eligible", "Start", "End", "User")


def _record(row: Mapping[str, str], names: _Names, source: str) -> JobRecord:
    state = states.state_of(row.get(names.state, ""))
    ended = states.is_final(state)
    exit_code, signal = parse.parse_exit(row.get(names.exit_code, "")) if ended else (None, None)
    end = parse.parse_epoch(row.get(names.end, ""))
    return JobRecord(
        # The first component of a heterogeneous job is the launch, and has its id.
        job_id=row.get(names.job_id, "").removesuffix("+0"),
        name=row.get(names.name, ""),
        state=state,
        reason=row.get("Reason", ""),
        exit_code=exit_code,
        signal=signal,
        nodes=parse.parse_count(row.get(names.nodes, "")),
        node_list=_clean(row.get("NodeList", "")),
        partition=row.get("Partition", ""),
        account=_clean(row.get("Account", "")),
        submit=parse.parse_epoch(row.get(names.submit, "")),
        eligible=parse.parse_epoch(row.get(names.eligible, "")),
        start=parse.parse_epoch(row.get(names.start, "")),
        end=end if ended or source == "sacct" else None,
        limit=None if ended or source == "sacct" else end,
        work_dir=_clean(row.get("WorkDir", "")),
        source=source,
        user=row.get(names.user, ""),
        cluster=_clean(row.get("Cluster", "")),
    )


def from_squeue(row: Mapping[str, str]) -> JobRecord:
    """Build a record from one row of SQUEUE_COLUMNS."""
    elapsed, restarts = parse.parse_duration(row["TimeUsed"]), parse.parse_count(row["restartcnt"])
    return replace(_record(row, _SQUEUE, "squeue"), elapsed=elapsed, restarts=restarts)


def from_scontrol(block: Mapping[str, str]) -> JobRecord:
    """Build a record from one object of `scontrol show job`."""
    elapsed, restarts = parse.parse_duration(block.get("RunTime", "")), parse.parse_count(block.get("Restarts", ""))
    record = replace(
        _record(block, _SCONTROL, "scontrol"),
        nodes=parse.parse_count(block.get("NumNodes", "").split("-")[0]),
        elapsed=elapsed,
        restarts=restarts,
        user=block.get("UserId", "").split("(")[0],
    )
    if block.get("ArrayJobId") and block.get("ArrayTaskId"):
        return replace(record, job_id=f"{block['ArrayJobId']}_{block['ArrayTaskId']}")
    return record


def from_sacct(row: Mapping[str, str]) -> JobRecord:
    """Build a record from one row of SACCT_COLUMNS."""
    record = replace(_record(row, _SACCT, "sacct"), elapsed=parse.parse_count(row["ElapsedRaw"]))
    return replace(record, reason="") if record.reason == "None" else record


def fold_attempts(records: Iterable[JobRecord]) -> list[JobRecord]:
    """Reduce the records to one per job id: the newest row; older rows of the same job become its `earlier` attempts.

    Slurm reuses job ids over time. A row with another name belongs to another job and is dropped.
    """
    by_id: dict[str, list[JobRecord]] = {}
    for record in records:
        by_id.setdefault(record.job_id, []).append(record)
    folded = []
    for rows in by_id.values():
        # The sort is stable for equal times: sacct lists the attempts of a job in order.
        rows.sort(key=lambda row: (row.submit or 0, row.start or 0))
        newest = rows[-1]
        earlier = tuple(row for row in rows[:-1] if row.name == newest.name)
        folded.append(replace(newest, earlier=earlier, restarts=len(earlier)))
    return folded


def query_squeue(slurm: Slurm, selection: Sequence[str]) -> list[JobRecord]:
    """Return the jobs of one squeue over all states. `selection`: squeue arguments that select jobs."""
    rows = squeue_rows(slurm, SQUEUE_COLUMNS, ("--all", "--states=all", *selection))
    return [from_squeue(row) for row in rows]


def squeue_rows(slurm: Slurm, columns: Sequence[str], arguments: Sequence[str]) -> list[dict[str, str]]:
    """Return the rows of one squeue. Raises `SlurmUnavailable` if slurmctld does not answer."""
    rows = []
    for query in short_queries(arguments):
        result = slurm.attempt("squeue", "--noheader", f"--Format={parse.squeue_format(columns)}", *query)
        # For one unknown id squeue prints this and exits with 1; for several it prints nothing and exits with 0.
        if result.rc != 0 and "Invalid job id specified" in result.stderr:
            continue
        raise_for(result, slurm.timeout)
        parsed, warnings = parse.parse_records(result.stdout, columns)
        rows += parsed
        for warning in warnings:
            slurm.note(f"squeue: {warning}")
    return rows


def query_scontrol(slurm: Slurm, job_id: str) -> list[JobRecord]:
    """Return what `scontrol show job` reports for one id; empty if the id is unknown."""
    result = slurm.attempt("scontrol", "show", "job", job_id)
    # The second message appears for a task that was cancelled before it had its own record, while its array is known.
    output = result.stdout + result.stderr
    if result.rc != 0 and ("Invalid job id specified" in output or f"Job {job_id} not found" in output):
        return []
    raise_for(result, slurm.timeout)
    return [from_scontrol(block) for block in parse.parse_blocks(result.stdout) if block.get("JobId")]


def query_sacct(slurm: Slurm, selection: Sequence[str], since: float, *, steps: bool = False) -> list[JobRecord]:
    """Return the jobs in accounting since `since` (epoch seconds; 0.0: DEFAULT_REACH ago), one record per job or step.

    Duplicate rows of requeued jobs become earlier attempts. Accounting is optional. If it is absent or disabled, the
    result is empty and `slurm.accounting` is "disabled". If the database does not answer, the result is empty,
    `slurm.accounting` is "silent" and a note is recorded.
    """
    if slurm.accounting == "disabled":
        return []
    if slurm.find("sacct") is None:
        slurm.accounting = "disabled"
        return []
    begin = max(since or time.time() - client.DEFAULT_REACH, 0)
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(begin))
    shown = [*([] if steps else ["--allocations"]), "--duplicates", "--parsable2", f"--delimiter={parse.FIELD}"]
    rows = []
    for query in short_queries(selection):
        fields = f"--format={','.join(SACCT_COLUMNS)}"
        result = slurm.attempt("sacct", "--noheader", *shown, f"--starttime={start}", fields, *query)
        if result.rc != 0 and "accounting storage is disabled" in result.stderr:
            slurm.accounting = "disabled"
            return []
        if result.rc != 0 or result.timed_out:
            slurm.accounting = "silent"
            slurm.note(f"accounting does not answer ({result.complaint}): jobs that left the queue cannot be looked up")
            return []
        parsed, warnings = parse.parse_lines(result.stdout, SACCT_COLUMNS)
        rows += parsed
        for warning in warnings:
            slurm.note(f"sacct: {warning}")
    slurm.accounting = "ok"
    return fold_attempts(from_sacct(row) for row in rows)


def without_forgotten(slurm: Slurm, records: Sequence[JobRecord]) -> list[JobRecord]:
    """Accounting's records; a job without an end that slurmctld does not know is FORGOTTEN in them.

    slurmctld forgets a job that it had not saved when it was killed, and gives its id away again; accounting lists the
    job as active for ever. It is asked after accounting: what was submitted in between is known to both.
    """
    asked = dict.fromkeys(record.array_job_id for record in records if record.active)
    if not asked:
        return list(records)
    known = query_squeue(slurm, [f"--jobs={','.join(asked)}"])
    names = {(record.array_job_id, name) for record in known for name in (record.name, *states.NAMELESS)}
    lost = [record.active and (record.array_job_id, record.name) not in names for record in records]
    return [replace(record, state="FORGOTTEN") if gone else record for record, gone in zip(records, lost)]


def _recent(record: JobRecord, earliest: float) -> bool:
    """Return whether a job was submitted since then. One in the queue is never too old: a clock was ahead."""
    return (record.active and record.source != "sacct") or record.submit is None or record.submit >= earliest


def find_by_id(slurm: Slurm, ids: Iterable[str], *, since: float | None = None) -> dict[str, JobRecord]:
    """Return records by job id for the `ids` that any source knows. An array's id includes its tasks.

    `since`: rows submitted before it (epoch seconds, minus a slack for clocks) belong to another job with a reused id.
    A missing id is unknown to every source that answered; `slurm.accounting` tells whether accounting, which keeps jobs
    longest, was one of them. Raises RankzeroError for an invalid id, `SlurmUnavailable` if slurmctld does not answer.
    """
    wanted = dict.fromkeys(ids)
    for job_id in wanted:
        if not parse.JOB_ID.fullmatch(job_id):
            raise RankzeroError(f"job_id: {job_id!r} is not a Slurm job id; expected digits such as 1234 or 1234_5")
    if not wanted:
        return {}
    earliest = client.submitted_from(since)
    by_id: dict[str, JobRecord] = {}

    def keep(records: Iterable[JobRecord]) -> None:
        for record in (replace(row, job_id=task_id) for row in records for task_id in parse.tasks_of(row.job_id)):
            asked = record.job_id in wanted or record.array_job_id in wanted
            # A federation may show a job once per cluster. The cluster that runs it has the better record.
            better = record.job_id not in by_id or by_id[record.job_id].state == "REVOKED"
            if asked and better and _recent(record, earliest):
                by_id[record.job_id] = record

    def missing() -> list[str]:
        known = set(by_id) | {record.array_job_id for record in by_id.values()}
        return [job_id for job_id in wanted if job_id not in known]

    keep(query_squeue(slurm, [f"--jobs={','.join(wanted)}"]))
    if len(missing()) <= SCONTROL_LIMIT:
        for job_id in missing():
            keep(query_scontrol(slurm, job_id))
    if missing():
        accounted = query_sacct(slurm, [f"--jobs={','.join(missing())}"], earliest)
        mine = [row for row in accounted if wanted.keys() & {row.array_job_id, *parse.tasks_of(row.job_id)}]
        keep(without_forgotten(slurm, mine))
    return by_id


def find_by_name(slurm: Slurm, names: Iterable[str], *, since: float) -> list[JobRecord]:
    """Return all jobs of this user with exactly one of `names`, submitted since `since` (epoch seconds, minus a slack).

    One squeue for all names; sacct only for names without a job there. Sorted by submission, oldest first. Raises
    RankzeroError for a name with a comma, and `SlurmUnavailable` if slurmctld does not answer. `slurm.accounting` tells
    "silent" from "disabled" and "ok".
    """
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return []
    for name in wanted:
        if "," in name:
            raise RankzeroError(f"job name {name!r} contains a comma, which Slurm's lists do not support")
    user = f"--user={os.geteuid()}"
    earliest = client.submitted_from(since)

    def only(asked: set[str], records: Iterable[JobRecord]) -> list[JobRecord]:
        jobs = [r for r in records if r.name in asked and _recent(r, earliest)]
        return [replace(r, job_id=task_id) for r in jobs for task_id in parse.tasks_of(r.job_id)]

    jobs = only(set(wanted), query_squeue(slurm, [user, f"--name={','.join(wanted)}"]))
    known = {record.name for record in jobs}
    absent = [name for name in wanted if name not in known]
    if absent:
        accounted = query_sacct(slurm, [user, f"--name={','.join(absent)}"], earliest)
        jobs += without_forgotten(slurm, only(set(absent), accounted))
    return sorted(jobs, key=lambda record: (record.submit or 0, record.job_id))
