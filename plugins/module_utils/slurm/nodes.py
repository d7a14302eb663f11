# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes of a cluster with their partitions, state, features and GPUs. Pure. Source: scontrol(1), show node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.partitions import AWAY, STATE_MARKS

#: The arguments of scontrol. The caller prepends the words that run scontrol.
QUESTION = ("show", "node")


@dataclass(frozen=True)
class Node:
    """One node. `memory` in MiB; `flags` are what Slurm adds to a state (`drain`, `planned`), in its order."""

    name: str
    address: str
    state: str
    flags: tuple[str, ...]
    responding: bool
    partitions: tuple[str, ...]
    features: tuple[str, ...]
    gres: tuple[parse.Gres, ...]
    cpus: int
    memory: int
    reason: str
    version: str

    @property
    def available(self) -> bool:
        """Whether the node may take a job now or after its current jobs have ended."""
        return self.responding and not any(word.startswith(AWAY) for word in (self.state, *self.flags))

    @property
    def gpus(self) -> int:
        """The number of GPUs of all types."""
        return parse.count_gres(self.gres, "gpu")

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """The types of its GPUs, sorted; empty if Slurm knows none."""
        return tuple(sorted({each.type for each in self.gres if each.name == "gpu" and each.type}))


def parse_nodes(text: str) -> list[Node]:
    """Parse the nodes of `scontrol show node`, in its order. Blocks without a node name are ignored."""
    return [_node(block) for block in parse.parse_blocks(text) if block.get("NodeName")]


def _node(block: dict[str, str]) -> Node:
    base, *flags = block.get("State", "UNKNOWN").split("+")
    responding = "*" not in base and "NOT_RESPONDING" not in flags
    features = _words(block.get("ActiveFeatures", "")) or _words(block.get("AvailableFeatures", ""))
    return Node(
        name=block["NodeName"],
        address=block.get("NodeAddr") or block["NodeName"],
        state=base.rstrip(STATE_MARKS).lower(),
        flags=tuple(flag.rstrip(STATE_MARKS).lower() for flag in flags),
        responding=responding,
        partitions=_words(block.get("Partitions", "")),
        features=features,
        gres=tuple(parse.parse_gres(block.get("Gres", ""))),
        cpus=parse.parse_count(block.get("CPUTot", "")) or 0,
        memory=parse.parse_count(block.get("RealMemory", "")) or 0,
        reason=block.get("Reason", ""),
        version=block.get("Version", ""),
    )


def _words(text: str) -> tuple[str, ...]:
    return () if text in ("", "(null)") else tuple(word for word in text.split(",") if word)


def variables(node: Node) -> dict[str, object]:
    """Return the inventory variables of a node's host; all names begin with `slurm_`."""
    return {
        "slurm_node": node.name,
        "slurm_address": node.address,
        "slurm_state": node.state,
        "slurm_flags": list(node.flags),
        "slurm_available": node.available,
        "slurm_partitions": list(node.partitions),
        "slurm_features": list(node.features),
        "slurm_gres": [{"name": each.name, "type": each.type, "count": each.count} for each in node.gres],
        "slurm_gpus": node.gpus,
        "slurm_gpu_types": list(node.gpu_types),
        "slurm_cpus": node.cpus,
        "slurm_memory": node.memory,
        "slurm_reason": node.reason,
        "slurm_version": node.version,
    }


def groups(variables_of: dict[str, object], kinds: Sequence[str]) -> list[str]:
    """Return the names of a host's inventory groups, derived from its `variables`; `kinds` as in GROUPS."""
    names = []
    for kind in kinds:
        value = variables_of[GROUPS[kind]]
        names += [f"{kind}_{word}" for word in (value if isinstance(value, list) else [value])]
    return names


#: Kind of group -> the variable that determines it.
GROUPS = {
    "partition": "slurm_partitions",
    "state": "slurm_state",
    "flag": "slurm_flags",
    "feature": "slurm_features",
    "gpu": "slurm_gpu_types",
}
