# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the attempts of a launch, oldest first, from the files of each attempt and the records of accounting. Pure.

Slurm counts the requeues of one job. Only the launch itself knows its attempts on a spare node of the same job and its
attempts in previous jobs. An attempt that Slurm ended immediately may be known to Slurm only.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.run.documents import Left
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import Allocation, Attempt
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import states
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord

# The batch script begins at most this many seconds after the start that Slurm records. This includes clock differences.
SLACK = 15.0


def earlier(count: int, left: Mapping[int, Left], record: JobRecord | None) -> list[Attempt]:
    """Return the first `count` attempts. `left`: the files that each attempt left in the run directory, by its number.

    `record.earlier` are accounting's rows for the attempts before the newest requeue. Unknown values of an attempt are
    None.
    """
    rows = list(record.earlier) if record is not None else []
    records: dict[int, JobRecord | None] = {}
    for number in range(count):
        begun = _begun(left.get(number, {}))
        row = None if begun is None else next((row for row in rows if _covers(row, begun)), None)
        # Attempts inside one job share its row. The last of them ends with the job.
        records[number] = row
    unclaimed = [row for row in rows if row not in records.values()]
    for number in range(count):
        if records[number] is None and _begun(left.get(number, {})) is None and unclaimed:
            records[number] = unclaimed.pop(0)
    last = {id(row): number for number, row in records.items() if row is not None}
    return [
        _attempt(number, left.get(number, {}), row, closes=row is not None and last[id(row)] == number)
        for number, row in sorted(records.items())
    ]


def _begun(left: Left) -> float | None:
    """Return when an attempt's script began, according to its own files."""
    begun = left.get("started", {}).get("time") or left.get("outcome", {}).get("started")
    return float(begun) if begun else None


def _covers(row: JobRecord, moment: float) -> bool:
    if row.start is None or moment < row.start - SLACK:
        return False
    return row.end is None or moment < max(row.end, row.start + 1.0)


def _attempt(number: int, left: Left, row: JobRecord | None, *, closes: bool) -> Attempt:
    started, outcome = left.get("started", {}), left.get("outcome", {})
    nodes = started.get("nodes")
    restarted = outcome.get("ended_by") == "restart"
    state = "NODE_FAIL" if restarted else row.state if row is not None and closes else None
    ended = row.end if row is not None and closes else None
    reason = str(outcome.get("message") or "")
    if not reason and row is not None and closes:
        reason = states.describe_end(row.state, row.exit_code, row.signal, row.reason)
    code = outcome.get("exit_code")
    return Attempt(
        attempt=number,
        job_id=outcome.get("job_id") or started.get("job_id") or (row.array_job_id if row is not None else None),
        slurm_state=state,
        started_at=_begun(left) or (row.start if row is not None else None),
        finished_at=outcome.get("time") or ended,
        node_list=row.node_list if row is not None else ",".join(map(str, nodes)) if nodes else None,
        nodes=[str(node) for node in nodes] if nodes else None,
        exit_code=int(code) if code is not None else row.exit_code if row is not None and closes else None,
        reason=reason,
    )


def allocations(record: JobRecord | None) -> list[Allocation]:
    """Return what Slurm gave the job, oldest first. A job that waits has no nodes yet, only those of its attempts."""
    rows = [] if record is None else [*record.earlier, record]
    return [
        Allocation(
            job_id=row.job_id,
            began=row.start,
            ended=row.end,
            nodes=row.nodes,
            elapsed=row.elapsed,
            submitted=row.submit,
            user=row.user,
            account=row.account,
        )
        for row in rows
        if row.start is not None and row.nodes and not row.pending
    ]
