# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the partitions of a cluster and their nodes with one sinfo. Sources: sinfo(1), slurm.conf(5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm

# Letters for sinfo -o: partition, partition with the default's star, availability, time limit, default time, job size,
# nodes, CPUs per node, MiB per node, generic resources, node state, features.
SINFO_CODES = ("R", "P", "a", "l", "L", "s", "D", "c", "m", "G", "T", "f")
# Marks that sinfo appends to a node state: not responding, powering, rebooting, planned, ...
STATE_MARKS = "*~#!%$@^-+"
# States in which a node takes no job now. The node may come back, so this is a reason to wait, not to refuse.
AWAY = ("down", "drain", "fail", "maint", "reserved", "unknown", "reboot", "inval", "blocked", "future")


@dataclass(frozen=True)
class NodeGroup:
    """Nodes of one partition with equal values in every column of sinfo. `memory` in MiB."""

    count: int
    cpus: int
    memory: int
    gres: tuple[parse.Gres, ...]
    state: str
    features: tuple[str, ...]

    def gpus(self, gpu_type: str | None = None) -> int:
        """Return the number of GPUs per node, of one type if given."""
        return parse.count_gres(self.gres, "gpu", gpu_type)

    @property
    def available(self) -> bool:
        """Whether its nodes can run jobs: not down, draining, failing, reserved or in maintenance."""
        return not self.state.startswith(AWAY)


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
    # The number of nodes if the site hides their details (PrivateData=nodes); `groups` is empty then.
    hidden_nodes: int = 0

    @property
    def total_nodes(self) -> int:
        """The number of nodes in any state, including those in a partition that sinfo does not show."""
        return self.hidden_nodes or sum(group.count for group in self.groups)

    @property
    def available_nodes(self) -> int:
        """The number of nodes that can run jobs, busy ones included."""
        return sum(group.count for group in self.groups if group.available)


@dataclass(frozen=True)
class ClusterLimits:
    """The partitions that this user can see, read with one command."""

    partitions: tuple[Partition, ...]

    @property
    def default(self) -> Partition | None:
        """The partition for jobs that name none; None if the site has no default."""
        return next((partition for partition in self.partitions if partition.default), None)

    def find(self, name: str) -> Partition | None:
        """Return the partition with this name; None if the user cannot see one."""
        return next((partition for partition in self.partitions if partition.name == name), None)


def parse_limits(text: str) -> tuple[ClusterLimits, list[str]]:
    """Parse the output of `sinfo` with SINFO_CODES into limits and warnings. Pure."""
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
                # sinfo prints one number if both limits are equal.
                max_nodes=parse.parse_count(high or low),
                groups=tuple(group for group in groups if group.count),
            )
        )
    return ClusterLimits(tuple(partitions)), warnings


def from_rules(blocks: Mapping[str, Mapping[str, str]]) -> ClusterLimits:
    """Return the limits from `scontrol show partition` alone, for sites that hide sinfo (PrivateData=nodes)."""
    return ClusterLimits(
        tuple(
            Partition(
                name=name,
                default=block.get("Default") == "YES",
                state=block.get("State", "UP").lower(),
                max_time=parse.parse_duration(block.get("MaxTime", "")),
                default_time=parse.parse_duration(block.get("DefaultTime", "")),
                min_nodes=parse.parse_count(block.get("MinNodes", "")) or 1,
                max_nodes=parse.parse_count(block.get("MaxNodes", "")),
                groups=(),
                hidden_nodes=parse.parse_count(block.get("TotalNodes", "")) or 0,
            )
            for name, block in blocks.items()
        )
    )


def limits(slurm: Slurm) -> ClusterLimits:
    """Read the limits of the cluster with one command. Raises `SlurmUnavailable` if slurmctld does not answer."""
    result = slurm.call("sinfo", "--noheader", "--all", f"--format={parse.sinfo_format(SINFO_CODES)}")
    cluster_limits, warnings = parse_limits(result.stdout)
    for warning in warnings:
        slurm.note(f"sinfo: {warning}")
    return cluster_limits


def clock(seconds: int) -> str:
    """Return seconds as Slurm writes a time limit: 1-02:00:00, 00:30:00."""
    days, rest = divmod(seconds, 86400)
    text = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{text}" if days else text
