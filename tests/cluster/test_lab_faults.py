# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every fault switch on the real lab: the fault is there, Slurm sees it, and it goes away again.

Those that the tests and benchmarks of the collection rely on are tried in every run; what is marked `more` is for those
who change the lab.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import boot, cluster
from tests.cluster.conftest import LabCluster


@pytest.fixture
def mended(lab: LabCluster) -> Iterator[LabCluster]:
    """The lab; whatever a test leaves broken is mended for the next one."""
    yield lab
    cluster.apply(lab.lab, "present")


@pytest.fixture
def realistic(mended: LabCluster) -> LabCluster:
    if mended.way != "realistic":
        pytest.skip("this fault needs namespaces, and they need root")
    return mended


def fault(lab: LabCluster, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(lab.dir / "bin" / "fault"), *words], capture_output=True, text=True, cwd="/", check=False
    )


def node_state(lab: LabCluster, name: str) -> str:
    return boot.nodes_up(lab.lab).get(name, "")


def test_a_directory_is_hidden_on_one_node(realistic: LabCluster) -> None:
    (realistic.shared / "hidden").mkdir(exist_ok=True)
    (realistic.shared / "hidden" / "file").touch()
    look = ["ls", "-A", "/shared/hidden"]
    realistic.faults.hide("node02", "/shared/hidden")
    realistic.faults.hide("node02", "/shared/hidden")
    assert realistic.node("node02", look).stdout == ""
    assert realistic.node("node02", ["touch", "/shared/hidden/x"], check=False).returncode != 0
    assert realistic.node("node03", look).stdout == "file\n"
    assert realistic.head(look).stdout == "file\n"
    realistic.faults.unhide("node02", "/shared/hidden")
    realistic.faults.unhide("node02", "/shared/hidden")
    assert realistic.node("node02", look).stdout == "file\n"


def test_a_directory_is_read_only_on_one_node(realistic: LabCluster) -> None:
    (realistic.shared / "protected").mkdir(exist_ok=True)
    (realistic.shared / "protected").chmod(0o777)
    write = ["touch", "/shared/protected/x"]
    for _twice in range(2):
        realistic.faults.protect("node02", "/shared/protected")
        assert realistic.node("node02", write, check=False).returncode != 0
    realistic.node("node03", write)
    assert realistic.node("node02", ["ls", "/shared/protected"]).stdout == "x\n"
    for _twice in range(2):
        realistic.faults.unprotect("node02", "/shared/protected")
        realistic.node("node02", write)


def test_a_frozen_slurmctld_answers_again(mended: LabCluster) -> None:
    mended.faults.freeze("slurmctld")
    assert mended.head(["timeout", "3", "squeue"], check=False).returncode != 0
    mended.faults.thaw("slurmctld")
    mended.head(["squeue"])


def test_slurmctld_crashes_and_starts(mended: LabCluster) -> None:
    job = mended.head(["sbatch", "--parsable", "--hold", "--chdir=/", "--wrap", "true"]).stdout.strip()
    mended.faults.stop("slurmctld")  # a crash may lose what was not yet saved: here the job must survive
    mended.faults.start("slurmctld")
    assert mended.head(["squeue", "--noheader", "--format=%i", f"--jobs={job}"]).stdout.strip() == job
    mended.head(["scancel", job])
    mended.faults.crash("slurmctld")
    assert mended.head(["squeue"], check=False, timeout=30).returncode != 0
    mended.faults.start("slurmctld")
    mended.head(["squeue"])


def test_slurmdbd_crashes_and_starts(mended: LabCluster) -> None:
    mended.faults.crash("slurmdbd")
    assert mended.head(["sacct"], check=False, timeout=60).returncode != 0
    mended.faults.start("slurmdbd")
    mended.head(["sacct"])
    mended.faults.restart("slurmdbd")
    mended.head(["sacct"])


@pytest.mark.more
def test_the_database_restarts(mended: LabCluster) -> None:
    mended.faults.restart("mariadbd")
    mended.wait_until(lambda: mended.head(["sacct"], check=False).returncode == 0, what="sacct works again")


@pytest.mark.more
def test_munged_restarts(mended: LabCluster) -> None:
    socket = "/run/munge/munge.socket.2" if mended.way == "realistic" else str(mended.dir / "run" / "munge.socket")
    encode = ["munge", "--no-input", f"--socket={socket}"]
    mended.head(encode)
    mended.faults.crash("munged")
    assert mended.head(encode, check=False).returncode != 0
    mended.faults.start("munged")
    mended.head(encode)
    mended.head(["squeue"])


def test_slurmd_crash_leaves_the_job_running(mended: LabCluster) -> None:
    """slurmstepd is the parent of a job's processes: it outlives slurmd, and the job ends well."""
    go = mended.shared / "go-of-node04"
    program = f"until [ -e {mended.shared_inside}/{go.name} ]; do sleep 0.1; done"
    options = ["--parsable", "--nodelist=node04", "--chdir=/", "--output=/dev/null"]
    job = mended.head(["sbatch", *options, "--wrap", program]).stdout.strip()
    state = ["squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}"]
    mended.wait_until(lambda: mended.head(state).stdout.strip() == "RUNNING", what="the job runs")
    mended.faults.crash("slurmd", "node04")
    mended.faults.start("slurmd", "node04")
    go.touch()
    mended.wait_until(lambda: mended.head(state).stdout.strip() == "COMPLETED", what="the job ends well")
    go.unlink()


@pytest.mark.more
def test_a_dead_slurmd_is_noticed(mended: LabCluster) -> None:
    mended.faults.stop("slurmd", "node05")
    mended.wait_until(lambda: node_state(mended, "node05").startswith("down"), 120, "slurmctld marks the node down")
    mended.faults.start("slurmd", "node05")
    assert node_state(mended, "node05") == "idle"


def test_power_off_takes_everything_but_the_disk(realistic: LabCluster) -> None:
    addresses = [["cat", f"/sys/class/net/{interface}/address"] for interface in ("eth0", "ib0")]
    before = [realistic.node("node06", command).stdout for command in addresses]
    realistic.node("node06", ["sh", "-c", "echo kept > /var/tmp/disk; echo lost > /tmp/memory"])
    subprocess.run(
        [str(realistic.dir / "bin" / "node"), "node06", "sh", "-c", "sleep 1000 </dev/null >/dev/null 2>&1 &"],
        check=True,
        cwd="/",
    )
    realistic.faults.power_off("node06")
    done = realistic.node("node06", ["true"], check=False)
    assert done.returncode == 125
    assert "node06 of this lab is not running" in done.stderr
    ping = ["python3", "-c", f"import socket; socket.create_connection(('{realistic.lab.address('node06')}', 6818), 2)"]
    assert realistic.head(ping, check=False).returncode != 0
    realistic.faults.power_on("node06")
    # The other nodes have its hardware addresses in their neighbour tables.
    assert [realistic.node("node06", command).stdout for command in addresses] == before
    assert realistic.node("node06", ["cat", "/var/tmp/disk"]).stdout == "kept\n"
    assert realistic.node("node06", ["test", "-e", "/tmp/memory"], check=False).returncode == 1
    assert "sleep" not in realistic.node("node06", ["ps", "-e", "-o", "comm="]).stdout
    realistic.run_job("--nodelist=node06", script="true")


def test_present_mends_what_is_broken(realistic: LabCluster) -> None:
    realistic.faults.power_off("node07")
    realistic.faults.crash("slurmd", "node01")
    realistic.faults.crash("slurmctld")
    realistic.faults.crash("munged", "node02")
    report = cluster.apply(realistic.lab, "present")
    assert report.changed
    assert sorted(report.repaired) == ["munged on node02", "node07", "slurmctld on head", "slurmd on node01"]
    assert not cluster.apply(realistic.lab, "present").changed
    assert set(boot.nodes_up(realistic.lab)) == set(realistic.nodes)


SEND = (
    "import socket, sys\n"
    "with socket.create_connection((sys.argv[1], int(sys.argv[2])), 20) as s:\n"
    "    s.sendall(bytes(int(sys.argv[3])))\n"
)
RECEIVE = (
    "import socket, sys, time\n"
    "server = socket.create_server((sys.argv[1], 5555))\n"
    "print('ready', flush=True)\n"
    "peer, _ = server.accept()\n"
    "start = time.monotonic()\n"
    "count = 0\n"
    "while data := peer.recv(65536): count += len(data)\n"
    "print(count / (time.monotonic() - start))\n"
)


def throughput(lab: LabCluster, sender: str, receiver: str, interface: str) -> float:
    """Bytes a second between two nodes over an interface."""
    address = lab.lab.address(receiver, interface)
    command = [str(lab.dir / "bin" / "node"), receiver, "python3", "-c", RECEIVE, address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd="/") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        lab.node(sender, ["python3", "-c", SEND, address, "5555", "400000"])
        return float(process.stdout.readline())


@pytest.mark.parametrize("interface", ["eth0", pytest.param("ib0", marks=pytest.mark.more)])
def test_a_link_is_slowed(realistic: LabCluster, interface: str) -> None:
    realistic.faults.slow("node01", interface, rate="1mbit")
    # 1 Mbit/s is 125,000 bytes a second; a burst of 32 KiB passes at once.
    assert throughput(realistic, "node01", "node02", interface) < 250_000
    shown = realistic.node("node01", ["tc", "qdisc", "show", "dev", interface]).stdout
    assert "rate 1Mbit" in shown
    realistic.faults.unslow("node01", interface)
    realistic.faults.unslow("node01", interface)
    assert "tbf" not in realistic.node("node01", ["tc", "qdisc", "show", "dev", interface]).stdout


@pytest.mark.more
def test_a_link_is_delayed_or_the_kernel_is_named(realistic: LabCluster) -> None:
    """Some kernels have no netem: then the error says so, and nothing is slowed."""
    peer = f"import socket; socket.create_connection(('{realistic.lab.address('node02')}', 6818), 5)"
    try:
        realistic.faults.slow("node01", "eth0", rate="10mbit", delay_ms=300)
    except RankzeroError as error:
        assert "the kernel refused netem" in error.message
        assert "netem" not in realistic.node("node01", ["tc", "qdisc", "show", "dev", "eth0"]).stdout
    else:
        start = time.monotonic()
        realistic.node("node01", ["python3", "-c", peer])
        assert time.monotonic() - start > 0.3  # a lower bound: the delay itself
        realistic.faults.unslow("node01", "eth0")


def test_the_fabric_goes_down_on_one_node(realistic: LabCluster) -> None:
    reach = [
        "python3",
        "-c",
        f"import socket; socket.create_connection(('{realistic.lab.address('node02', 'ib0')}', 6818), 2)",
    ]
    realistic.node("node01", reach)
    realistic.faults.link_down("node01", "ib0")
    assert realistic.node("node01", reach, check=False).returncode != 0
    realistic.node("node03", reach)
    realistic.run_job("--nodelist=node01", script="true")  # Slurm talks over eth0
    realistic.faults.link_up("node01", "ib0")
    realistic.wait_until(lambda: realistic.node("node01", reach, check=False).returncode == 0, what="ib0 works again")


@pytest.mark.more
def test_the_program_does_the_same(mended: LabCluster) -> None:
    assert fault(mended, "restart", "slurmd", "node03").returncode == 0
    assert node_state(mended, "node03") == "idle"
    if mended.way == "realistic":
        for words in (
            ["hide", "node03", "/shared"],
            ["unhide", "node03", "/shared"],
            ["slow", "node03", "--interface", "ib0", "--rate", "500kbit"],
            ["unslow", "node03", "--interface", "ib0"],
            ["link-down", "node03"],
            ["link-up", "node03"],
            ["power-off", "node03"],
            ["power-on", "node03"],
        ):
            done = fault(mended, *words)
            assert done.returncode == 0, f"{words}: {done.stderr}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["crash", "slurmd"], "'slurmd' is not allowed on the head (give a node for slurmd)"),
        (["crash", "slurmctld", "node01"], "'slurmctld' is not allowed on node node01; allowed are slurmd, munged"),
        (["crash", "slurmd", "node99"], "'node99' is not allowed; the lab has node01 to node08"),
    ],
)
def test_a_wrong_fault_says_what_is_allowed(lab: LabCluster, words: list[str], message: str) -> None:
    done = fault(lab, *words)
    assert done.returncode == 1
    assert message in done.stderr


def test_a_relative_path_cannot_be_hidden(realistic: LabCluster) -> None:
    with pytest.raises(RankzeroError, match="give an absolute path"):
        realistic.faults.hide("node01", "shared")
