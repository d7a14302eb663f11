# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab that was broken is repaired, one that cannot start says why: for those who change the lab.

All of it is left to `make test-all`. What a lab must never do to the machine is in test_lab_lifecycle.py.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import agents, boot, cluster, control, layout, record
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.machine import processes
from tests.cluster.conftest import LabCluster
from tests.cluster.small_labs import APPLY, as_json, kill_a_start, members, start_in_background

pytestmark = pytest.mark.more


def test_a_second_start_changes_nothing(small: layout.Lab) -> None:
    cluster.apply(small, "present")
    before = {who.pid for who in members(small)}
    report = cluster.apply(small, "present")
    assert (report.changed, report.was, report.now) == (False, "running", "running")
    assert {who.pid for who in members(small)} == before


def test_other_options_start_it_anew(small: layout.Lab) -> None:
    cluster.apply(small, "present")
    other = dataclasses.replace(small, nodes=3, gpus=0, slurm_conf=("FirstJobId=7000",))
    report = cluster.apply(other, "present", check_mode=True)
    assert (report.changed, report.was) == (True, "changed")
    assert "node[01-02]" in report.before
    assert "node[01-03]" in report.after
    assert cluster.apply(other, "present").changed
    assert sorted(boot.nodes_up(other)) == ["node01", "node02", "node03"]
    assert LabCluster(other).run_job("--nodes=3", script="true")[0] == "7000"


@pytest.mark.parametrize("after", [0.05, 0.15, 0.3, 0.6, 0.8, 1.0])
def test_a_start_that_is_killed_is_repaired(small: layout.Lab, after: float) -> None:
    kill_a_start(small, after)


def test_a_killed_start_can_be_removed(small: layout.Lab) -> None:
    starter = start_in_background(small)
    time.sleep(0.5)
    starter.kill()
    starter.wait()
    cluster.apply(small, "absent")
    assert members(small) == []
    assert not Path(small.directory).exists()


def test_a_lost_supervisor_is_repaired(small: layout.Lab) -> None:
    cluster.apply(small, "present")
    known = record.load(small.directory)
    assert known is not None
    supervisor = control.agent(known.host, agents.SUPERVISOR).identity()
    os.kill(supervisor.pid, signal.SIGKILL)
    assert processes.wait_gone([supervisor], 10)
    report = cluster.apply(small, "present")
    assert report.was == "broken"
    assert report.repaired
    assert not cluster.apply(small, "present").changed


def test_two_instances_run_beside_each_other(lab: LabCluster, small: layout.Lab) -> None:
    cluster.apply(small, "present")
    assert sorted(boot.nodes_up(small)) == ["node01", "node02"]
    assert sorted(boot.nodes_up(lab.lab)) == lab.nodes
    assert small.cluster_name != lab.cluster_name
    cluster.apply(small, "absent")
    lab.run_job("--nodes=8", script="true")


def test_a_configuration_that_slurm_refuses_is_explained(small: layout.Lab) -> None:
    bad = dataclasses.replace(small, slurm_conf=("NoSuchKey=1",))
    with pytest.raises(RankzeroError, match=r"slurmctld on head ended while it started(?s:.*)NoSuchKey"):
        cluster.apply(bad, "present")
    report = cluster.apply(small, "present")
    assert (report.was, report.now) == ("broken", "running")
    assert set(boot.nodes_up(small)) == {"node01", "node02"}


def test_a_slurmd_that_ends_is_explained(small: layout.Lab) -> None:
    """It is not waited for: the error comes with its last words."""
    bad = dataclasses.replace(small, slurm_conf=("TaskPlugin=task/none,task/none-such",))
    with pytest.raises(RankzeroError, match=r"(ended on|ended while).*(?s:.*)none-such"):
        cluster.apply(bad, "present")


def test_half_a_removed_directory_is_no_lab(small: layout.Lab) -> None:
    """A removal that was killed: what it left is cleared, and not started from."""
    left = Path(f"{small.directory}.going", "db")
    left.mkdir(parents=True)
    assert cluster.condition(small) == "absent"
    cluster.apply(small, "present")
    assert not left.exists()


def test_a_directory_that_cannot_carry_an_overlay(small: layout.Lab, open_place: Path) -> None:
    """As in a container, whose root is an overlay itself: the nodes' disks then lie in memory."""
    if not small.realistic:
        pytest.skip("the simple way mounts nothing")
    for name in ("lower", "upper", "work", "merged"):
        (open_place / name).mkdir()
    options = f"lowerdir={open_place}/lower,upperdir={open_place}/upper,workdir={open_place}/work"
    subprocess.run(["mount", "-t", "overlay", "-o", options, "overlay", f"{open_place}/merged"], check=True)
    inside = dataclasses.replace(small, directory=f"{open_place}/merged/lab")
    try:
        cluster.apply(inside, "present")
        handle = LabCluster(inside)
        handle.node("node01", ["sh", "-c", "echo x > /usr/rankzero-probe"])
        assert not Path("/usr/rankzero-probe").exists()
        shown = handle.node("node01", ["stat", "--file-system", "--format=%T", "/"]).stdout.strip()
        assert shown == "overlayfs"
    finally:
        cluster.apply(inside, "absent")
        subprocess.run(["umount", f"{open_place}/merged"], check=True)


def test_without_accounting_sacct_says_so(small: layout.Lab) -> None:
    cluster.apply(small, "present")
    done = LabCluster(small).head(["sacct"], check=False)
    assert done.returncode == 1
    assert "accounting storage is disabled" in done.stderr


def test_it_outlives_its_starter(small: layout.Lab) -> None:
    """The starter's end, and a hang-up of its session, end nothing."""
    out = subprocess.Popen(
        ["setsid", "--wait", sys.executable, "-c", APPLY, as_json(small), "present"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert out.wait(timeout=120) == 0
    threading.Event().wait(0.2)
    assert not cluster.apply(small, "present").changed
