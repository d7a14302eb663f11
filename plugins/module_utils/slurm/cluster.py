# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe a cluster completely, for cluster_info. Sources: sinfo(1), scontrol(1), sacctmgr(1), slurm.conf(5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import (
    SlurmError,
    SlurmMissing,
    SlurmUnavailable,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import container_support, parse, site_limits
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.partitions import (
    STATE_MARKS,
    NodeGroup,
    Partition,
    clock,
    from_rules,
    limits,
)

# Settings of slurm.conf that affect launches. The result of cluster_info names them in lower case.
SETTINGS = (
    *("MaxArraySize", "KillWait", "MinJobAge", "JobRequeue", "PreemptMode", "PreemptType", "SelectType"),
    *("ProctrackType", "TaskPlugin", "AccountingStorageEnforce", "AccountingStoreFlags", "EnforcePartLimits"),
    *("PrivateData",),
)


def _setting(value: str) -> str | int:
    """Return values such as 3 sec and 5001 as numbers, any other value unchanged."""
    number = value.removesuffix(" sec").strip()
    return int(number) if number.isdecimal() else value


def snake(name: str) -> str:
    """Convert a name to snake case: KillWait to kill_wait, MaxTRESPerJob to max_tres_per_job."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _settings(config: Mapping[str, str]) -> dict[str, str | int]:
    return {snake(name): _setting(config[name]) for name in SETTINGS if name in config}


def _partition_result(partition: Partition, block: Mapping[str, str]) -> dict[str, object]:
    """Return one partition as cluster_info does. If nodes differ, the largest numbers are given and `mixed` is true."""
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
        "deny_accounts": block.get("DenyAccounts", ""),
        "allow_qos": block.get("AllowQos", ""),
        "deny_qos": block.get("DenyQos", ""),
        "allow_groups": block.get("AllowGroups", ""),
        "qos": "" if block.get("QoS", "N/A") == "N/A" else block["QoS"],
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


Found = TypeVar("Found")


def _told(slurm: Slurm, what: str, ask: Callable[[], Found], otherwise: Found) -> Found:
    """Return the answer of `ask`. If the site hides it (PrivateData), record a warning and return `otherwise`.

    Raises `SlurmUnavailable` and `SlurmMissing`.
    """
    try:
        return ask()
    except (SlurmUnavailable, SlurmMissing):
        raise
    except SlurmError as error:
        slurm.note(f"{what} are not available: {error.message}")
        return otherwise


def describe(slurm: Slurm) -> dict[str, object]:
    """Return the result of cluster_info. Raises `SlurmUnavailable` if no controller answers."""
    controllers = parse.parse_ping(slurm.attempt("scontrol", "ping").stdout)
    if controllers and not any(controller["up"] for controller in controllers):
        hosts = ", ".join(str(controller["host"]) for controller in controllers)
        raise SlurmUnavailable(
            f"slurmctld does not answer on {hosts}. The state of the cluster is unknown; "
            "ask its administrators, or look with `scontrol ping`.",
            controllers=controllers,
        )
    config = parse.parse_config(slurm.call("scontrol", "show", "config").stdout)
    blocks = site_limits.parse_partitions(
        _told(
            slurm, "partitions", lambda: slurm.call("scontrol", "--all", "--oneliner", "show", "partition").stdout, ""
        )
    )
    cluster_limits = _told(slurm, "nodes", lambda: limits(slurm), from_rules(blocks))
    none: dict[str, int] = {}
    return {
        "cluster": config.get("ClusterName", ""),
        "version": config.get("SLURM_VERSION", ""),
        "controllers": controllers,
        "default_partition": cluster_limits.default.name if cluster_limits.default else None,
        "partitions": [_partition_result(p, blocks.get(p.name, {})) for p in cluster_limits.partitions],
        "node_states": _told(slurm, "states of the nodes", lambda: _node_states(slurm), none),
        "features": _features(cluster_limits.partitions),
        "gpu_types": _gpu_types(cluster_limits.partitions),
        "accounting": _accounting(slurm, config),
        "containers": container_support.detect(slurm, config),
        "settings": _settings(config),
        "mine": mine(slurm, config),
    }


def mine(slurm: Slurm, config: Mapping[str, str]) -> dict[str, object]:
    """Return the accounts and QOS that this user may use, with their limits; empty if not enforced or not visible."""
    user, groups = site_limits.whoami()
    known = site_limits.accounts(slurm, user, config)
    rows, enforced = list(known.associations or ()), config.get("AccountingStorageEnforce", "")
    named = sorted({name for row in rows for name in row["QOS"].split(",") if name})
    return {
        "user": user,
        "groups": sorted(groups),
        "enforced": [word for word in enforced.split(",") if word not in ("", "none")],
        "default_account": next((row["DefaultAccount"] for row in rows if row["DefaultAccount"]), None),
        "associations": [_limits_of(row, ("Account", "Partition", "QOS", "DefaultQOS")) for row in rows],
        "qos": [_limits_of(row, ("Name", "Flags")) for name, row in (known.qos or {}).items() if name in named],
        "unknown": list(known.unknown),
    }


def _limits_of(row: Mapping[str, str], always: tuple[str, ...]) -> dict[str, str]:
    """Return a row of sacctmgr with the limits that are set, under sacctmgr's names in snake case."""
    own = {name: value for name, value in row.items() if name not in ("User", "DefaultAccount")}
    return {snake(name): value for name, value in own.items() if value or name in always}


def _node_states(slurm: Slurm) -> dict[str, int]:
    """Count the nodes of the whole cluster by state. Partitions overlap, so their counts must not be added up."""
    answer = slurm.call("sinfo", "--noheader", "--all", "--Node", "--format=%N %T").stdout
    nodes = dict(line.split(None, 1) for line in answer.splitlines() if len(line.split(None, 1)) == 2)
    counts: dict[str, int] = {}
    for state in nodes.values():
        word = state.strip().rstrip(STATE_MARKS)
        counts[word] = counts.get(word, 0) + 1
    return counts
