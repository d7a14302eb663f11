# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask Slurm's accounting for the nodes, GPUs and energy of launches: one sacct for all of them.

Source: sacct(1). A requeued job has a row for each attempt (--duplicates), and a job that has lost a node one for each
size (RESIZING). If it is requeued then, Slurm 22.05 still shows the nodes that were left in NNodes: AllocTRES is right.
ConsumedEnergyRaw is in joules; 0, or a number near 2^64, means that the site measures none.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import Allocation
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import (
    DEFAULT_REACH,
    Slurm,
    short_queries,
    submitted_from,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.parse import launch_id

COLUMNS = (
    "JobID", "Submit", "Start", "End", "ElapsedRaw", "NNodes", "AllocTRES", "ConsumedEnergyRaw", "User", "Account",
)  # fmt: skip
_NO_ENERGY = 1 << 60


def accounted(slurm: Slurm, job_ids: Iterable[str], since: float | None) -> dict[str, list[Allocation]] | None:
    """The allocations of jobs by job id, oldest first; None without an answer of accounting.

    `since`: rows submitted before that (epoch seconds) belong to another job with a reused id.
    """
    wanted = sorted(set(job_ids))
    if not wanted:
        return {}
    if slurm.accounting in ("disabled", "silent") or slurm.find("sacct") is None:
        return None
    earliest = submitted_from(since) or time.time() - DEFAULT_REACH
    start = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(max(earliest, 0)))
    rows: list[Mapping[str, str]] = []
    for query in short_queries([f"--jobs={','.join(wanted)}"]):
        result = slurm.attempt(
            "sacct", "--noheader", "--allocations", "--duplicates", "--parsable2", f"--delimiter={parse.FIELD}",
            f"--starttime={start}", f"--format={','.join(COLUMNS)}", *query,
        )  # fmt: skip
        if result.rc != 0:
            return None
        rows += parse.parse_lines(result.stdout, COLUMNS)[0]
    by_job: dict[str, dict[float, Allocation]] = {}
    for row in rows:
        allocation = from_row(row)
        if allocation is None or (since is not None and (allocation.submitted or 0.0) < earliest):
            continue
        same = by_job.setdefault(launch_id(allocation.job_id), {})
        held = same.get(allocation.began)
        # The components of a heterogeneous job start together.
        same[allocation.began] = allocation if held is None else _together(held, allocation)
    return {job_id: [same[began] for began in sorted(same)] for job_id, same in by_job.items()}


def from_row(row: Mapping[str, str]) -> Allocation | None:
    """The allocation in a row of accounting; None for a row of a job that never had nodes."""
    allocated = dict(part.partition("=")[::2] for part in row["AllocTRES"].split(","))
    nodes = parse.parse_count(allocated.get("node", "")) or parse.parse_count(row["NNodes"])
    began, elapsed = parse.parse_epoch(row["Start"]), parse.parse_count(row["ElapsedRaw"])
    if began is None or not nodes:
        return None
    energy = parse.parse_count(row["ConsumedEnergyRaw"])
    return Allocation(
        job_id=row["JobID"],
        began=began,
        ended=parse.parse_epoch(row["End"]),
        nodes=nodes,
        elapsed=elapsed,
        submitted=parse.parse_epoch(row["Submit"]),
        gpus=parse.parse_count(allocated.get("gres/gpu", "0")),
        joules=energy if energy and energy < _NO_ENERGY else None,
        user=row["User"],
        account=row["Account"],
    )


def _together(first: Allocation, other: Allocation) -> Allocation:
    energies = [first.joules, other.joules]
    return replace(
        first,
        nodes=first.nodes + other.nodes,
        gpus=(first.gpus or 0) + (other.gpus or 0),
        joules=None if None in energies else sum(energy or 0 for energy in energies),
    )
