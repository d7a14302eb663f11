# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which named fabric fits a cluster, and why; if that cannot be determined, what to check. Pure.

The interfaces of a login node say little about those of the nodes, which are known only from a sweep's facts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.documents import NodeFacts, Suggested
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.words import counted
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.variables import generation

Facts = Mapping[str, NodeFacts]
SWEEP = "the networks of the nodes, which a login node cannot see: playbook rankzero.slurm.fabric, with -e nodes=4"


def suggest(cluster: Parameters, nodes: Facts) -> Suggested:
    """looks_like (a sentence), fabrics (name and reason, best first) and look_at (what a person should check).

    cluster: what module cluster_info returned, or {}; nodes: {node: facts of a sweep}, or {}.
    """
    fabrics, look_at = _of_nodes(cluster, nodes) if nodes else _of_cluster(cluster)
    return {
        "looks_like": looks_like(cluster, nodes),
        "fabrics": [{"fabric": name, "reason": reason} for name, reason in fabrics],
        "look_at": look_at,
    }


def looks_like(cluster: Parameters, nodes: Facts) -> str:
    """For example: "this cluster looks like: 2 partitions, 8 GPUs a node (h100), interfaces ib0-ib7"."""
    parts = []
    partitions = cluster.get("partitions") or []
    if partitions:
        parts.append(counted(len(partitions), "partition"))
        counts = sorted({int(facts.get("gpus_per_node") or 0) for facts in partitions} - {0})
        types = cluster.get("gpu_types") or []
        if counts:
            parts.append(
                f"{' or '.join(map(str, counts))} GPU{'' if counts == [1] else 's'} a node"
                + (f" ({', '.join(types)})" if types else "")
            )
        else:
            parts.append("no GPUs")
    elif nodes:
        parts.append(counted(len(nodes), "node"))
    if nodes:
        common = set.intersection(*(set(facts["interfaces"]) for facts in nodes.values()))
        parts.append(f"interfaces {spans(common)}" if common else "no interface that all nodes have")
        adapters = set.intersection(*({each["name"] for each in facts["rdma"]} for facts in nodes.values()))
        parts.append(f"RDMA adapters {spans(adapters)}" if adapters else "no RDMA adapters")
    return f"this cluster looks like: {', '.join(parts) or 'nothing is known of it'}"


def spans(names: Sequence[str] | set[str]) -> str:
    """Abbreviate names: ib0, ib1, ib2 and eth0 become eth0, ib0-ib2."""
    ranges: list[tuple[str, int, int]] = []
    plain = []
    for name in sorted(names, key=_natural):
        match = re.fullmatch(r"(.*?)(0|[1-9][0-9]*)", name)
        if not match:
            plain.append(name)
            continue
        stem, number = match.group(1), int(match.group(2))
        if ranges and ranges[-1][0] == stem and ranges[-1][2] == number - 1:
            ranges[-1] = (stem, ranges[-1][1], number)
        else:
            ranges.append((stem, number, number))
    return ", ".join(
        plain + [f"{stem}{low}" if low == high else f"{stem}{low}-{stem}{high}" for stem, low, high in ranges]
    )


def _natural(name: str) -> tuple[str, int, str]:
    match = re.fullmatch(r"(.*?)([0-9]+)", name)
    return (match.group(1), int(match.group(2)), name) if match else (name, -1, name)


def _generations(cluster: Parameters, nodes: Facts) -> set[str]:
    models = [model for facts in nodes.values() for model in facts["gpus"]["models"]]
    return {made for made in map(generation, [*models, *(cluster.get("gpu_types") or [])]) if made}


def _of_cluster(cluster: Parameters) -> tuple[list[tuple[str, str]], list[str]]:
    """Suggest from Slurm alone, which knows the GPUs but not the network."""
    made = _generations(cluster, {})
    types = ", ".join(cluster.get("gpu_types") or [])
    hints = {
        "hopper": ("infiniband_h100", "if its network is InfiniBand"),
        "ampere": ("infiniband_a100", "if its network is InfiniBand"),
        "blackwell": ("nvlink_blackwell", "if its nodes share NVLink"),
        "amd": ("rccl", "if its network is InfiniBand"),
    }
    fabrics = [
        (hints[generation][0], f"GPUs {types}; {hints[generation][1]}")
        for generation in sorted(made)
        if generation in hints
    ]
    return fabrics, [SWEEP]


def _of_nodes(cluster: Parameters, nodes: Facts) -> tuple[list[tuple[str, str]], list[str]]:
    every = list(nodes.values())
    if all(facts["cxi"] for facts in every):
        return [("slingshot", "every node has adapters of Slingshot (/sys/class/cxi)")], [
            "whether the site's OFI plugin is in the ranks' library path: NCCL_NET asks for it by name"
        ]
    if all(any(each["driver"] == "efa" for each in facts["rdma"]) for facts in every):
        return [("efa", "every node has an Elastic Fabric Adapter")], []
    layers = [{each["layer"] for each in facts["rdma"] if each["state"] in ("ACTIVE", "")} for facts in every]
    if all("InfiniBand" in layer for layer in layers):
        return _infiniband(cluster, nodes)
    if all("Ethernet" in layer for layer in layers):
        return [("roce", "every node has an active RDMA adapter whose link layer is Ethernet")], [
            "which index of show_gids is RoCE v2 over IPv4, where NCCL is older than 2.21 (NCCL_IB_GID_INDEX)"
        ]
    if any(layers):
        having = sum(map(bool, layers))
        return [("auto", f"only {having} of {len(every)} nodes have an active RDMA adapter")], [
            "why the other nodes have none: cat /sys/class/infiniband/*/ports/*/state"
        ]
    return _sockets(cluster, nodes)


def _infiniband(cluster: Parameters, nodes: Facts) -> tuple[list[tuple[str, str]], list[str]]:
    made = _generations(cluster, nodes)
    rates = sorted(
        {each["rate"] for facts in nodes.values() for each in facts["rdma"] if each["layer"] == "InfiniBand"}
    )
    network = f"every node has InfiniBand ({', '.join(rates)})"
    if any(facts["gpus"]["amd"] for facts in nodes.values()) or "amd" in made:
        return [("rccl", f"{network}, and AMD's GPUs")], []
    if "blackwell" in made:
        look = ["whether nodes share NVLink: nvidia-smi -q shows a Fabric with a cluster id; else infiniband_h100 does"]
        return [("nvlink_blackwell", f"{network}, and Blackwell GPUs")], look
    if "hopper" in made:
        return [("infiniband_h100", f"{network}, and Hopper GPUs")], []
    if "ampere" in made:
        return [("infiniband_a100", f"{network}, and Ampere GPUs")], []
    return [("infiniband_h100", f"{network}; its one variable is the same for other GPUs")], [
        "which GPUs the nodes have: Slurm does not name their type here"
    ]


def _sockets(cluster: Parameters, nodes: Facts) -> tuple[list[tuple[str, str]], list[str]]:
    named = sorted({name for facts in nodes.values() for name, each in facts["interfaces"].items() if each["fast"]})
    look_at = []
    if named:
        look_at.append(f"whether {spans(named)} should be InfiniBand: without an RDMA adapter it carries sockets only")
    if any(facts["gpus"]["count"] for facts in nodes.values()) or cluster.get("gpu_types"):
        return [("ethernet", "no node has an RDMA adapter, so NCCL goes over sockets")], look_at
    reason = "no RDMA adapter, and this job had no GPU: Gloo takes the interface that is picked on the nodes"
    return [("auto", reason)], look_at
