# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of a node, from what three releases of Slurm say of it."""

from __future__ import annotations

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import nodes
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.parse import Gres
from tests.unit.slurm.recorded import recorded

RELEASES = ["22.05", "24.11", "26.05"]


@pytest.mark.parametrize("release", RELEASES)
def test_nodes_of_three_releases(release: str) -> None:
    found = {node.name: node for node in nodes.parse_nodes(recorded("nodes.txt", release))}
    assert list(found) == [f"node{number:02d}" for number in range(1, 9)]
    states = [(node.state, node.flags, node.available) for node in found.values()]
    assert states == [
        ("idle", (), True),
        ("allocated", (), True),
        ("mixed", ("drain",), False),
        ("idle", ("drain",), False),
        ("down", (), False),
        ("idle", (), True),
        ("idle", (), True),
        ("idle", (), True),
    ]
    first, third, last = found["node01"], found["node03"], found["node08"]
    assert (first.features, last.features) == (("ib", "rack-1"), ())
    assert (first.partitions[:2], first.gres) == (("batch", "short"), (Gres("gpu", "h100", 2),))
    assert (first.gpus, first.gpu_types, first.cpus, first.memory) == (2, ("h100",), 4, 4000)
    assert first.address.startswith("10.") and first.version.startswith(release)
    assert third.reason.startswith("fan = broken, see #7 [root@")
    assert all(node.responding for node in found.values())


def block(**values: str) -> str:
    return "NodeName=n1 Arch=x86_64\n" + "".join(f"   {name}={value}\n" for name, value in values.items())


@pytest.mark.parametrize(
    ("said", "state", "flags", "responding", "available"),
    [
        ("IDLE*", "idle", (), False, False),
        ("DOWN*+DRAIN", "down", ("drain",), False, False),
        ("IDLE+NOT_RESPONDING", "idle", ("not_responding",), False, False),
        ("IDLE+CLOUD+POWERED_DOWN", "idle", ("cloud", "powered_down"), True, True),
        ("MIXED+PLANNED", "mixed", ("planned",), True, True),
        ("IDLE+RESERVED", "idle", ("reserved",), True, False),
        ("IDLE+MAINTENANCE+DRAIN", "idle", ("maintenance", "drain"), True, False),
        ("FUTURE", "future", (), True, False),
    ],
)
def test_a_state_and_what_slurm_adds_to_it(
    said: str, state: str, flags: tuple[str, ...], responding: bool, available: bool
) -> None:
    [node] = nodes.parse_nodes(block(State=said))
    assert (node.state, node.flags, node.responding, node.available) == (state, flags, responding, available)


def test_a_node_of_which_little_is_said() -> None:
    [node] = nodes.parse_nodes("NodeName=n1 CoresPerSocket=1\n   State=UNKNOWN\n   Gres=(null)\n")
    assert nodes.variables(node) == {
        "slurm_node": "n1",
        "slurm_address": "n1",
        "slurm_state": "unknown",
        "slurm_flags": [],
        "slurm_available": False,
        "slurm_partitions": [],
        "slurm_features": [],
        "slurm_gres": [],
        "slurm_gpus": 0,
        "slurm_gpu_types": [],
        "slurm_cpus": 0,
        "slurm_memory": 0,
        "slurm_reason": "",
        "slurm_version": "",
    }


def test_groups_are_of_the_kinds_that_are_wanted() -> None:
    text = block(State="MIXED+DRAIN", Partitions="batch,gpu", ActiveFeatures="ib", Gres="gpu:a100:2,gpu:h100:2")
    variables = nodes.variables(nodes.parse_nodes(text)[0])
    assert nodes.groups(variables, ["partition", "gpu"]) == [
        "partition_batch",
        "partition_gpu",
        "gpu_a100",
        "gpu_h100",
    ]
    assert nodes.groups(variables, ["flag", "state", "feature"]) == ["flag_drain", "state_mixed", "feature_ib"]


def test_what_is_no_answer_names_no_node() -> None:
    assert (
        nodes.parse_nodes("") == nodes.parse_nodes("slurm_load_node error: Unable to contact slurm controller\n") == []
    )
