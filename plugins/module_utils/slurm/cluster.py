# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cluster is and what it allows: limits from one sinfo for every submission, the whole picture for cluster_info.

sbatch accepts impossible jobs (9 of 8 nodes) with exit code 0 and leaves them pending for ever, so a request is
compared with the limits before it is submitted. Source: sinfo(1), scontrol(1), slurm.conf(5).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.errors import SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import containers, parse
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm

# Letters of sinfo -o: partition, partition with the default's star, availability, time limit, default time, job size,
# nodes, CPUs a node, MiB a node, generic resources, node state, features.
SINFO_CODES = ("R", "P", "a", "l", "L", "s", "D", "c", "m", "G", "T", "f")
# What sinfo appends to a node state: not responding, powering, rebooting, planned, ...
STATE_MARKS = "*~#!%$@^-+"
# Node states in which a node takes no job now. It may come back: a reason to wait, not to refuse.
_AWAY = ("down", "drain", "fail", "maint", "reserved", "unknown", "reboot", "inval", "blocked")


@dataclass(frozen=True)
class NodeGroup:
    """Nodes of one partition that are alike in every column of sinfo. `memory` in MiB."""

    count: int
    cpus: int
    memory: int
    gres: tuple[parse.Gres, ...]
    state: str
    features: tuple[str, ...]

    def gpus(self, gpu_type: str | None = None) -> int:
        """GPUs of each node, of one type if given."""
        return sum(g.count for g in self.gres if g.name == "gpu" and gpu_type in (None, g.type))

    @property
    def available(self) -> bool:
        return not self.state.startswith(_AWAY)


@dataclass(frozen=True)
class Partition:
    """One partition. Times in seconds; None means no limit (max_time, max_nodes) or not set (default_time)."""

    name: str
    default: bool
    state: str
    max_time: int | None
    default_time: int | None
    min_nodes: int
    max_nodes: int | None
    groups: tuple[NodeGroup, ...]

    @property
    def total_nodes(self) -> int:
        return sum(group.count for group in self.groups)

    @property
    def available_nodes(self) -> int:
        return sum(group.count for group in self.groups if group.available)


@dataclass(frozen=True)
class ClusterLimits:
    """The partitions that this user can see, by one command."""

    partitions: tuple[Partition, ...]

    @property
    def default(self) -> Partition | None:
        return next((partition for partition in self.partitions if partition.default), None)

    def find(self, name: str) -> Partition | None:
        return next((partition for partition in self.partitions if partition.name == name), None)


def parse_limits(text: str) -> tuple[ClusterLimits, list[str]]:
    """Limits and warnings of the output of `sinfo` with SINFO_CODES. Pure."""
    rows, warnings = parse.parse_records(text, SINFO_CODES)
    grouped: dict[str, list[Mapping[str, str]]] = {}
    for row in rows:
        grouped.setdefault(row["R"], []).append(row)
    partitions = []
    for name, members in grouped.items():
        first = members[0]
        low, _dash, high = first["s"].partition("-")
        groups = (
            NodeGroup(
                count=parse.parse_count(row["D"]) or 0,
                cpus=parse.parse_count(row["c"]) or 0,
                memory=parse.parse_count(row["m"]) or 0,
                gres=tuple(parse.parse_gres(row["G"])),
                state=row["T"].rstrip(STATE_MARKS),
                features=tuple(f for f in row["f"].split(",") if f and f != "(null)"),
            )
            for row in members
        )
        partitions.append(
            Partition(
                name=name,
                default=any(row["P"].endswith("*") for row in members),
                state=first["a"],
                max_time=parse.parse_duration(first["l"]),
                default_time=parse.parse_duration(first["L"]),
                min_nodes=parse.parse_count(low) or 1,
                # sinfo prints one number when both ends are equal.
                max_nodes=parse.parse_count(high or low),
                groups=tuple(group for group in groups if group.count),
            )
        )
    return ClusterLimits(tuple(partitions)), warnings


def limits(slurm: Slurm) -> ClusterLimits:
    """The limits of the cluster by one command. Raises `SlurmUnavailable` when slurmctld is silent."""
    result = slurm.call("sinfo", "--noheader", "--all", f"--format={parse.sinfo_format(SINFO_CODES)}")
    found, warnings = parse_limits(result.stdout)
    for warning in warnings:
        slurm.note(f"sinfo: {warning}")
    return found


def clock(seconds: int) -> str:
    """Seconds as Slurm writes a time limit: 1-02:00:00, 00:30:00."""
    days, rest = divmod(seconds, 86400)
    text = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{text}" if days else text


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def check_request(
    limits: ClusterLimits,
    *,
    nodes: int,
    partition: str | None,
    time_minutes: float | None,
    gpus_per_node: int = 0,
    cpus_per_node: int = 0,
    gpu_type: str | None = None,
) -> list[str]:
    """One sentence for each reason why no partition of the request could ever run it; an empty list when one can. Pure.

    `partition` may be a list with commas, as sbatch takes it; None is the cluster's default. Nodes that are down now
    count: they may come back, and the queue state says that the job waits for them.
    """
    known = ", ".join(p.name for p in limits.partitions) or "none that you can see"
    if partition is None:
        if limits.default is None:
            return [f"resources.partition: not given, and this cluster has no default partition. Known: {known}."]
        candidates = [limits.default]
    else:
        candidates = []
        for name in (part.strip() for part in partition.split(",")):
            found = limits.find(name)
            if found is None:
                near = difflib.get_close_matches(name, [p.name for p in limits.partitions], n=1)
                hint = f"; did you mean {near[0]!r}?" if near else "."
                return [f"resources.partition: {name!r} is not a partition of this cluster{hint} Known: {known}."]
            candidates.append(found)
    problems: list[str] = []
    for candidate in candidates:
        these = _misfits(candidate, nodes, time_minutes, gpus_per_node, cpus_per_node, gpu_type)
        if not these:
            return []
        problems += these
    return problems


def _misfits(
    partition: Partition,
    nodes: int,
    time_minutes: float | None,
    gpus_per_node: int,
    cpus_per_node: int,
    gpu_type: str | None,
) -> list[str]:
    """What of a request does not fit one partition, a sentence each."""
    name = partition.name
    problems = []
    if partition.state in ("drain", "inact", "inactive"):
        problems.append(f"resources.partition: partition {name} takes no new jobs (its state is {partition.state}).")
    if nodes > partition.total_nodes:
        problems.append(f"resources.nodes: {nodes} asked, partition {name} has {partition.total_nodes}.")
    elif partition.max_nodes is not None and nodes > partition.max_nodes:
        problems.append(f"resources.nodes: {nodes} asked, partition {name} allows at most {partition.max_nodes} a job.")
    elif nodes < partition.min_nodes:
        problems.append(f"resources.nodes: {nodes} asked, partition {name} wants at least {partition.min_nodes} a job.")
    if time_minutes is not None and partition.max_time is not None and time_minutes * 60 > partition.max_time:
        asked, allowed = clock(round(time_minutes * 60)), clock(partition.max_time)
        problems.append(f"resources.time: {asked} asked, partition {name} allows at most {allowed}.")
    # A node has to have the GPUs and the cores at once; fewer nodes than asked can be of the right kind.
    wanted = min(nodes, partition.total_nodes)
    gpu_fit = [g for g in partition.groups if g.gpus(gpu_type) >= gpus_per_node]
    cpu_fit = [g for g in partition.groups if g.cpus >= cpus_per_node]
    both_fit = [g for g in gpu_fit if g.cpus >= cpus_per_node]
    kind = f"{gpu_type} GPU" if gpu_type else "GPU"
    types = sorted({g.type for group in partition.groups for g in group.gres if g.name == "gpu" and g.type})
    if gpu_type and gpus_per_node and gpu_type not in types:
        near = difflib.get_close_matches(gpu_type, types, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        known = ", ".join(types) or "none is named"
        problems.append(f"resources.gpu_type: no node of partition {name} has {gpu_type!r}{hint} Known there: {known}.")
    elif _nodes(gpu_fit) < wanted:
        best = max((g.gpus(gpu_type) for g in partition.groups), default=0)
        problems.append(
            f"resources.gpus_per_node: {gpus_per_node} asked on {_count(nodes, 'node')}, but of partition {name} "
            f"{_nodes(gpu_fit)} of {partition.total_nodes} nodes have that many (most on a node: {_count(best, kind)})."
        )
    elif _nodes(cpu_fit) < wanted:
        best = max((g.cpus for g in partition.groups), default=0)
        problems.append(
            f"resources.cpus_per_rank: {cpus_per_node} CPUs a node asked on {_count(nodes, 'node')}, but of partition "
            f"{name} {_nodes(cpu_fit)} of {partition.total_nodes} nodes have that many (most on a node: {best})."
        )
    elif _nodes(both_fit) < wanted:
        problems.append(
            f"resources: only {_count(_nodes(both_fit), 'node')} of partition {name} have both "
            f"{_count(gpus_per_node, kind)} and {cpus_per_node} CPUs; {nodes} asked."
        )
    return problems


def _nodes(groups: Iterable[NodeGroup]) -> int:
    return sum(group.count for group in groups)


# Settings of slurm.conf that decide how a launch behaves. The result of cluster_info names them in lower case.
SETTINGS = (
    "MaxArraySize",
    "KillWait",
    "MinJobAge",
    "JobRequeue",
    "PreemptMode",
    "PreemptType",
    "SelectType",
    "ProctrackType",
    "TaskPlugin",
    "AccountingStorageEnforce",
    "AccountingStoreFlags",
)


def _setting(value: str) -> str | int:
    """ "3 sec" and "5001" as numbers, anything else as it is."""
    number = value.removesuffix(" sec").strip()
    return int(number) if number.isdecimal() else value


def _settings(config: Mapping[str, str]) -> dict[str, str | int]:
    names = {name: "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_") for name in SETTINGS}
    return {key: _setting(config[name]) for name, key in names.items() if name in config}


def _partition_result(partition: Partition, block: Mapping[str, str]) -> dict[str, object]:
    """One partition as cluster_info returns it. Of unlike nodes the largest numbers are given, and `mixed` is true."""
    groups = partition.groups
    shapes = {(g.cpus, g.memory, g.gres) for g in groups}
    return {
        "name": partition.name,
        "default": partition.default,
        "state": partition.state,
        "max_time": None if partition.max_time is None else clock(partition.max_time),
        "default_time": None if partition.default_time is None else clock(partition.default_time),
        "min_nodes": partition.min_nodes,
        "max_nodes": partition.max_nodes,
        "total_nodes": partition.total_nodes,
        "available_nodes": partition.available_nodes,
        "node_states": _by_state(groups),
        "cpus_per_node": max((g.cpus for g in groups), default=0),
        "memory_per_node": max((g.memory for g in groups), default=0),
        "gpus_per_node": max((g.gpus() for g in groups), default=0),
        "gpu_types": _gpu_types([partition]),
        "features": _features([partition]),
        "mixed": len(shapes) > 1,
        "preempt_mode": block.get("PreemptMode", ""),
        "grace_time": parse.parse_count(block.get("GraceTime", "")) or 0,
        "allow_accounts": block.get("AllowAccounts", ""),
        "allow_qos": block.get("AllowQos", ""),
    }


def _by_state(groups: Iterable[NodeGroup]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for group in groups:
        counts[group.state] = counts.get(group.state, 0) + group.count
    return counts


def _gpu_types(partitions: Iterable[Partition]) -> list[str]:
    return sorted({r.type for p in partitions for g in p.groups for r in g.gres if r.name == "gpu" and r.type})


def _features(partitions: Iterable[Partition]) -> list[str]:
    return sorted({feature for p in partitions for g in p.groups for feature in g.features})


def _accounting(slurm: Slurm, config: Mapping[str, str]) -> dict[str, object]:
    kind = config.get("AccountingStorageType", "")
    if not kind or kind.endswith("/none"):
        return {"available": False, "type": kind, "message": "the cluster keeps no accounting"}
    if slurm.find("sacctmgr") is None:
        return {"available": False, "type": kind, "message": "the command sacctmgr is not on this host"}
    answer = slurm.attempt("sacctmgr", "--noheader", "--parsable2", "show", "cluster", "format=Cluster", timeout=15)
    return {"available": answer.rc == 0, "type": kind, "message": "" if answer.rc == 0 else answer.complaint}


def describe(slurm: Slurm) -> dict[str, object]:
    """Everything that cluster_info returns. Raises `SlurmUnavailable` when no controller answers."""
    controllers = parse.parse_ping(slurm.attempt("scontrol", "ping").stdout)
    if controllers and not any(controller["up"] for controller in controllers):
        hosts = ", ".join(str(controller["host"]) for controller in controllers)
        raise SlurmUnavailable(
            f"slurmctld does not answer on {hosts}. Nothing can be said about the cluster; "
            "ask its administrators, or look with `scontrol ping`.",
            controllers=controllers,
        )
    config = parse.parse_config(slurm.call("scontrol", "show", "config").stdout)
    shown = slurm.call("scontrol", "--oneliner", "show", "partition").stdout
    blocks = {block.get("PartitionName", ""): block for block in parse.parse_blocks(shown.replace("\n", "\n\n"))}
    found = limits(slurm)
    return {
        "cluster": config.get("ClusterName", ""),
        "version": config.get("SLURM_VERSION", ""),
        "controllers": controllers,
        "default_partition": found.default.name if found.default else None,
        "partitions": [_partition_result(p, blocks.get(p.name, {})) for p in found.partitions],
        "node_states": _node_states(slurm),
        "features": _features(found.partitions),
        "gpu_types": _gpu_types(found.partitions),
        "accounting": _accounting(slurm, config),
        "containers": containers.detect(slurm, config),
        "settings": _settings(config),
    }


def _node_states(slurm: Slurm) -> dict[str, int]:
    """Nodes of the whole cluster by state. Partitions overlap, so theirs must not be added up."""
    answer = slurm.call("sinfo", "--noheader", "--all", "--Node", "--format=%N %T").stdout
    nodes = dict(line.split(None, 1) for line in answer.splitlines() if len(line.split(None, 1)) == 2)
    counts: dict[str, int] = {}
    for state in nodes.values():
        word = state.strip().rstrip(STATE_MARKS)
        counts[word] = counts.get(word, 0) + 1
    return counts
