# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starting, stopping, removing and repairing a lab. These tests boot small labs of their own."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import (
    agents,
    boot,
    cluster,
    control,
    layout,
    processes,
    record,
)
from tests.cluster.conftest import ROOT, LabCluster, instance_name, lab_of

APPLY = (
    "import json, sys\n"
    "from ansible_collections.rankzero.slurm.plugins.module_utils.lab import cluster, layout\n"
    "options, state = json.loads(sys.argv[1]), sys.argv[2]\n"
    "report = cluster.apply(layout.from_options(options), state)\n"
    "print(json.dumps(report.results()))\n"
)


@pytest.fixture
def small() -> Iterator[layout.Lab]:
    """Options of a lab of two nodes without a database, not started. Removed afterwards."""
    lab = lab_of(instance_name("small"), nodes=2, accounting="none")
    cluster.apply(lab, "absent")
    yield lab
    cluster.apply(lab, "absent")


def members(lab: layout.Lab) -> list[processes.Identity]:
    return processes.members(processes.Marks(lab.marker, agents.agent_program(lab), lab.directory))


def host_state() -> dict[str, object]:
    """What a lab must not leave on the host: mounts, network interfaces, control groups, entries of /."""
    groups = sum(len(directories) for _, directories, _ in os.walk("/sys/fs/cgroup"))
    return {
        "mounts": Path("/proc/self/mountinfo").read_text(encoding="utf-8").count("\n"),
        "interfaces": sorted(os.listdir("/sys/class/net")),
        "groups": groups,
        "root": sorted(os.listdir("/")),
    }


def _options(lab: layout.Lab) -> str:
    return json.dumps(dataclasses.asdict(lab))


def start_in_background(lab: layout.Lab, state: str = "present") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", APPLY, _options(lab), state],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_absent_leaves_nothing(small: layout.Lab) -> None:
    before = host_state()
    assert cluster.apply(small, "present").changed
    LabCluster(small).run_job("--nodes=2", script="srun true")
    during = host_state()
    assert cluster.apply(small, "absent").changed
    assert members(small) == []
    assert not Path(small.directory).exists()
    assert not Path(f"{small.directory}.lock").exists()
    assert host_state() == before
    assert during == before, "a running lab is not seen in the host's mounts, network and control groups either"
    assert not cluster.apply(small, "absent").changed
    assert not Path(f"{small.directory}.lock").exists()


def test_a_second_start_changes_nothing(small: layout.Lab) -> None:
    cluster.apply(small, "present")
    before = {who.pid for who in members(small)}
    report = cluster.apply(small, "present")
    assert (report.changed, report.was, report.now) == (False, "running", "running")
    assert {who.pid for who in members(small)} == before


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


@pytest.mark.parametrize("after", [0.05, 0.15, 0.3, 0.45, 0.6, 0.8, 1.0])
def test_a_start_that_is_killed_is_repaired(small: layout.Lab, after: float) -> None:
    """SIGKILL at different moments: the next start brings up exactly one whole lab."""
    starter = start_in_background(small)
    time.sleep(after)
    starter.kill()
    starter.wait()
    cluster.apply(small, "present")
    assert set(boot.nodes_up(small)) == {"node01", "node02"}
    LabCluster(small).run_job("--nodes=2", script="true")
    supervisors = [
        who
        for who in members(small)
        if Path(f"/proc/{who.pid}/cmdline").read_bytes().count(b"/agents/lab.json")
        and not Path(f"/proc/{who.pid}/cmdline").read_bytes().startswith(b"/usr/bin/unshare")
    ]
    assert len(supervisors) == 1


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


def test_a_closed_directory_is_refused(small: layout.Lab, tmp_path: Path) -> None:
    if not small.realistic:
        pytest.skip("in the simple way everything runs as one user")
    (tmp_path / "closed").mkdir(mode=0o700)
    inside = dataclasses.replace(small, directory=f"{tmp_path}/closed/lab")
    with pytest.raises(RankzeroError, match=r"is closed to the users munge and slurm; choose another"):
        cluster.apply(inside, "present")
    assert not os.listdir(tmp_path / "closed")


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A directory that every user can pass (those of pytest are closed)."""
    with tempfile.TemporaryDirectory(prefix="rankzero-place-", dir="/var/tmp") as place:
        os.chmod(place, 0o755)
        yield Path(place)


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
        ["setsid", "--wait", sys.executable, "-c", APPLY, _options(small), "present"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert out.wait(timeout=120) == 0
    threading.Event().wait(0.2)
    assert not cluster.apply(small, "present").changed


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
    target = open_place / "ansible_collections" / "rankzero" / "slurm" / "plugins" / "module_utils"
    target.mkdir(parents=True)
    source = ROOT / "plugins" / "module_utils"
    subprocess.run(
        ["cp", "-r", *(str(source / name) for name in ("debian.py", "errors.py", "lab")), str(target)], check=True
    )
    subprocess.run(["chmod", "-R", "a+rX", str(open_place)], check=True)
    return str(open_place)


@pytest.mark.parametrize("accounting", ["none", "slurmdbd"])
def test_an_ordinary_user_boots_the_simple_way(ordinary: tuple[list[str], Path], library: str, accounting: str) -> None:
    become, home = ordinary
    before = host_state()
    lab = lab_of(instance_name("user"), directory=str(home / "lab"), way="simple", accounting=accounting)

    def apply(state: str) -> str:
        command = [*become, "/usr/bin/python3", "-B", "-c", APPLY, _options(lab), state]
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
        head("sbatch", "--nodes=2", "--output=/dev/null", "--wrap", "srun sleep 1000 & sleep 1000")
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
    assert host_state() == before
    left = subprocess.run(["pgrep", "--uid", "nobody", "sleep"], capture_output=True, text=True, check=False)
    assert left.stdout == "" or not become
