# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the topology of a cluster, and judge whether its blocks or leaf switches can hold a job's groups of nodes.

Sources: scontrol(1), topology.conf(5), sbatch(1) (--segment, --switches).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

BLOCK, TREE = "block", "tree"
# Values of TopologyPlugin that know neither blocks nor switches.
FLAT = ("topology/none", "topology/default", "topology/flat")
_FIELD = re.compile(r"(\w+)=(\S*)")
_BRACKETS = re.compile(r"\[([^\]]*)\]")


@dataclass(frozen=True)
class Unit:
    """A block, or a leaf switch, and its number of nodes."""

    name: str
    nodes: int


@dataclass(frozen=True)
class Topology:
    """The blocks (`kind` is `block`) or leaf switches (`tree`) of a cluster; without either, `kind` is empty."""

    kind: str = ""
    units: tuple[Unit, ...] = ()

    @property
    def largest(self) -> int:
        """The nodes of the largest unit."""
        return max((unit.nodes for unit in self.units), default=0)

    @property
    def words(self) -> str:
        """The units with their sizes, as a sentence shows them: units of equal size together."""
        sizes: dict[int, list[str]] = {}
        for unit in self.units:
            sizes.setdefault(unit.nodes, []).append(unit.name)
        kind = "block" if self.kind == BLOCK else "leaf switch"
        plural = f"{kind}s" if self.kind == BLOCK else f"{kind}es"
        return ", ".join(
            f"{len(names)} {kind if len(names) == 1 else plural} of {size}"
            for size, names in sorted(sizes.items(), reverse=True)
        )


def count_nodes(host_list: str) -> int:
    """Return how many nodes a host list such as node[01-04,07],gpu1 names."""
    total = 0
    for text in filter(None, re.split(r",(?![^\[]*\])", host_list)):
        number = 1
        for inner in _BRACKETS.findall(text):
            pairs = [part.partition("-") for part in inner.split(",")]
            number *= sum(int(last) - int(first) + 1 if last else 1 for first, _dash, last in pairs)
        total += number
    return total


def parse(text: str) -> Topology:
    """Parse `scontrol show topology`. Blocks win over switches where a cluster has both."""
    blocks, leaves = [], []
    for line in text.splitlines():
        fields = dict(_FIELD.findall(line))
        try:
            if "BlockName" in fields:
                blocks.append(Unit(fields["BlockName"], count_nodes(fields.get("Nodes", ""))))
            elif "SwitchName" in fields and fields.get("Level") == "0":
                leaves.append(Unit(fields["SwitchName"], count_nodes(fields.get("Nodes", ""))))
        except ValueError:
            # A host list in a notation that is not known here: better no judgement than a wrong one.
            return Topology()
    return Topology(BLOCK, tuple(blocks)) if blocks else Topology(TREE if leaves else "", tuple(leaves))


def judge(there: Topology, nodes: int, segment: int | None, switches: str | None, group: int) -> tuple[str, str]:
    """Return (why the cluster can never run this, what to note); each may be empty. `group`: nodes of one group."""
    if segment:
        return _judge_segment(there, nodes, segment), ""
    if group < 2 or not there.units:
        return "", ""
    kind = "block" if there.kind == BLOCK else "leaf switch"
    start = f"a tensor- or expert-parallel group takes {group} nodes, and this cluster has {there.words}"
    if group > there.largest:
        return "", f"{start}: no group fits into one {kind}; smaller groups or more ranks a node would"
    if there.kind == BLOCK:
        return "", f"{start}; Slurm may cut a group: resources.segment: {group} keeps each in one block"
    if switches is None and nodes <= there.largest:
        return "", f"{start}; Slurm may cut a group: resources.switches: 1 keeps the job under one leaf switch"
    return "", ""


def _judge_segment(there: Topology, nodes: int, segment: int) -> str:
    if there.kind != BLOCK:
        known = f"has {there.words}; use resources.switches" if there.units else "has no blocks; omit it"
        return f"resources.segment: {segment} needs a cluster with blocks (topology/block), and this one {known}."
    held = sum(unit.nodes // segment for unit in there.units)
    wanted = nodes // segment
    if held >= wanted:
        return ""
    return f"resources.segment: {wanted} x {segment} nodes asked; {there.words} hold {held} such segments."
