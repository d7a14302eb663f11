# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster with leaf switches (topology/tree): what is read of it, and which spares step in. topology/block is in
test_releases.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission import topology
from tests.cluster.conftest import LabCluster, booted, instance_name, lab_of
from tests.cluster.launching import Site, log_of, read_json
from tests.cluster.test_launch_admission import said

TREE = [
    "TopologyPlugin=topology/tree",
    "SwitchName=s0 Nodes=node[01-03]",
    "SwitchName=s1 Nodes=node[04-06]",
    "SwitchName=s2 Switches=s[0-1]",
]


@pytest.fixture(scope="module")
def tree() -> Iterator[LabCluster]:
    wanted = {"nodes": 6, "cpus": 4, "memory": 8000, "gpus": 0, "accounting": "none", "slurm_conf": TREE}
    with booted(lab_of(instance_name("tree"), **wanted)) as made:
        yield made


@pytest.fixture
def site(tree: LabCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Site(tree, tmp_path, request.node.name)
    yield made
    made.close()


def test_a_spare_of_the_same_switch_keeps_the_groups_together(tree: LabCluster, site: Site) -> None:
    """Six nodes, four wanted, in groups of two: without the first node, the first switch has one group left, and the
    other one must come from the second switch alone. In the order of the allocation the first would be cut.
    """
    shown = topology.parse(tree.head(["scontrol", "show", "topology"]).stdout)
    assert (shown.kind, [(unit.name, unit.nodes) for unit in shown.units]) == ("tree", [("s0", 3), ("s1", 3)])
    spec = {"parallelism": {"tensor": 4}, "launcher": {"ranks_per_node": 2}}
    resources = {"nodes": 4, "spares": 2, "switches": "2", "time": "00:05:00"}
    if tree.way != "realistic":
        pytest.skip("nodes of the simple way share the host's folders: there is no fault to plant")
    site.launch(site.job("true", "store"))  # brings the code and the runtime
    code = f"{site.cluster['store_root']}/code"
    tree.faults.hide("node02", code)
    try:
        job = site.job("true", resources=resources, preflight={"stage": "never"}, **spec)
        launch = site.launch(job)
        outcome = site.outcome(launch)
    finally:
        tree.faults.unhide("node02", code)
    assert outcome["success"], outcome
    table = (site.run_dir(launch) / "preflight" / "0" / "table").read_text().splitlines()
    assert "nodes node01 node03 node04 node05" in table
    assert "blocks s2.s0: 2, s2.s1: 2" in table and not [line for line in table if line.startswith("crossing")]


def test_a_cluster_without_groups_over_nodes_is_not_asked_for_its_topology(site: Site) -> None:
    """A group within a node needs no switch; one over two nodes is told how to stay below one."""
    inside = site.play(site.job("true", "inside", parallelism={"tensor": 2}, launcher={"ranks_per_node": 2}))
    assert inside.rc == 0 and "switch" not in inside.output
    over = site.job("true", "over", resources={"nodes": 2, "time": "00:05:00"}, parallelism={"tensor": 2})
    assert "resources.switches: 1 keeps the job under one leaf switch" in said(site.play(over))
    segment = site.play(site.job("true", "segment", resources={"nodes": 2, "segment": 2, "time": "00:05:00"}))
    assert segment.rc != 0 and "this one has 2 leaf switches of 3; use resources.switches" in segment.refused()


def test_each_role_gets_the_nodes_of_one_switch(site: Site) -> None:
    """Of five nodes below two switches: in the order of the allocation the second role would be cut."""
    wait = "touch $RANKZERO_ROLE; until [ -e over ]; do sleep 0.2; done"
    roles = {
        "trainer": {"nodes": 2, "shell": "echo '{}' >result.json; touch over", "after_ready": ["rollout"]},
        "rollout": {"nodes": 3, "shell": wait, "ready": {"file": "rollout"}, "on_exit": "done"},
    }
    job = site.job([], roles=roles, resources={"time": "00:05:00"}, artifact={"path": "result.json"})
    del job["command"]
    launch = site.launch(job, wait=True)
    run = site.run_dir(launch)
    assert site.outcome(launch)["success"], log_of(run, launch["job_id"])
    nodes = {role["name"]: role["nodes"] for role in read_json(run / "started.json")["roles"]}
    below = [{f"node{number:02d}" for number in numbers} for numbers in ((1, 2, 3), (4, 5, 6))]
    for role, names in nodes.items():
        assert any(set(names) <= switch for switch in below), (role, nodes)
