# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check, before anything starts, whether a launch fits into a job that is already running.

Source: `scontrol show -d job`, whose lines "Nodes=... CPU_IDs=... Mem=... GRES=..." list what the job holds on each
node.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse, reasons, states
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm, expand_nodes, raise_for
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import from_scontrol
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.needs import AllocationNeeds
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.partitions import clock

_HELD = re.compile(
    r"^\s+Nodes=(?P<nodes>\S+)\s+CPU_IDs=(?P<cpus>\S*)\s+Mem=(?P<mem>\S*)(?:\s+GRES=(?P<gres>\S*))?", re.M
)
_UNITS = {"": 1, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}


@dataclass(frozen=True)
class Held:
    """What a job holds on one node. `memory` in MiB; None if Slurm does not track it."""

    node: str
    cpus: int
    memory: int | None
    gres: tuple[parse.Gres, ...] = ()

    def gpus(self, gpu_type: str | None = None) -> int:
        """Return the number of GPUs, of one type if given. GPUs without a type count for every type."""
        return parse.count_gres(self.gres, "gpu", gpu_type, untyped=True)


@dataclass(frozen=True)
class Allocation:
    """A running job: its nodes in Slurm's order, and its end (epoch seconds; None: no limit)."""

    job_id: str
    name: str
    end: float | None
    nodes: tuple[Held, ...] = field(default=())

    def left(self, now: float) -> float | None:
        """Return the seconds until the time limit; None if there is no limit."""
        return None if self.end is None else max(0.0, self.end - now)


def count_ids(text: str) -> int:
    """Return the number of CPUs in a list of ids such as "0-3,8"."""
    total = 0
    for part in filter(None, text.split(",")):
        low, dash, high = part.partition("-")
        total += int(high) - int(low) + 1 if dash else 1
    return total


def mebibytes(text: str) -> int | None:
    """Return the MiB in a size as Slurm writes it (32000, 32G); None for 0 and "", which mean that memory is not
    tracked.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)", text)
    return int(float(match[1]) * _UNITS[match[2]]) or None if match else None


def parse_held(text: str) -> list[tuple[str, Held]]:
    """Parse `scontrol show -d job` into pairs (Slurm's list of nodes, what the job holds on each of them)."""
    return [
        (
            match["nodes"],
            Held("", count_ids(match["cpus"]), mebibytes(match["mem"]), tuple(parse.parse_gres(match["gres"] or ""))),
        )
        for match in _HELD.finditer(text)
    ]


def allocation_of(slurm: Slurm, job_id: str, *, uid: int | None = None) -> Allocation:
    """Return the allocation of a job. Raises `RankzeroError` with the reason if nothing can be started in the job."""
    result = slurm.attempt("scontrol", "show", "--details", "job", job_id)
    if result.rc != 0 and "Invalid job id specified" in result.stderr:
        raise _refused(job_id, "Slurm does not know it (or no longer), or does not show it to you")
    raise_for(result, slurm.timeout)
    blocks = [block for block in parse.parse_blocks(result.stdout) if block.get("JobId")]
    if not blocks:
        raise _refused(job_id, "Slurm does not know it (or no longer), or does not show it to you")
    if len(blocks) > 1:
        tasks = [from_scontrol(block).job_id for block in blocks]
        raise _refused(job_id, f"it is {len(blocks)} jobs; name one of them: {', '.join(tasks[:8])}")
    block = blocks[0]
    _check_usable(job_id, block, os.geteuid() if uid is None else uid)
    nodes = [
        Held(node, held.cpus, held.memory, held.gres)
        for names, held in parse_held(result.stdout)
        for node in expand_nodes(slurm, names)
    ]
    if not nodes:
        raise _refused(job_id, "Slurm does not list its nodes")
    return Allocation(
        block["JobId"], block.get("JobName", ""), parse.parse_epoch(block.get("EndTime", "")), tuple(nodes)
    )


def _refused(job_id: str, why: str) -> RankzeroError:
    return RankzeroError(
        f"launcher.inside_job: nothing can be started inside job {job_id}: {why}. Name a running job of yours (squeue "
        "--me), or omit launcher.inside_job to submit a new job."
    )


def _check_usable(job_id: str, block: Mapping[str, str], uid: int) -> None:
    record = from_scontrol(block)
    owner = re.search(r"\((\d+)\)", block.get("UserId", ""))
    if owner and int(owner[1]) != uid:
        raise _refused(job_id, f"it belongs to another user, {record.user}")
    if block.get("HetJobId") or block.get("PackJobId"):
        raise _refused(job_id, "it is part of a heterogeneous job, whose parts have step numbers of their own")
    if record.pending:
        raise _refused(job_id, f"it waits in the queue: {reasons.explain(record.reason).sentence}")
    if states.is_final(record.state):
        end = states.describe_end(record.state, record.exit_code, record.signal, record.reason)
        raise _refused(job_id, f"it has ended ({end})")
    if record.state != "RUNNING":
        raise _refused(job_id, f"it is not running, but {record.state}; try again once it is")


def choose(allocation: Allocation, asked: AllocationNeeds) -> tuple[list[str], list[str]]:
    """Choose the nodes for a launch: (their names in Slurm's order, a sentence for each problem). Pure.

    Each entry of `asked.exclude` is the name of one host.
    """
    nodes, names, exclude = asked.nodes, asked.names, asked.exclude
    known = [held.node for held in allocation.nodes]
    where = f"job {allocation.job_id}"
    strange = [name for name in names if name not in known]
    if strange:
        return [], [f"launcher.inside_nodes: {', '.join(strange)} not in {where}, which has {', '.join(known)}."]
    unwanted = [name for name in names if name in exclude]
    if unwanted:
        return [], [f"launcher.inside_nodes: {', '.join(unwanted)} also in resources.exclude; keep one."]
    wanted = mebibytes(asked.memory) if asked.memory else None
    left = [held for held in allocation.nodes if (held.node in names if names else held.node not in exclude)]
    if len(left) < nodes:
        without = f", {len(known) - len(left)} of them excluded (resources.exclude)" if len(left) < len(known) else ""
        return [], [f"resources.nodes: {nodes} asked, {where} has {len(known)}{without}: {', '.join(known)}."]
    problems, fit = [], []
    for held in left:
        lacks = []
        if held.cpus < asked.cpus_per_node:
            lacks.append(
                f"resources.cpus_per_rank: {asked.cpus_per_node} CPUs a node asked, {where} has {held.cpus} on "
                f"{held.node}."
            )
        gpus = held.gpus(asked.gpu_type)
        if gpus < asked.gpus_per_node:
            kind = f"{asked.gpu_type} GPUs" if asked.gpu_type else "GPUs"
            lacks.append(
                f"resources.gpus_per_node: {asked.gpus_per_node} {kind} asked, {where} has {gpus} on {held.node}."
            )
        for wish, there in parse.lacking(held.gres, asked.gres, untyped=True):
            lacks.append(f"resources.gres: {wish} asked, {where} has {there} on {held.node}.")
        if wanted is not None and held.memory is not None and held.memory < wanted:
            lacks.append(f"resources.memory: {asked.memory} asked, {where} has {held.memory}M on {held.node}.")
        problems += lacks
        fit += [] if lacks else [held.node]
    return (fit[:nodes], []) if len(fit) >= nodes else ([], problems)


def described(allocation: Allocation, nodes: Sequence[str], now: float) -> str:
    """Return where a launch runs, as text for people."""
    left = allocation.left(now)
    limit = "no time limit" if left is None else f"{clock(int(left))} left"
    return (
        f"job {allocation.job_id} ({allocation.name}): {' '.join(nodes)} of its {len(allocation.nodes)} nodes; {limit}"
    )


def limit_note(allocation: Allocation, time_minutes: float, now: float) -> str | None:
    """Return a warning if the job may end before the launch does, else None."""
    left = allocation.left(now)
    if left is None or left >= time_minutes * 60:
        return None
    return (
        f"job {allocation.job_id} has {clock(int(left))} left, which is less than resources.time "
        f"({clock(round(time_minutes * 60))}): Slurm ends the launch with the job"
    )


def choose_nodes(
    slurm: Slurm, asked: AllocationNeeds, now: Callable[[], float]
) -> tuple[Allocation, list[str], list[str]]:
    """Return (allocation, nodes to run on, problems) for what a launch requests. Raises `RankzeroError`."""
    allocation = allocation_of(slurm, asked.job_id)
    excluded = [node for names in asked.exclude for node in expand_nodes(slurm, names)]
    nodes, problems = choose(allocation, replace(asked, exclude=excluded))
    warning = limit_note(allocation, asked.time_minutes, now())
    if warning:
        slurm.note(warning)
    return allocation, nodes, problems
