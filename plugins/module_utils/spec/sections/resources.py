# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sections of the job spec for the request to Slurm: the nodes, and how the ranks start on them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import Sbatch, option
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.launchers import KIND, STARTERS

# Characters that Slurm accepts for accounts, partitions, QOS, features and host lists.
SLURM_NAME = r"[A-Za-z0-9_.,:@/+=&|*!()\[\] -]+"
OPTION_NAME = r"[a-z][a-z0-9-]*"
# name, name:count, name:type or name:type:count, as --gres takes it (sbatch(1)).
GRES = r"[A-Za-z][A-Za-z0-9_-]*(:[A-Za-z][A-Za-z0-9_.-]*)?(:[1-9][0-9]*[KMGTP]?)?"
# The values of launcher.gpus.
GPU_OF_RANK, GPUS_OF_NODE = GPUS_OF = ("rank", "node")

_slurm_name = t.text(SLURM_NAME, "a name as Slurm knows it", lines=False)
_partition = t.text(r"[A-Za-z0-9_.:@/+=,-]+", "the name of a partition, or several with commas and no blanks")


def _number_of_gpus(value: object) -> int:
    """Parse a number of GPUs. Slurm would take their type with it."""
    try:
        number: int = t.integer(0).parse(value)
        return number
    except t.Invalid as error:
        typed = re.fullmatch(r"([A-Za-z0-9_.-]{1,40}):([0-9]{1,4})", value) if isinstance(value, str) else None
        how = f"; write gpu_type: {typed[1]}, gpus_per_node: {typed[2]}" if typed else ""
        raise t.Invalid(f"{error}{how}") from None


_GPUS = replace(t.integer(0), parse=_number_of_gpus)


def gpus(ask: Resources) -> str:
    """Return each node's GPUs, as --gpus-per-node takes them; "" if there are none."""
    return ":".join(filter(None, [ask.gpu_type, str(ask.gpus_per_node)])) if ask.gpus_per_node else ""


def generic_resources(ask: Resources) -> str | None:
    """Return each node's generic resources with its GPUs, as --gres takes them; None if there are none."""
    return ",".join([*([f"gpu:{gpus(ask)}"] if ask.gpus_per_node else []), *ask.gres]) or None


def with_singleton(ask: Resources) -> str | None:
    """Return a dependency with `singleton`, which makes a duplicate wait behind the original.

    It cannot be added to alternatives (`?`), of which any one suffices. The jobs of `any_of` do not wait for each
    other: the claim alone lets one of them run.
    """
    own = ask.dependency
    if ask.any_of:
        return own
    if own is None:
        return "singleton"
    return own if "?" in own or "singleton" in own.split(",") else f"{own},singleton"


#: What the alternatives of `resources.any_of` may differ in. Each is an option of sbatch by the same name.
DIFFERENCES = {
    **dict.fromkeys(("account", "constraint", "qos", "reservation"), _slurm_name),
    "partition": _partition,
    "time": t.TIME,
}

# The value of `launch_cluster.budget`.
BUDGET = t.mapped(
    r"(node|gpu)_hours(_a_month)?",
    "one of node_hours, gpu_hours, node_hours_a_month, gpu_hours_a_month",
    t.text(r"[0-9]{1,12}(\.[0-9]{1,6})?", "a number of hours such as 500, or '12.5' in quotes"),
)


@dataclass(frozen=True)
class Resources:
    """Section `resources`: the request to Slurm. Most fields are options of sbatch."""

    nodes: int = option(
        t.integer(1),
        "Number of nodes.",
        1,
        short="nodes",
        example=8,
        sbatch=Sbatch("nodes", size=True, inside="step"),
        also=("nnodes", "num_nodes", "num_machines", "num_replicas"),
    )
    spares: int = option(
        t.integer(0),
        "Nodes requested in addition to `nodes`. They replace nodes that are not fit, and nodes that fail while "
        "the ranks run: the ranks then restart inside the job. Without a fault they idle.",
        0,
        key=False,
        short="spares",
        example=1,
        sbatch=Sbatch(
            "no-kill",
            either=True,
            inside="{value} spare nodes cannot be requested inside job {job}, whose nodes are fixed; omit it, and "
            "choose nodes by launcher.inside_nodes",
        ),
    )
    time: str = option(
        t.TIME,
        "Time limit.",
        "01:00:00",
        key=False,
        short="time",
        also=("walltime", "time_limit", "timelimit", "timeout_min"),
        example="04:00:00",
        sbatch=Sbatch("time", inside="given"),
    )
    gpus_per_node: int = option(
        _GPUS,
        "GPUs of each node.",
        0,
        short="gpus_per_node",
        example=8,
        sbatch=Sbatch("gpus-per-node", value=gpus, inside="step"),
        instead_of=("gpus", "gpus-per-socket"),
        also=("gpu", "num_gpus", "ngpus", "accelerators", "devices"),
    )
    gpu_type: str | None = option(
        t.text(r"[A-Za-z0-9_.-]+", "a GRES type such as h100"),
        "Type of the GPUs, as the site names it.",
        example="h100",
    )
    gres: tuple[str, ...] = option(
        t.listed(t.text(GRES, "a generic resource such as lscratch:500 or nic:cx7:2")),
        "Generic resources of each node other than GPUs, as `name:count` or `name:type:count`, for example local "
        "scratch space that the site accounts for.",
        (),
        key=False,
        example=["lscratch:500"],
        sbatch=Sbatch("gres", value=lambda ask: ",".join(ask.gres), inside="step"),
    )
    cpus_per_rank: int | None = option(
        t.auto_or(t.integer(1)),
        "CPUs of each rank. Under srun this is the step's cpus-per-task; under torchrun the single task of a node "
        "gets cpus_per_rank times ranks_per_node. `auto`: with `exclusive`, the ranks of a node share all its CPUs, "
        "counted on the nodes (the smallest one counts); otherwise 1.",
        None,
        key=False,
        short="cpus_per_rank",
        example=12,
        sbatch=Sbatch("cpus-per-task", size=True, inside="step"),
        also=("cpus", "num_cpus"),
    )
    memory: str | None = option(
        t.text(r"[0-9]{1,12}[KMGT]?", "a size such as 64G, or 0 for all memory of the node", meant=t.size_meant),
        "Memory of each node; 0 means all of it. Default: the partition's default.",
        key=False,
        short="memory",
        also=("mem_gb", "memory_gb", "mem_mb", "memory_mb"),
        example="0",
        sbatch=Sbatch("mem", inside="step"),
    )
    partition: str | None = option(
        _partition,
        "Partition. Default: the cluster's default partition.",
        key=False,
        also=("queue",),
        short="partition",
        example="batch",
        sbatch=Sbatch("partition"),
    )
    account: str | None = option(
        _slurm_name, "Account to charge.", key=False, short="account", example="ml", sbatch=Sbatch("account")
    )
    qos: str | None = option(
        _slurm_name, "Quality of service.", key=False, short="qos", example="high", sbatch=Sbatch("qos")
    )
    constraint: str | None = option(
        _slurm_name,
        "Node features to request.",
        key=False,
        short="constraint",
        example="ib",
        sbatch=Sbatch("constraint"),
    )
    reservation: str | None = option(
        _slurm_name,
        "Reservation to run in.",
        key=False,
        short="reservation",
        example="course",
        sbatch=Sbatch("reservation"),
    )
    exclude: tuple[str, ...] = option(
        t.listed(t.text(r"([A-Za-z0-9_.,-]|\[[0-9,-]+\])+", "a host name, or a host list such as node[01-04,07]")),
        "Nodes not to use.",
        (),
        key=False,
        short="exclude",
        example=["node07"],
        sbatch=Sbatch("exclude", value=lambda ask: ",".join(ask.exclude), inside="given"),
    )
    segment: int | None = option(
        t.integer(1),
        "Number of nodes that must be in the same block of the cluster's topology (topology/block, Slurm 23.11 or "
        "later). The job gets `nodes` and `spares` in segments of this size, so it divides their sum.",
        key=False,
        short="segment",
        example=1,
        sbatch=Sbatch("segment"),
    )
    switches: str | None = option(
        t.text(r"[1-9][0-9]{0,5}(@[0-9:-]+)?", "a number of switches such as 1, or with the longest wait 1@02:00:00"),
        "Most leaf switches for the nodes of the job (topology/tree), and how long Slurm may wait for that.",
        key=False,
        short="switches",
        example="1@02:00:00",
        sbatch=Sbatch("switches"),
    )
    exclusive: bool = option(
        t.BOOLEAN,
        "Request whole nodes that are not shared with other jobs.",
        False,
        key=False,
        short="exclusive",
        example=True,
        sbatch=Sbatch("exclusive"),
    )
    dependency: str | None = option(
        t.text(r"[A-Za-z0-9_:,?+-]+", "a Slurm dependency such as afterok:123"),
        "Dependency on other jobs. `singleton` is added, unless the conditions are alternatives.",
        key=False,
        example="afterok:123",
        sbatch=Sbatch(
            "dependency",
            value=with_singleton,
            salloc=lambda ask: ask.dependency,
            inside="{value} has no effect inside job {job}, which is running already; omit it",
        ),
    )
    any_of: tuple[dict[str, str], ...] = option(
        t.listed(t.record("alternative", DIFFERENCES, (), lambda given: [] if given else ["must not be empty"])),
        "Alternatives, two or more: what each has in place of the values here. The job is submitted once for each of "
        "them. The first that starts runs the launch and cancels the others, and at most one runs. A `time` may be "
        "shorter than that of the job, not longer.",
        (),
        key=False,
        example=[{"account": "ml"}, {"partition": "preempt", "time": "02:00:00"}],
    )
    sbatch: dict[str, Any] = option(
        t.mapped(OPTION_NAME, "a long option of sbatch without its dashes", t.OPTION),
        "Any other sbatch option, by its long name.",
        {},
        key=False,
        example={"mail-type": "END"},
    )


@dataclass(frozen=True)
class Launcher:
    """Section `launcher`: how the ranks start."""

    kind: str = option(
        KIND,
        "What starts the ranks. "
        + " ".join(f"`{row.kind}`: {row.doc}." for row in STARTERS)
        + " A cluster may declare others in `launch_cluster.launchers`.",
        "srun",
        short="launcher",
        example="torchrun",
    )
    ranks_per_node: int | None = option(
        t.auto_or(t.integer(1)),
        "Ranks on each node. `auto` means one per GPU, or one if no GPUs are requested or `gpus` is `node`.",
        short="ranks_per_node",
        example=2,
        sbatch=Sbatch("ntasks-per-node", size=True, inside="step"),
        instead_of=("ntasks", "tasks-per-node"),
        also=("nproc_per_node", "num_processes", "processes_per_node"),
    )
    gpus: str = option(
        t.choice(*GPUS_OF),
        "Who uses the GPUs of a node. `rank`: each rank has one, that of its LOCAL_RANK, so there are as many ranks as "
        "GPUs. `node`: a rank uses all of them, as Ray, vLLM, JAX with one process a node and launchers of programs "
        "do; there may be any number of ranks, and no option may bind a GPU to one. In both cases every rank sees all "
        "GPUs of its node.",
        GPU_OF_RANK,
        example=GPUS_OF_NODE,
    )
    rendezvous: str = option(
        t.choice("static", "c10d"),
        "Rendezvous of torchrun's nodes. `static`: node ranks and the first node's address are given. `c10d`: the "
        "nodes meet at the first node's port and get their ranks there.",
        "static",
        example="c10d",
    )
    port: int | None = option(
        t.auto_or(t.integer(1024, 65535)),
        "MASTER_PORT. `auto` chooses a port that is free on the first node: one of 20000 to 23999, which neither Ray's "
        "workers nor the connections of a usual kernel take (else of 7000 to 7999). RANKZERO_PORTS has 8 more of them, "
        "for other services of the program, with blanks between them.",
        key=False,
        example=29500,
    )
    inside_job: str | None = option(
        t.text(r"[0-9]{1,18}(_[0-9]{1,18})?", "the id of a running job such as 1234, or 1234_5 for a task of an array"),
        "Run inside this running job of yours (salloc or any other) instead of submitting a new one.",
        key=False,
        short="inside_job",
        example="1234",
    )
    inside_nodes: tuple[str, ...] = option(
        t.listed(t.text(r"[A-Za-z0-9_.-]+", "a host name")),
        "Nodes of that job to run on, `resources.nodes` of them. Default: its first nodes with the requested "
        "resources.",
        (),
        key=False,
        example=["node02", "node03"],
    )
    wait: int = option(
        t.integer(0, 31_536_000, seconds=True),
        "Seconds that the other ranks may continue after the first one has ended, before the step is ended. The "
        "limit is one minute once rank 0 has ended and the artifact is valid. With 0 the job waits until the time "
        "limit, as srun does for a rank whose node was restarted.",
        3600,
        key=False,
        example=600,
    )
    srun: dict[str, Any] = option(
        t.mapped(OPTION_NAME, "a long option of srun without its dashes", t.OPTION),
        "Any other srun option of the ranks' step, by its long name.",
        {},
        short_keys=("mpi",),
        example={"mpi": "pmix"},
    )
