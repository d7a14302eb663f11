# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starting, stopping and removing a lab: what it must never do to the machine and to what lies on it, in each way.

These tests boot small labs of their own. How a lab repairs itself is in test_lab_repairs.py.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core import json_types, text
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import cluster, layout, record
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import library as library_of_a_lab
from tests.cluster.conftest import LabCluster, instance_name, lab_of
from tests.cluster.small_labs import APPLY, as_json, host_state, kill_a_start, members, start_in_background


def test_absent_leaves_nothing(small: layout.Lab) -> None:
    before = host_state(small)
    assert cluster.apply(small, "present").changed
    LabCluster(small).run_job("--nodes=2", script="srun true")
    during = host_state(small)
    assert cluster.apply(small, "absent").changed
    assert members(small) == []
    assert not Path(small.directory).exists()
    assert not Path(f"{small.directory}.lock").exists()
    assert host_state(small) == before
    assert during == before, "a running lab is not seen in the host's mounts, network and control groups either"
    assert not cluster.apply(small, "absent").changed
    assert not Path(f"{small.directory}.lock").exists()


def test_check_mode_only_says(small: layout.Lab) -> None:
    report = cluster.apply(small, "present", check_mode=True)
    assert (report.changed, report.was, report.now) == (True, "absent", "running")
    assert "NodeName=node[01-02]" in report.after
    assert report.before == ""
    assert not Path(small.directory).exists()


def test_stopped_keeps_what_is_shared_and_jobs(small: layout.Lab) -> None:
    cluster.apply(small, "present")
    handle = LabCluster(small)
    (handle.shared / "kept").write_text("kept", encoding="utf-8")
    job = handle.head(["sbatch", "--parsable", "--hold", "--chdir=/", "--wrap", "true"]).stdout.strip()
    assert cluster.apply(small, "stopped").changed
    assert members(small) == []
    assert not cluster.apply(small, "stopped").changed
    assert cluster.apply(small, "present").was == "stopped"
    assert (handle.shared / "kept").read_text(encoding="utf-8") == "kept"
    assert handle.head(["squeue", "--noheader", "--format=%i"]).stdout.strip() == job
    assert cluster.apply(small, "restarted").changed
    assert handle.head(["squeue", "--noheader", "--format=%i"]).stdout.strip() == job


def test_a_start_that_is_killed_is_repaired(small: layout.Lab) -> None:
    """At other moments, too: tests/cluster/test_lab_repairs.py."""
    kill_a_start(small, after=0.45)


def test_files_of_a_rebooted_machine_name_nobody(small: layout.Lab) -> None:
    """After a reboot the recorded pids belong to others: they are neither entered nor killed."""
    cluster.apply(small, "present")
    known = record.load(small.directory)
    assert known is not None
    recorded = Path(known.host.socket_directory, "head.pid") if small.realistic else None
    cluster.apply(small, "stopped")
    with subprocess.Popen(["sleep", "1000"]) as bystander:
        try:
            if recorded is not None:
                recorded.write_text(f"{bystander.pid} 1\n", encoding="utf-8")
                done = LabCluster(small).head(["true"], check=False)
                assert done.returncode == 125
                assert "head of this lab is not running" in done.stderr
            cluster.apply(small, "present")
            assert bystander.poll() is None
        finally:
            bystander.kill()


def test_two_starters_make_one_lab(small: layout.Lab) -> None:
    starters = [start_in_background(small) for _ in range(3)]
    results = [starter.communicate(timeout=120) for starter in starters]
    assert [starter.returncode for starter in starters] == [0, 0, 0], results
    assert sorted('"changed": true' in out for out, _ in results) == [False, False, True]


def test_a_closed_directory_is_refused(small: layout.Lab, tmp_path: Path) -> None:
    if not small.realistic:
        pytest.skip("in the simple way everything runs as one user")
    (tmp_path / "closed").mkdir(mode=0o700)
    inside = dataclasses.replace(small, directory=f"{tmp_path}/closed/lab")
    with pytest.raises(RankzeroError, match=r"is closed to the users munge and slurm; choose another"):
        cluster.apply(inside, "present")
    assert not os.listdir(tmp_path / "closed")


def test_what_is_bound_is_written_through(small: layout.Lab) -> None:
    if not small.realistic:
        pytest.skip("the simple way has no mounts, and needs none")
    with tempfile.TemporaryDirectory(prefix="rankzero-bind-") as place:
        bound = dataclasses.replace(small, binds=(place,))
        cluster.apply(bound, "present")
        LabCluster(bound).node("node02", ["sh", "-c", f"echo here > {place}/file"])
        assert Path(place, "file").read_text(encoding="utf-8") == "here\n"
        cluster.apply(bound, "absent")
        assert Path(place, "file").exists(), "what was bound is not the lab's to remove"


def test_a_missing_package_is_named(small: layout.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_PROGRAMS", {"rankzero-no-such-program": "no-such-package"})
    with pytest.raises(RankzeroError, match="not installed: no-such-package"):
        cluster.apply(small, "present")


def test_somebody_elses_mount_is_not_removed(small: layout.Lab) -> None:
    if os.getuid() != 0:
        pytest.skip("mounting needs root")
    cluster.apply(small, "present")
    place = Path(small.shared, "mounted")
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "precious", str(place)], check=True)
    try:
        (place / "file").touch()
        with pytest.raises(RankzeroError, match="unmount it, then retry"):
            cluster.apply(small, "absent")
        assert (place / "file").exists()
    finally:
        subprocess.run(["umount", str(place)], check=True)


# ---- the simple way, as an ordinary user ------------------------------------------------------------------------


@pytest.fixture
def ordinary() -> Iterator[tuple[list[str], Path]]:
    """How to run something as an ordinary user, and a home for him. Root becomes `nobody` for it."""
    if os.getuid() != 0:
        with tempfile.TemporaryDirectory(prefix="rankzero-home-") as home:
            yield [], Path(home)
        return
    with tempfile.TemporaryDirectory(prefix="rankzero-home-", dir="/var/tmp") as home:
        subprocess.run(["chown", "nobody:nogroup", home], check=True)
        yield ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"], Path(home)


@pytest.fixture
def library(open_place: Path) -> str:
    """The lab's code where an ordinary user can read it: the checkout may lie in a closed place."""
    for module in (*library_of_a_lab.MODULES, library_of_a_lab, cluster, json_types, text):
        target = open_place.joinpath(*module.__name__.split(".")).with_suffix(".py")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(str(module.__file__), target)
    subprocess.run(["chmod", "-R", "a+rX", str(open_place)], check=True)
    return str(open_place)


@pytest.mark.parametrize("accounting", ["slurmdbd", pytest.param("none", marks=pytest.mark.more)])
def test_an_ordinary_user_boots_the_simple_way(ordinary: tuple[list[str], Path], library: str, accounting: str) -> None:
    become, home = ordinary
    asleep = "sleep 1061"  # a job that this lab alone runs
    lab = lab_of(instance_name("user"), directory=str(home / "lab"), way="simple", accounting=accounting)
    before = host_state(lab)

    def apply(state: str) -> str:
        command = [*become, "/usr/bin/python3", "-B", "-c", APPLY, as_json(lab), state]
        environment = {"PYTHONPATH": library, "HOME": str(home), "PATH": os.environ["PATH"]}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, cwd="/", timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def head(*words: str) -> str:
        command = [*become, f"{lab.directory}/bin/head", *words]
        return subprocess.run(command, capture_output=True, text=True, cwd="/", check=True, timeout=60).stdout

    try:
        assert '"was": "absent"' in apply("present")
        assert head("sinfo", "--noheader", "--partition=batch", "--format=%D %T") == "8 idle\n"
        nodes = head("srun", "--nodes=8", "--gres=gpu:8", "printenv", "SLURMD_NODENAME")
        assert sorted(nodes.split()) == lab.node_names
        assert '"changed": false' in apply("present")
        head("sbatch", "--nodes=2", "--output=/dev/null", "--wrap", f"srun {asleep} & {asleep}")
        if accounting == "slurmdbd":
            assert "srun" not in head("sacct", "--noheader", "--format=State")  # it answers
        supervisor = next(who for who in members(lab) if b"lab.json" in Path(f"/proc/{who.pid}/cmdline").read_bytes())
        os.kill(supervisor.pid, signal.SIGKILL)
        assert '"was": "broken"' in apply("present")
        assert '"changed": false' in apply("present")
    finally:
        apply("absent")
    assert members(lab) == []
    assert not Path(lab.directory).exists()
    assert host_state(lab) == before
    left = subprocess.run(["pgrep", "--full", "--uid", "nobody", asleep], capture_output=True, text=True, check=False)
    assert left.stdout == "" or not become
