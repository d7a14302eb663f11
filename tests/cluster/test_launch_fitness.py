# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that are not fit: faults planted without notice are named, spare nodes step in, a job requeues itself
without a bad node, and the next launches leave it out until that expires. Nobody tells a launch what was broken.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import LabCluster
from tests.cluster.launching import Played, Site, log_of, rank_logs, read_json

INFO, EXCLUSION, JOB = (f"rankzero.slurm.{name}" for name in ("cluster_info", "node_exclusion", "job"))
SHOW = 'echo "$RANK on $(uname -n) node $NODE_RANK of $MASTER_ADDR:$MASTER_PORT by $GLOO_SOCKET_IFNAME"'
# A rank that ends before the sampler of its node has started is not sampled.
SAMPLED = 'until [ -e "$RANKZERO_RUN_DIR/monitor/0/$(uname -n).host.csv" ]; do sleep 0.1; done'


@pytest.fixture
def site(lab: LabCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    if lab.way != "realistic":
        pytest.skip("nodes of the simple way share the host's interfaces and folders: there is no fault to plant")
    made = Site(lab, tmp_path, request.node.name)
    yield made
    made.close()


@contextlib.contextmanager
def without_python(lab: LabCluster, node: str) -> Iterator[None]:
    """A node on which no python3 can be started; its commands of that name are covered by an empty file."""
    look = 'for d in $(echo "$PATH" | tr : " "); do [ -x "$d/python3" ] && readlink -f "$d/python3"; done | sort -u'
    path = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
    covered = lab.node(node, ["env", f"PATH={path}", "sh", "-c", look]).stdout.split()
    assert covered
    for file in covered:
        lab.node(node, ["mount", "--bind", "/dev/null", file])
    try:
        yield
    finally:
        for file in covered:
            lab.node(node, ["umount", file])


@contextlib.contextmanager
def full_tmp(lab: LabCluster, node: str) -> Iterator[None]:
    """A node whose /tmp has no room left."""
    lab.node(node, ["mount", "-t", "tmpfs", "-o", "size=4m,mode=1777", "full", "/tmp"])
    try:
        lab.node(node, ["sh", "-c", "head -c 8M /dev/zero > /tmp/fills-it 2>/dev/null; true"])
        yield
    finally:
        lab.node(node, ["umount", "/tmp"])


@contextlib.contextmanager
def faults(site: Site) -> Iterator[None]:
    """node01 lacks the code, node02 Python, node03 room in /tmp, node04 the fast interface, node05 a fast link."""
    lab, code = site.lab, f"{site.cluster['store_root']}/code"
    with contextlib.ExitStack() as mend:
        mend.enter_context(without_python(lab, "node02"))
        mend.enter_context(full_tmp(lab, "node03"))
        for break_it, mend_it, *what in (
            (lab.faults.hide, lab.faults.unhide, "node01", code),
            (lab.faults.link_down, lab.faults.link_up, "node04", "ib0"),
        ):
            mend.callback(mend_it, *what)
            break_it(*what)
        # The sound links have a rate, too: what memory alone can do varies twofold on a busy machine.
        for node in ("node05", "node06", "node07", "node08"):
            mend.callback(lab.faults.unslow, node, "ib0")
            lab.faults.slow(node, "ib0", rate="4mbit" if node == "node05" else "200mbit")
        yield


def tasks(site: Site, *given: Mapping[str, Any]) -> Played:
    """One run of a playbook with these tasks on the lab's head."""
    playbook = site.folder / f"tasks-{len(site.plays)}.yml"
    named = [{"name": f"Task {number}", **task} for number, task in enumerate(given)]
    playbook.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": named}]))
    played = site.play(None, playbook=str(playbook))
    assert played.rc == 0, played.output
    return played


def excluded(result: Mapping[str, Any]) -> list[str]:
    return [one["node"] for one in result["excluded"]]


def test_every_planted_fault_is_named_and_spare_nodes_take_their_places(site: Site) -> None:
    site.launch(site.job("true", name="store"))  # brings the code and the runtime
    wanted = {
        "resources": {"nodes": 3, "spares": 5},
        "launcher": {"ranks_per_node": 2},
        "preflight": {"slow": "fail", "all_reduce": 2, "stage": "never"},
    }
    with faults(site):
        launch = site.launch(site.job(f"{SHOW}; {SAMPLED}", **wanted))
        outcome, run = site.outcome(launch), site.run_dir(launch)
    log = log_of(run, launch["job_id"])
    assert outcome["success"], log
    reasons = {
        "node01": r"the code \S+ is not here",
        "node02": r"no report: no python3 here",
        "node03": r"/tmp has less than 100M free \(preflight.free_tmp\)",
        "node04": r"has no ib0, which the others have",
        "node05": r"0\.\d MB/s, less than half of the median \d+ MB/s",
    }
    table = (run / "preflight" / "0" / "table").read_text()
    assert set(outcome["unfit_nodes"]) == set(reasons), table
    for node, reason in reasons.items():
        assert re.fullmatch(reason, outcome["unfit_nodes"][node]), outcome["unfit_nodes"]
        assert re.search(rf"^unfit {node}: {reason}$", table, re.MULTILINE), table
        assert re.search(rf"^\[preflight\] unfit {node}: ", log, re.MULTILINE), log
    assert (
        "\nslowest node05 " in table
        and "exchange over TCP (no torch here) of 2 MB between neighbours over ib0" in table
    )
    assert table.endswith("nodes node06 node07 node08\ninterface ib0 (a name of fast networks)\n")
    # The ranks: the first of the chosen nodes is the master, and nothing of the others is left anywhere.
    started = read_json(run / "started.json")
    assert (started["nodes"], started["master_addr"]) == (["node06", "node07", "node08"], "node06")
    said = "".join(rank_logs(run).values())
    place = f"of node06:{started['master_port']} by ib0"
    for rank in range(6):
        assert f"\n{rank} on node{6 + rank // 2:02d} node {rank // 2} {place}\n" in said, said
    assert len(rank_logs(run)) == 6
    assert {path.name[:6] for path in (run / "monitor" / "0").iterdir()} == {"node06", "node07", "node08"}
    remembered_by_the_next_launches(site, reasons, launch["job_id"])


def remembered_by_the_next_launches(site: Site, reasons: Mapping[str, str], job_id: str) -> None:
    """The nodes are mended by now, but nobody has said so."""
    played = site.play(site.job(SHOW, name="three", resources={"nodes": 3}))
    launch = played.launch()
    assert excluded(launch) == sorted(reasons)
    assert "leaves out node03 until 20" in played.output and f"(job {job_id}: /tmp has less than" in played.output
    assert site.outcome(launch)["success"]
    assert read_json(site.run_dir(launch) / "started.json")["nodes"] == ["node06", "node07", "node08"]
    # One expires, one is repaired, a person names another, and at last all are forgotten.
    (file,) = site.host_path(site.state_root).glob("clusters/*/nodes/node01.json")
    file.write_text(json.dumps({**read_json(file), "expires": time.time() - 1}))

    def plan(nodes: int) -> dict[str, Any]:
        job = site.job(SHOW, name=f"for-{nodes}", resources={"nodes": nodes})
        return {JOB: {"job": job, "cluster": site.cluster}, "check_mode": True}

    own = {"state_root": site.state_root}
    played = tasks(
        site,
        {INFO: own},
        plan(7),
        {EXCLUSION: {**own, "nodes": ["node[02-04]"], "state": "absent"}},
        {EXCLUSION: {**own, "nodes": ["node08"], "reason": "its fan is loud", "exclude_for": 60}},
        plan(3),
        {EXCLUSION: {**own, "state": "absent"}},
        plan(3),
    )
    (listed,) = played.results(INFO)
    assert [one["node"] for one in listed["exclusions"]] == ["node02", "node03", "node04", "node05"]
    assert all(one["job_id"] == job_id and one["expires"] - one["time"] == 86400 for one in listed["exclusions"])
    # Never so many that too few are left: one stays out, the others are named.
    seven, three, after = played.results(JOB)
    assert len(excluded(seven)) == 1
    assert played.output.count("without it fewer than the 7 nodes that the job needs remain") == 3
    assert excluded(three) == ["node05", "node08"]
    assert excluded(after) == []
    assert [result["changed"] for result in played.results(EXCLUSION)] == [True, True, True]


def test_a_job_requeues_itself_without_the_node_and_asks_no_other_one_twice(site: Site) -> None:
    lab = site.lab
    wanted = {
        "resources": {"nodes": 2, "exclude": ["node01", "node[05-08]"], "time": "00:10:00"},
        "preflight": {"on_failure": "requeue", "imports": ["json"]},
    }
    site.launch(site.job("true", name="store"))
    with without_python(lab, "node03"):
        done = site.play(site.job(SHOW, **wanted), wait=True)
    assert done.rc == 0, done.output
    (waited,) = done.results("rankzero.slurm.job_wait")
    run = site.run_dir(waited)
    assert (waited["success"], waited["attempt"], waited["nodes"]) == (True, 1, ["node02", "node04"]), waited
    before = read_json(run / "outcome.before-attempt-1.json")
    assert before["ended_by"] == "requeue" and before["unfit_nodes"] == {"node03": "no report: no python3 here"}
    assert before["message"] == (
        "preflight: node03: no report: no python3 here; requeued without node03: attempt 2 of at most 6 follows"
    )
    shown = lab.head(["scontrol", "show", "job", "--oneliner", waited["job_id"]]).stdout
    left_out = re.findall(r" ExcNodeList=(\S+)", shown)[0]
    names = lab.head(["scontrol", "show", "hostnames", left_out]).stdout.split()
    assert sorted(names) == [f"node0{number}" for number in (1, 3, 5, 6, 7, 8)]
    first, second = ((run / "preflight" / str(attempt) / "table").read_text().splitlines() for attempt in (0, 1))
    # What node02 answered in the first attempt holds in the second; node04 is asked for the first time.
    assert [line.split()[0] for line in first[:2]] == ["node02", "node03"]
    assert ["probe=remembered" in line for line in first[:1] + second[:2]] == [False, True, False]
    assert [path.name for path in (run / "preflight" / "1").glob("*.log")] == ["_tasks.log"]
    assert any(line.startswith("bound node02,node04 0:cpus=") for line in second), second
