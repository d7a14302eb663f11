# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The preflight on real nodes: the interface that all can use, and planted faults named by node."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import LabCluster
from tests.cluster.launching import Site, rank_logs

NODES = ["node02", "node03", "node04"]
SHOW = 'echo "using $GLOO_SOCKET_IFNAME and $NCCL_SOCKET_IFNAME"'


@pytest.fixture
def site(lab: LabCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    if lab.way != "realistic":
        pytest.skip("nodes of the simple way share the host's interfaces and folders: there is no fault to plant")
    made = Site(lab, tmp_path, request.node.name)
    yield made
    made.close()


def launched(site: Site, **job: Any) -> tuple[dict[str, Any], Path]:
    """The outcome of a job on NODES, and its run directory on the host."""
    resources = {"nodes": len(NODES), "sbatch": {"nodelist": ",".join(NODES)}}
    launch = site.launch(site.job(SHOW, resources=resources, **job))
    return site.outcome(launch), site.run_dir(launch)


def interfaces(run: Path) -> set[str]:
    """What the ranks were told, Gloo and NCCL alike."""
    logs = "".join(path.read_text() for path in sorted((run / "logs" / "0").glob("rank-*.log")))
    pairs = re.findall(r"^using (\S*) and (\S*)$", logs, re.MULTILINE)
    assert len(pairs) == len(NODES), logs
    return {name for pair in pairs for name in pair}


def test_all_ranks_get_the_fast_interface_and_every_node_has_a_line(site: Site) -> None:
    outcome, run = launched(site, preflight={"imports": ["json"]})
    assert outcome["success"], outcome
    assert interfaces(run) == {"ib0"}
    table = (run / "preflight" / "0" / "table").read_text().splitlines()
    lines = [line for line in table if not line.startswith("bound ")]
    assert [line.split()[0] for line in lines] == [*NODES, "interface"]
    assert all("proj=ok env=ok run=ok" in line and "if=ib0,eth0" in line for line in lines[:-1])


def test_an_interface_that_is_down_on_one_node_is_used_on_none(site: Site) -> None:
    site.lab.faults.link_down("node03", "ib0")
    try:
        outcome, run = launched(site)
    finally:
        site.lab.faults.link_up("node03", "ib0")
    assert outcome["success"], outcome
    assert interfaces(run) == {"eth0"}


def test_interfaces_on_separate_rails_are_used_on_none(site: Site) -> None:
    """ib0 is up and has an address on every node, but one node's lies on another rail: a different subnet."""
    own = site.lab.node("node04", ["ip", "-o", "-4", "addr", "show", "dev", "ib0"]).stdout.split()
    address = own[own.index("inet") + 1]
    site.lab.node("node04", ["ip", "addr", "flush", "dev", "ib0"])
    site.lab.node("node04", ["ip", "addr", "add", "192.168.254.4/24", "dev", "ib0"])
    try:
        outcome, run = launched(site)
    finally:
        site.lab.node("node04", ["ip", "addr", "flush", "dev", "ib0"])
        site.lab.node("node04", ["ip", "addr", "add", address, "dev", "ib0"])
    assert outcome["success"], outcome
    assert interfaces(run) == {"eth0"}


def test_a_node_that_does_not_see_the_code_is_named_and_no_rank_starts(site: Site) -> None:
    site.launch(site.job("true", name="store"))  # brings the code and the runtime
    code = f"{site.cluster['store_root']}/code"
    site.lab.faults.hide("node03", code)
    try:
        # Else it would get a copy: test_launch_staging.py.
        outcome, run = launched(site, preflight={"stage": "never"})
    finally:
        site.lab.faults.unhide("node03", code)
    assert not outcome["success"]
    assert re.match(r"preflight: node03: the code \S+ is not here$", outcome["message"])
    assert not list((run / "logs" / "0").glob("rank-*"))


def test_without_the_preflight_the_ranks_start_at_once(site: Site) -> None:
    outcome, run = launched(site, preflight={"enabled": False})
    assert outcome["success"], outcome
    assert not (run / "preflight").exists()
    assert interfaces(run) == {"eth0"}


def test_a_state_root_that_the_nodes_do_not_see_is_named(site: Site) -> None:
    """Slurm cannot open the job's log, so no line of the job's script runs."""
    site.own(site.state_root)
    with contextlib.ExitStack() as mend:
        for node in site.lab.nodes:
            mend.callback(site.lab.faults.unhide, node, site.state_root)
            site.lab.faults.hide(node, site.state_root)
        played = site.play(site.job("true"), wait=True)
    (waited,) = played.results("rankzero.slurm.job_wait")
    assert waited["never_started"] and site.state_root in waited["message"], waited
    diagnosis = played.results("rankzero.slurm.job_diagnosis")[-1]["diagnosis"]
    assert diagnosis["family"] == "state_root" and "launch_cluster.state_root" in diagnosis["remedy"]
    assert site.state_root in diagnosis["what"] and diagnosis["nodes"] == waited["nodes"][:1]


def test_torchrun_without_torch_ends_before_any_rank_starts(site: Site) -> None:
    outcome, run = launched(site, launcher={"kind": "torchrun"})
    assert not outcome["success"]
    assert re.search(r"environment: /\S+ has no Python package torch, which launcher.kind torchrun", outcome["message"])
    assert not list((run / "logs" / "0").glob("rank-*"))


def test_one_process_of_a_node_has_all_its_gpus(site: Site) -> None:
    """launcher.gpus node: what Ray, vLLM and JAX with one process a node need."""
    show = 'echo "rank $RANK of $WORLD_SIZE has $CUDA_VISIBLE_DEVICES, $SLURM_GPUS_PER_NODE a node"; '
    show += 'echo "ports $MASTER_PORT $RANKZERO_PORTS"'
    resources = {"nodes": 2, "gpus_per_node": 8, "cpus_per_rank": 4, "time": "00:10:00"}
    setup = {"commands": ['echo "before the ranks: $SLURM_GPUS_PER_NODE GPUs a node"']}
    launch = site.launch(site.job(show, resources=resources, launcher={"gpus": "node"}, setup=setup))
    outcome, run = site.outcome(launch), site.run_dir(launch)
    assert outcome["success"], outcome
    gpus = ",".join(map(str, range(8)))
    for rank, text in enumerate(rank_logs(run).values()):
        assert f"\nrank {rank} of 2 has {gpus}, 8 a node\n" in text
        # As many services as such a process may have, and none in the way of Ray's workers.
        (ports,) = re.findall(r"^ports (.*)$", text, re.MULTILINE)
        assert len({int(port) for port in ports.split() if not 10002 <= int(port) < 20000}) == 9
    (log,) = (run / "logs").glob("job.*.log")
    assert "\nbefore the ranks: 8 GPUs a node\n" in log.read_text()
    (bound,) = re.findall(r"^bound .*", (run / "preflight" / "0" / "table").read_text(), re.MULTILINE)
    assert re.fullmatch(r"bound node\S+ 0:cpus=\S+,gpus=0-7", bound)
