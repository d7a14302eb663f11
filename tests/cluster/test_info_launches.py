# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""cluster_info and job_info against a real Slurm, run by ansible-playbook as a user runs them."""

from __future__ import annotations

import csv
import io
import json
import time
from collections import Counter
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.usage.attempt_times import PARTS
from tests.cluster.watching import SECONDS, Bench, bench
from tests.repository import run

__all__ = ["bench"]


def test_cluster_info_describes_the_lab(bench: Bench) -> None:
    found = bench.task("cluster_info")
    assert not found["changed"]
    assert (found["cluster"], found["default_partition"]) == (bench.lab.cluster_name, "batch")
    assert found["version"].split(".")[0].isdigit()
    assert [controller["up"] for controller in found["controllers"]] == [True]
    batch = next(partition for partition in found["partitions"] if partition["name"] == "batch")
    assert (batch["default"], batch["total_nodes"], batch["gpus_per_node"], batch["state"]) == (True, 8, 8, "up")
    short = next(partition for partition in found["partitions"] if partition["name"] == "short")
    assert short["max_time"] == "01:00:00"
    assert sum(found["node_states"].values()) == 8
    assert found["accounting"]["available"] is True
    assert found["settings"]["min_job_age"] > 0
    assert found["slurm_commands"] == 8
    assert bench.task("cluster_info", check=True)["partitions"] == found["partitions"]


def test_the_nodes_of_the_lab_are_an_inventory(bench: Bench, tmp_path: Path) -> None:
    """Asked through the lab's head, as a controller without Slurm asks through a login node."""
    asked = {"plugin": "rankzero.slurm.nodes", "command": [bench.lab.lab.path("bin", "head"), "scontrol"]}
    (tmp_path / "lab.slurm_nodes.yml").write_text(json.dumps(asked))
    found = json.loads(run("ansible-inventory", "-i", "lab.slurm_nodes.yml", "--list", cwd=tmp_path).stdout)
    everyone = [f"node{number:02d}" for number in range(1, 9)]
    assert found["partition_batch"]["hosts"] == found["partition_short"]["hosts"] == everyone
    assert all(found["_meta"]["hostvars"][name]["slurm_gpus"] == 8 for name in everyone)


def test_a_host_without_slurm_is_named(bench: Bench) -> None:
    here = {"ansible_become": False}  # this machine, which has no user of the lab
    failed = bench.task("cluster_info", through=bench.shell_without_slurm(), host=here, fails=True)
    assert "the Slurm command 'scontrol' is not on host" in failed["msg"]


def test_a_slurmctld_that_is_down_is_named(bench: Bench) -> None:
    failed = bench.task("cluster_info", through=bench.shell_with_silent_slurm(), fails=True)
    assert "does not answer" in failed["msg"]


def test_job_info_of_a_life(bench: Bench) -> None:
    run = bench.submit("until [ -e $RUN/go ]; do sleep 0.1; done; success")
    bench.wait_for(run, "started.json")
    (found,) = bench.task("job_info", name=run.name, state_root=bench.state_root)["launches"]
    assert (found["slurm_state"], found["active"], found["completed"], found["success"]) == (
        "RUNNING",
        True,
        False,
        False,
    )
    assert found["nodes"] == bench.started(run)["nodes"]
    assert (found["job_id"], found["run_dir"], found["generation"]) == (run.job_id, run.path, 1)
    listed = bench.task("job_info", state_root=bench.state_root, newest=True, active=True)
    assert [one["job_id"] for one in listed["launches"]] == [run.job_id]
    assert run.name in listed["lines"][1] and "running" in listed["lines"][1]

    (run.here / "go").touch()
    bench.ended(run)
    by_id = bench.task("job_info", job_id=run.job_id, state_root=bench.state_root)["launches"]
    by_key = bench.task("job_info", name=run.name, key=run.key, generation=1, state_root=bench.state_root)["launches"]
    assert by_id == by_key
    (found,) = by_id
    assert (found["slurm_state"], found["completed"], found["success"], found["exit_code"]) == (
        "COMPLETED",
        True,
        True,
        0,
    )
    assert found["artifact"]["scalars"] == {"loss": 1.5}
    assert found["finished_at"] >= found["started_at"]


def test_job_info_when_the_queue_forgot_the_job(bench: Bench) -> None:
    """As MinJobAge seconds after the end: squeue and scontrol know nothing, accounting does."""
    run = bench.submit("exit 3")
    bench.ended(run)
    bench.accounted(run, "FAILED")
    found = bench.task("job_info", run_dir=run.path, through=bench.shell_with_forgetful_queue())
    (launch,) = found["launches"]
    assert (launch["source"], launch["slurm_state"], launch["completed"], launch["success"]) == (
        "sacct",
        "FAILED",
        True,
        False,
    )
    assert launch["exit_code"] == 3
    # The fourth: whether Slurm has drained the node of a job that left no verdict.
    assert found["slurm_commands"] == 4


def test_job_info_of_an_intent_without_an_id(bench: Bench) -> None:
    run = bench.submit("sleep 60", journal=("intent",))
    (found,) = bench.task("job_info", run_dir=run.path)["launches"]
    assert found["job_id"] == run.job_id, "found by its name"
    assert found["slurm_state"] in ("PENDING", "CONFIGURING", "RUNNING")


def test_job_info_of_what_is_not_there(bench: Bench) -> None:
    found = bench.task("job_info", job_id="999999", state_root=bench.state_root)
    assert found["launches"] == []
    assert "and Slurm does not know that job" in found["message"]
    failed = bench.task("job_info", run_dir=f"{bench.state_root}/runs/none/{'0' * 16}/1", fails=True)
    assert "cannot be read on this host" in failed["msg"]


@pytest.mark.parametrize("module", ["job_info", "job_wait"])
def test_a_silent_slurm_changes_no_verdict(bench: Bench, module: str) -> None:
    run = bench.submit("success")
    bench.ended(run)
    found = bench.task(module, run_dir=run.path, through=bench.shell_with_silent_slurm())
    launch = found["launches"][0] if module == "job_info" else found
    assert (launch["completed"], launch["success"], launch["slurm_state"]) == (True, True, "COMPLETED")


def test_usage_is_what_accounting_says_of_each_account(bench: Bench) -> None:
    """Three launches of two accounts: one on two nodes, and one that is requeued."""
    for account in ("physics", "biology"):
        bench.lab.head(["sacctmgr", "--immediate", "--quiet", "add", "account", account], check=False)
        bench.lab.head(
            ["sacctmgr", "--immediate", "--quiet", "add", "user", bench.user.name, f"account={account}"], check=False
        )
    runs = [
        bench.submit("sleep 2; success", "--account=physics", "--nodes=2"),
        bench.submit("[ $ATTEMPT = 1 ] || sleep 600; sleep 1; success", "--account=physics", "--requeue"),
        bench.submit("sleep 1; success", "--account=biology"),
    ]
    bench.started(runs[1])
    time.sleep(1)  # an allocation of no second is none
    bench.lab.head(["scontrol", "requeue", runs[1].job_id])
    jobs = ",".join(run.job_id for run in runs)
    shown = ["sacct", "--noheader", "--allocations", "--duplicates", "--parsable2", f"--jobs={jobs}"]
    words = [*shown, "--format=Account,ElapsedRaw,AllocTRES,State,End"]

    def accounted() -> list[list[str]]:
        return [line.split("|") for line in bench.lab.head(words).stdout.splitlines()]

    def settled() -> bool:
        rows = accounted()
        return len(rows) == 4 and sum(row[3] == "COMPLETED" for row in rows) == 3 and "Unknown" not in str(rows)

    bench.lab.wait_until(settled, SECONDS, "accounting knows all ends")
    seconds: Counter[str] = Counter()
    for account, elapsed, allocated, *_rest in accounted():
        nodes = int(dict(part.split("=") for part in allocated.split(","))["node"])
        seconds[account] += int(elapsed) * nodes
    found = bench.task("usage_info", state_root=bench.state_root, by=["user", "account", "month"])
    rows = {row["account"]: row for row in found["rows"]}
    assert {(row["user"], row["launches"], row["estimated"]) for row in found["rows"]} == {
        (bench.user.name, 2, 0),
        (bench.user.name, 1, 0),
    }
    assert {account: row["node_hours"] for account, row in rows.items()} == pytest.approx(
        {account: used / 3600 for account, used in seconds.items()}, rel=0.01
    )
    for row in found["rows"]:
        parts = [row[part] for part in PARTS if row[part] is not None]
        assert sum(parts) == pytest.approx(row["node_hours"])
    assert [line["account"] for line in csv.DictReader(io.StringIO(found["csv"]))] == sorted(seconds)
    later = bench.task("usage_info", state_root=bench.state_root, since="9999-01")
    assert later["rows"] == [] and later["promised"]["node_hours"] == 0
