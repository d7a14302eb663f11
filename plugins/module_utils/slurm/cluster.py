# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole picture of a cluster, for cluster_info. Sources: sinfo(1), scontrol(1), sacctmgr(1), slurm.conf(5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.errors import SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import containers, parse
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.partitions import (
    STATE_MARKS,
    NodeGroup,
    Partition,
    clock,
    limits,
)

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
    shown = slurm.call("scontrol", "--all", "--oneliner", "show", "partition").stdout
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
