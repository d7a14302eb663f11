# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the options of module fabric_plan to the job of a sweep; every mistake at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.plan import parse_size, plan, steps
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Invalid

#: Those of module fabric_plan.
DEFAULTS: dict[str, Any] = {
    "src": "/collection/playbooks/files/fabric", "nodes": [], "count": 0, "method": "auto", "all_reduce_perf": "",
    "mpi": "pmix", "sizes": {"min": "1K", "max": "256M", "factor": 8}, "rounds": 3, "seconds": 20, "candidates": {},
    "fabric": "auto", "fabrics": {},
}  # fmt: skip


def planned(*nodes: str, **options: Any) -> dict[str, Any]:
    return plan({**DEFAULTS, **options}, nodes)


def told(found: dict[str, Any]) -> dict[str, Any]:
    """What the program is told."""
    program, text = found["job"]["command"]
    assert program == "fabric_sweep.py"
    told: dict[str, Any] = json.loads(text)
    return told


def refused(*nodes: str, **options: Any) -> str:
    with pytest.raises(RankzeroError) as caught:
        planned(*nodes, **options)
    return caught.value.message


def test_the_job_of_some_nodes_by_name() -> None:
    found = planned("n2", "n1", "n3", sizes={"min": "64K", "max": "5M", "factor": 8}, mpi="pmi2")
    assert found["job"]["resources"] == {
        "nodes": 3,
        "exclusive": True,
        "time": "00:15:00",
        "sbatch": {"nodelist": "n1,n2,n3"},
    }
    assert found["job"]["artifact"]["require"] == {"measured_pairs": {"gt": 0}}
    assert told(found) == {
        "nodes": ["n1", "n2", "n3"],
        "method": "auto",
        "all_reduce_perf": "",
        "mpi": "pmi2",
        "sizes": [1 << 16, 1 << 19, 1 << 22],
        "rounds": 3,
        "seconds": 20,
        "candidates": [{"name": "current", "variables": {}}],
    }
    assert found["lines"] == [
        "sweep over 3 nodes (n1, n2, n3) by auto",
        "3 rounds of 1 pair, then all 3",
        "sizes 64K, 512K, 4M; at most 20 s each",
        "compared: the interfaces that all nodes have (not with NCCL)",
    ]


def test_nodes_that_slurm_chooses() -> None:
    found = planned(count=2, method="nccl_tests", rounds=9, all_reduce_perf="/opt/all_reduce_perf")
    assert "sbatch" not in found["job"]["resources"] and found["nodes"] == 2
    assert found["lines"][:2] == [
        "sweep over 2 nodes (as Slurm chooses them) by nccl-tests",
        "1 round of 1 pair",
    ]
    assert told(found)["all_reduce_perf"] == "/opt/all_reduce_perf"


def test_candidates_are_compared_with_what_jobs_get_now() -> None:
    own = {"site": {"NCCL_IB_HCA": {"value": "=mlx5_0", "reason": "one rail"}}}
    found = planned(count=4, fabric="site", fabrics=own, candidates={"ethernet": None, "two": {"NCCL_IB_HCA": "=a,b"}})
    assert told(found)["candidates"] == [
        {"name": "current", "variables": {"NCCL_IB_HCA": "=mlx5_0"}},
        {"name": "ethernet", "variables": {"NCCL_IB_DISABLE": "1"}},
        {"name": "two", "variables": {"NCCL_IB_HCA": "=a,b"}},
    ]
    assert found["lines"][-1] == "compared: current and ethernet, two"
    # What is measured is in the command, and so in the launch's key: no layer of the cluster adds to it.
    assert found["job"]["fabric"] == "auto"


def test_every_mistake_is_told_at_once() -> None:
    text = refused(
        "n1",
        sizes={"min": "4M", "max": "1M", "factor": 2},
        fabric="roc",
        candidates={"x": {"1": "2"}},
        rounds=0,
        seconds=-1,
    )
    assert "nodes: a sweep needs at least 2 nodes, not 1: give the number (-e nodes=4)" in text
    assert "sizes: go from small to large: max 1M is below min 4M" in text
    assert "fabric: roc is not known; did you mean roce?" in text
    assert "candidates: (x): " in text
    assert "rounds: must be at least 1, not 0" in text and "seconds: must be at least 1, not -1" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"candidates": {"infiniband_h10": None}}, "candidates: fabric: infiniband_h10 is not known; did you mean"),
        ({"candidates": {"current": {"A": "1"}}}, "other than current, not 'current'"),
        ({"candidates": {"a/b": {"A": "1"}}}, "have names of letters, digits"),
        ({"candidates": {"a": {"A": True}}}, "candidates: (a): "),
        ({"fabrics": {"site": []}}, "launch_cluster.fabrics: "),
        ({"sizes": {"min": "1K", "max": "1M", "factor": 1}}, "sizes: grow by a factor of at least 2, not 1"),
        ({"count": 5}, "names 2 nodes, but count is 5"),
    ],
)
def test_mistakes(options: dict[str, Any], message: str) -> None:
    assert message in refused("n1", "n2", **options)


def test_a_node_named_twice() -> None:
    assert "nodes: names a node twice" in refused("n1", "n1")


@pytest.mark.parametrize("bad", ["", "K", "1.5M", "3", "2T", "64k", "6", "17G", True])
def test_a_size_is_a_number_of_whole_elements(bad: object) -> None:
    with pytest.raises(Invalid):
        parse_size(bad)


def test_sizes_grow_up_to_the_last_one() -> None:
    assert steps({"min": "4", "max": "100", "factor": 3}) == [4, 12, 36]
    assert steps({"min": "1M", "max": "1M", "factor": 8}) == [1 << 20]
