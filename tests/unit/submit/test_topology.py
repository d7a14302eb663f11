# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The topology of a cluster as Slurm shows it, and what it means for a job's groups of nodes."""

from __future__ import annotations

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission import topology
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.topology import Topology, Unit

TREE = """\
SwitchName=s0 Level=0 LinkSpeed=1 Nodes=node[01-04]
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=node[05-06]
SwitchName=s2 Level=1 LinkSpeed=1 Nodes=node[01-06] Switches=s[0-1]
"""
BLOCKS = """\
BlockName=b1 BlockIndex=0 Nodes=node[01-04] BlockSize=4
BlockName=b2 BlockIndex=1 Nodes=node[05-08] BlockSize=4
AggregatedBlock=b[1-2] BlockIndex=2 Nodes=node[01-08] BlockSize=8
"""
BLOCK_OF_FOUR = Topology("block", (Unit("b1", 4), Unit("b2", 4)))
LEAVES = Topology("tree", (Unit("s0", 4), Unit("s1", 2)))


def test_blocks_and_leaf_switches_are_read() -> None:
    assert topology.parse(TREE) == LEAVES and LEAVES.words == "1 leaf switch of 4, 1 leaf switch of 2"
    assert topology.parse(BLOCKS) == BLOCK_OF_FOUR and BLOCK_OF_FOUR.words == "2 blocks of 4"
    assert topology.parse("No topology information available\n") == Topology()
    assert topology.parse("SwitchName=s0 Level=0 LinkSpeed=1 Nodes=node[01-x]\n") == Topology()


@pytest.mark.parametrize(
    ("text", "count"),
    [("node01", 1), ("node[01-04,07],gpu1", 6), ("r[1-2]n[01-10]", 20), ("", 0), ("a,b,c[3,5]", 4)],
)
def test_the_nodes_of_a_host_list_are_counted(text: str, count: int) -> None:
    assert topology.count_nodes(text) == count


@pytest.mark.parametrize(
    ("there", "nodes", "segment", "group", "problem", "note"),
    [
        (BLOCK_OF_FOUR, 8, 4, 1, "", ""),
        (BLOCK_OF_FOUR, 6, 3, 1, "", ""),
        (BLOCK_OF_FOUR, 9, 3, 1, "resources.segment: 3 x 3 nodes asked; 2 blocks of 4 hold 2 such segments.", ""),
        (LEAVES, 4, 2, 1, "and this one has 1 leaf switch of 4, 1 leaf switch of 2; use resources.switches.", ""),
        (Topology(), 4, 2, 1, "and this one has no blocks; omit it.", ""),
        (BLOCK_OF_FOUR, 8, None, 1, "", ""),
        (BLOCK_OF_FOUR, 8, None, 2, "", "resources.segment: 2 keeps each in one block"),
        (BLOCK_OF_FOUR, 8, None, 8, "", "takes 8 nodes, and this cluster has 2 blocks of 4: no group fits"),
        (LEAVES, 4, None, 2, "", "resources.switches: 1 keeps the job under one leaf switch"),
        (LEAVES, 6, None, 2, "", ""),
        (Topology(), 6, None, 2, "", ""),
    ],
)
def test_what_the_topology_means_for_a_job(
    there: Topology, nodes: int, segment: int | None, group: int, problem: str, note: str
) -> None:
    problems, notes = topology.judge(there, nodes, segment, None, group)
    assert problem in problems and bool(problem) == bool(problems)
    assert note in notes and bool(note) == bool(notes)


def test_who_has_asked_for_switches_is_not_told_to() -> None:
    assert topology.judge(LEAVES, 4, None, "1", 2) == ("", "")
