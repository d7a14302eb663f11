# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric check on a lab where the links of one node are slow, and on all nodes one interface is slower."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.conftest import LabCluster
from tests.cluster.launching import Played, Site, read_json

NODES = ["node01", "node02", "node03", "node04"]
REPORT, PLAN = "rankzero.slurm.fabric_report", "rankzero.slurm.fabric_plan"
SIZES = {"min": "64K", "max": "128K", "factor": 2}


@pytest.fixture
def site(lab: LabCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    if lab.way != "realistic":
        pytest.skip("nodes of the simple way share the host's links: there is none to slow")
    made = Site(lab, tmp_path, request.node.name)
    yield made
    made.close()


@contextlib.contextmanager
def slowed(lab: LabCluster) -> Iterator[None]:
    """ib0, which the preflight prefers, is slower than eth0 on all nodes; both of node03 are slower still."""
    with contextlib.ExitStack() as mend:
        for node in NODES:
            for interface, rate in (("ib0", "20mbit"), ("eth0", "80mbit")):
                mend.callback(lab.faults.unslow, node, interface)
                lab.faults.slow(node, interface, rate="2mbit" if node == "node03" else rate)
        yield


def check(site: Site, *arguments: str, **variables: Any) -> Played:
    """One run of the playbook, with the nodes' own inventory besides the login node's."""
    nodes = site.folder / "lab.slurm_nodes.yml"
    ask = {"plugin": "rankzero.slurm.nodes", "command": [str(site.lab.dir / "bin" / "head"), "scontrol"]}
    nodes.write_text(json.dumps({**ask, "groups": {"measured": f"slurm_node in {NODES}"}}))
    given = {"fabric_sizes": SIZES, "wait": True, **variables}
    return site.play(None, "-i", str(nodes), *arguments, playbook="rankzero.slurm.fabric", **given)


def test_a_slow_link_is_found_and_the_better_interface_written_for_review(site: Site) -> None:
    dest = site.folder / "group_vars" / "slurm_login" / "fabric.yml"
    wanted = {"fabric_group": "measured", "fabric_output": str(dest), "fabric_exclude": True, "fabric_rounds": 2}
    foretold = check(site, "--check", **wanted)
    assert foretold.rc == 0, foretold.output
    (plan,) = foretold.results(PLAN)
    assert plan["lines"][:2] == [
        "sweep over 4 nodes (node01, node02, node03, node04) by auto",
        "2 rounds of 2 pairs, then all 4",
    ]
    assert foretold.launch()["submission"] == "planned" and not dest.exists() and site.runs() == []

    with slowed(site.lab):
        done = check(site, **wanted)
    assert done.rc == 0, done.output
    (found,) = done.results(REPORT)
    assert (found["method"], found["verdict"], found["slow_nodes"]) == ("tcp", "slow_nodes", ["node03"]), done.output
    assert found["slow_pairs"] == [] and [one["pairs"] for one in found["nodes"]] == [2, 2, 2, 2]
    assert found["why"].startswith(
        "nccl-tests: the job has no GPU on node01, node02, node03 and 1 more; torch: no torch"
    )
    assert "interfaces eth0, ib0" in found["suggestions"]["looks_like"]
    assert "slow node node03: at best 0." in done.output and "they wait for node03" in done.output

    # The candidates: the interface that jobs get now, and the others that all nodes have.
    assert [(one["name"], one["interface"]) for one in found["candidates"]] == [("current", "ib0"), ("eth0", "eth0")]
    measured = yaml.safe_load(dest.read_text())["nccl_measured"]["measured"]
    assert {name: setting["value"] for name, setting in measured.items()} == {
        "GLOO_SOCKET_IFNAME": "eth0",
        "NCCL_SOCKET_IFNAME": "eth0",
    }
    (excluded,) = done.results("rankzero.slurm.node_exclusion")
    assert [(one["node"], one["reason"]) for one in excluded["exclusions"]] == [("node03", found["reason"])]
    (run,) = site.runs()
    rows = [one["rows"] for one in read_json(run / "work" / "result.json")["measures"]]
    assert [[row["size"] for row in table] for table in rows] == [[1 << 16, 1 << 17]] * (2 * 4 + 1)

    again = check(site, **wanted)
    assert again.rc == 0 and "changed=0" in again.output, again.output
    assert site.runs() == [run]


def test_what_cannot_be_measured_says_why(site: Site) -> None:
    failed = check(site, fabric_nodes=["node[01-02]"], fabric_method="nccl_tests")
    assert failed.rc != 0 and failed.results(REPORT) == []
    assert "SweepFailed: method: nccl_tests is not possible here: the job has no GPU on node01," in failed.output


def test_a_group_that_is_not_there_names_those_that_are(site: Site) -> None:
    done = check(site, fabric_group="partition_gpu")
    assert done.rc != 0 and "fabric_group: partition_gpu is not a group of this inventory" in done.output, done.output
    assert "partition_batch" in done.output and site.runs() == []
