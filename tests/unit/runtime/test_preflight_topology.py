# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the fit nodes the ranks get where the nodes know their block or switch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.runtime.harness import runtime_parts
from tests.unit.runtime.test_preflight_judge import judged, report


@pytest.fixture(scope="module")
def topology() -> Iterator[ModuleType]:
    with runtime_parts("preflight.topology") as part:
        yield part


def placed(folder: Path, blocks: dict[str, str], unfit: str = "") -> str:
    """Reports of nodes in these blocks; their names."""
    heads = list(blocks)
    for name, block in blocks.items():
        problems = ["/r is not writable"] if name == unfit else []
        report(folder, name, ["eth0"], *problems, heads=heads, place=f"{block}.{name}" if block else name)
    return ",".join(blocks)


TWO_SWITCHES = {"n1": "top.a", "n2": "top.a", "n3": "top.a", "n4": "top.b", "n5": "top.b", "n6": "top.b"}


def test_spares_come_from_where_they_keep_groups_together(tmp_path: Path) -> None:
    names = placed(tmp_path, TWO_SWITCHES, unfit="n2")
    group = {"policy": "replace", "group_nodes": 2}
    table, verdict = judged(tmp_path, names, 4, **group)
    # In the order of the allocation n1 n3 n4 n5 are two whole groups.
    assert verdict["chosen"] == "n1 n3 n4 n5" and "blocks top.a: 2, top.b: 2" in table
    names = placed(tmp_path, {**TWO_SWITCHES, "n2": "top.a"})
    # n3 would share a group with n4.
    table, verdict = judged(tmp_path, names, 4, **group)
    assert verdict["chosen"] == "n1 n2 n4 n5" and not [line for line in table if line.startswith("crossing")]


def test_groups_that_no_choice_keeps_together_are_counted(tmp_path: Path) -> None:
    names = placed(tmp_path, TWO_SWITCHES)
    table, verdict = judged(tmp_path, names, 6, group_nodes=2)
    assert verdict["action"] == "run"
    assert "crossing 1 of 3 groups of 2 nodes lie in several blocks, first n3+n4" in table


def test_without_a_topology_or_a_group_nothing_changes(tmp_path: Path) -> None:
    names = placed(tmp_path, dict.fromkeys(TWO_SWITCHES, ""))
    table, verdict = judged(tmp_path, names, 4, group_nodes=2)
    assert verdict["chosen"] == "n1 n2 n3 n4" and not [
        line for line in table if line.startswith(("blocks", "crossing"))
    ]
    names = placed(tmp_path, TWO_SWITCHES)
    table, verdict = judged(tmp_path, names, 4)
    assert verdict["chosen"] == "n1 n2 n3 n4" and "blocks top.a: 3, top.b: 1" in table


def test_a_slow_node_is_left_over_before_a_group_is_kept_together(topology: ModuleType) -> None:
    nodes = list(TWO_SWITCHES)
    blocks = dict(TWO_SWITCHES)
    assert topology.choose(nodes, 4, {}, blocks, 2) == ["n1", "n2", "n4", "n5"]
    assert topology.choose(nodes, 4, {"n4": "slow"}, blocks, 2) == ["n1", "n2", "n5", "n6"]
    assert topology.choose(nodes, 5, {"n4": "slow"}, blocks, 2) == ["n1", "n2", "n3", "n5", "n6"]
    assert topology.choose(nodes[:3], 4, {}, blocks, 2) == nodes[:3]


def test_two_thousand_nodes_of_a_hundred_blocks(topology: ModuleType) -> None:
    nodes = [f"n{number}" for number in range(2000)]
    blocks = {name: f"b{number // 20}" for number, name in enumerate(nodes)}
    fit = [name for name in nodes if name not in ("n3", "n47")]
    chosen = topology.choose(fit, 1960, {}, blocks, 4)
    assert len(chosen) == 1960 and topology.crossing(chosen, blocks, 4) == []


@pytest.mark.parametrize(
    ("left", "wanted", "blocks", "taken"),
    [
        ("n1 n2 n3 n4 n5", 2, TWO_SWITCHES, "n4 n5"),  # the smaller block has enough
        ("n1 n2 n3 n4 n5 n6", 4, TWO_SWITCHES, "n1 n2 n3 n4"),  # none has: all of one, and the rest of another
        ("n1 n4 n2 n5 n3", 3, TWO_SWITCHES, "n1 n2 n3"),  # in the order that Slurm has
        ("n1 n2 n3", 2, {}, "n1 n2"),  # a cluster without a topology
        ("n1", 2, TWO_SWITCHES, "n1"),  # too few
    ],
)
def test_a_role_gets_whole_blocks(
    topology: ModuleType, left: str, wanted: int, blocks: dict[str, str], taken: str
) -> None:
    assert topology.together(left.split(), wanted, blocks) == taken.split()
