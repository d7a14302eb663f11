# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From Slurm's tasks to the ranks of a job: how many nodes, ranks on each, and CPUs for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from rankzero.sbatch.job import Job, integer

#: Options of srun that say how many tasks there are, and where.
STEP_SIZES = ("nodes", "ntasks", "ntasks-per-node", "tasks-per-node", "cpus-per-task")


class Sized(Protocol):
    """What of a step decides its size (step.Step)."""

    line: int
    srun: dict[str, str]
    by: str
    direct: bool


def sizes(job: Job, step: Sized, by_rank: bool) -> None:
    """Turn Slurm's tasks into the job's ranks. by_rank: each task is a rank; else it has all ranks of its node."""
    if step.direct:
        nodes, tasks = _of_one_process(job, step)
    else:
        nodes, tasks = _of_srun(job, step)
    job.put("resources", "nodes", nodes)
    if job.gpus is not None:
        job.put("resources", "gpus_per_node", job.gpus // nodes)
        if job.gpus % nodes:
            job.keep(step.line, "--gpus", "is no multiple of the number of nodes")
    gpus = int(job.get("resources", "gpus_per_node", 0))
    ranks = job.get("launcher", "ranks_per_node") or gpus or 1
    if by_rank:
        if tasks == 1 and gpus > 1:
            job.put("launcher", "gpus", "node")
        elif tasks != (gpus or 1):
            job.put("launcher", "ranks_per_node", tasks)
        ranks = tasks
    elif tasks != 1:
        job.keep(step.line, f"{tasks} times {step.by} on a node", "a launcher starts once on each node")
    cpus = _cpus(job, step)
    if cpus:
        job.put("resources", "cpus_per_rank", max(1, cpus * tasks // ranks))


def _cpus(job: Job, step: Sized) -> int | None:
    """The CPUs of a task; None where nothing says it."""
    if step.direct and not step.by and (job.tasks_per_node or job.ntasks):
        # Tasks that are never started are a request for CPUs.
        return (job.cpus_per_task or 1) * (job.tasks_per_node or job.ntasks or 1)
    return integer(step.srun.get("cpus-per-task", "")) or job.cpus_per_task


def _of_one_process(job: Job, step: Sized) -> tuple[int, int]:
    """A program that no srun starts runs once, on the first node."""
    nodes = job.nodes or 1
    if nodes > 1:
        job.keep(step.line, "the program", f"runs on the first of {nodes} nodes; a job's runs on all")
    return nodes, 1


def _of_srun(job: Job, step: Sized) -> tuple[int, int]:
    """(nodes, tasks of the step on each of them) as Slurm decides them."""
    given = _numbers(job, step, step.srun)
    per_node = given.get("ntasks-per-node") or given.get("tasks-per-node")
    total = given.get("ntasks")
    if not per_node and not total:
        per_node, total = job.tasks_per_node, job.ntasks
    nodes = job.nodes or given.get("nodes") or (-(-total // per_node) if total and per_node else None)
    if not nodes and (total or 1) > 1:
        job.keep(step.line, "--ntasks", "Slurm chooses how many nodes there are; give --nodes")
    nodes = nodes or 1
    if given.get("nodes", nodes) != nodes:
        job.keep(step.line, "srun --nodes", f"the step has other nodes than the job, which has {nodes}")
    if total is None:
        return nodes, per_node or 1
    if total % nodes or (per_node and total != per_node * nodes):
        job.keep(step.line, "--ntasks", f"{total} tasks are not the same number on each of {nodes} nodes")
    return nodes, max(1, total // nodes)


def _numbers(job: Job, step: Sized, options: Mapping[str, str]) -> dict[str, int]:
    numbers = {}
    for name in STEP_SIZES:
        number = integer(options.get(name, "1"))
        if number is None:
            job.keep(step.line, f"srun --{name}", "a job has a plain number here")
        elif name in options:
            numbers[name] = number
    return numbers
