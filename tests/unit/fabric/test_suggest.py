# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which fabric fits, and what a person has to look at where that cannot be known."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.suggest import SWEEP, spans, suggest
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fabrics import fabric
from tests.unit.fabric.sweeps import adapter, facts

RAILS = {f"ib{number}": True for number in range(8)}


def cluster(*types: str, gpus: int = 8, partitions: int = 2) -> dict[str, Any]:
    return {"partitions": [{"gpus_per_node": gpus}] * partitions, "gpu_types": list(types)}


def test_the_sentence_of_a_large_cluster() -> None:
    adapters = [adapter("InfiniBand", name=f"mlx5_{number}") for number in range(8)]
    node = facts({"eth0": False, **RAILS}, rdma=adapters, gpus=8)
    found = suggest(cluster("h100"), {"n1": node, "n2": node})
    assert found["looks_like"] == (
        "this cluster looks like: 2 partitions, 8 GPUs a node (h100), interfaces eth0, ib0-ib7, "
        "RDMA adapters mlx5_0-mlx5_7"
    )
    assert found["fabrics"] == [
        {"fabric": "infiniband_h100", "reason": "every node has InfiniBand (400 Gb/sec (4X NDR)), and Hopper GPUs"}
    ]
    assert found["look_at"] == []


INFINIBAND = adapter("InfiniBand")


@pytest.mark.parametrize(
    ("types", "node", "expected", "look"),
    [
        (["a100"], facts(rdma=[INFINIBAND], gpus=8), "infiniband_a100", None),
        ([], facts(rdma=[INFINIBAND], gpus=8, models=["NVIDIA H200"]), "infiniband_h100", None),
        ([], facts(rdma=[INFINIBAND], gpus=8), "infiniband_h100", "which GPUs the nodes have"),
        (["gb200"], facts(rdma=[INFINIBAND], gpus=4), "nvlink_blackwell", "whether nodes share NVLink"),
        ([], facts(rdma=[INFINIBAND], gpus=8, amd=True), "rccl", None),
        (["mi300x"], facts(rdma=[INFINIBAND], gpus=8), "rccl", None),
        (["h100"], facts(rdma=[adapter("Ethernet")], gpus=8), "roce", "show_gids"),
        (["h100"], facts(rdma=[adapter("Unspecified", driver="efa")], gpus=8), "efa", None),
        (["h100"], facts(rdma=[], gpus=8, cxi=True), "slingshot", "OFI plugin"),
        (["h100"], facts({"eth0": False}, gpus=8), "ethernet", None),
        (["h100"], facts(gpus=8), "ethernet", "whether ib0 should be InfiniBand"),
        ([], facts({"eth0": False}), "auto", None),
    ],
)
def test_the_fabric_that_fits_what_every_node_has(
    types: list[str], node: dict[str, Any], expected: str, look: str | None
) -> None:
    found = suggest(cluster(*types), {"n1": node, "n2": node})
    assert [one["fabric"] for one in found["fabrics"]] == [expected]
    assert fabric(expected, {}) is not None
    assert bool(found["look_at"]) == bool(look)
    assert look is None or look in found["look_at"][0]


def test_nodes_that_differ_get_no_fabric_that_some_cannot_use() -> None:
    down = adapter("InfiniBand", state="DOWN")
    found = suggest(cluster("h100"), {"n1": facts(rdma=[INFINIBAND]), "n2": facts(rdma=[down])})
    assert found["fabrics"] == [{"fabric": "auto", "reason": "only 1 of 2 nodes have an active RDMA adapter"}]
    assert found["look_at"] == ["why the other nodes have none: cat /sys/class/infiniband/*/ports/*/state"]


def test_slurm_alone_does_not_know_the_network_and_says_who_does() -> None:
    found = suggest(cluster("a100", "h100", partitions=1), {})
    assert found["looks_like"] == "this cluster looks like: 1 partition, 8 GPUs a node (a100, h100)"
    assert found["fabrics"] == [
        {"fabric": "infiniband_a100", "reason": "GPUs a100, h100; if its network is InfiniBand"},
        {"fabric": "infiniband_h100", "reason": "GPUs a100, h100; if its network is InfiniBand"},
    ]
    assert found["look_at"] == [SWEEP]
    bare = suggest(cluster(gpus=0), {})
    assert (bare["looks_like"], bare["fabrics"]) == ("this cluster looks like: 2 partitions, no GPUs", [])
    assert suggest({}, {})["looks_like"] == "this cluster looks like: nothing is known of it"


def test_interfaces_that_not_all_have_are_not_named() -> None:
    nodes: Any = {"n1": facts({"eth0": False}), "n2": facts({"eno1": False})}
    assert suggest({}, nodes)["looks_like"] == (
        "this cluster looks like: 2 nodes, no interface that all nodes have, no RDMA adapters"
    )


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["ib1", "ib0", "eth0"], "eth0, ib0-ib1"),
        (["ib0", "ib2", "ib10", "ib9"], "ib0, ib2, ib9-ib10"),
        (["ens1f0np0", "lo"], "lo, ens1f0np0"),
        ([], ""),
    ],
)
def test_spans(names: list[str], expected: str) -> None:
    assert spans(names) == expected
