# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who a process is, and whose."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.lab.machine import processes
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.machine.processes import Identity

STAT = "4711 (a) b (c) S 17 4711 4711 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 98765 1000 200 18446744073709551615 1 1"


def test_a_command_name_may_hold_anything() -> None:
    assert processes.parse_stat(STAT) == ("S", 17, 98765)


def test_a_running_process_is_itself_and_a_reused_pid_is_not() -> None:
    this = processes.identity(os.getpid())
    assert this is not None
    assert this.alive()
    assert not Identity(this.pid, this.start - 1).alive()


def test_a_reused_pid_is_not_killed() -> None:
    with subprocess.Popen(["sleep", "60"]) as bystander:
        this = processes.identity(bystander.pid)
        assert this is not None
        processes.kill(Identity(this.pid, this.start - 1), signal.SIGKILL)
        assert bystander.poll() is None
        processes.kill(this, signal.SIGKILL)
        assert bystander.wait() == -signal.SIGKILL


def test_a_zombie_is_dead() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # it has ended, and nobody has collected it
    try:
        assert Path(f"/proc/{pid}").exists()
        assert processes.identity(pid) is None
    finally:
        os.waitpid(pid, 0)


def test_no_process_has_no_identity() -> None:
    assert processes.identity(2**22 + 1) is None


def test_sources_of_mounts() -> None:
    mountinfo = (
        "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"
        "40 35 0:30 / /run rw - tmpfs rankzero-lab:/srv/a\\040b rw,mode=755\n"
        "not a mount\n"
    )
    assert processes.mounted_sources(mountinfo) == {"/dev/root", "rankzero-lab:/srv/a b"}


def test_whose_environment() -> None:
    conf = "SLURM_CONF=/srv/lab/etc/slurm/slurm.conf"
    assert processes.in_environment(["A=1", "RANKZERO_LAB_MEMBER=/srv/lab"], "/srv/lab")
    assert processes.in_environment([conf, "SLURM_JOB_ID=7"], "/srv/lab")
    assert not processes.in_environment([conf, "RANKZERO_LAB=/srv/lab"], "/srv/lab"), "a user's own shell"
    assert not processes.in_environment(["RANKZERO_LAB_MEMBER=/srv/lab2", "SLURM_JOB_ID=7"], "/srv/lab")


def test_ports_in_state_listen() -> None:
    table = (
        "  sl  local_address rem_address   st tx_queue rx_queue\n"
        "   0: 0100007F:1AA1 00000000:0000 0A 00000000:00000000\n"
        "   1: 0B01400A:C350 0100400A:1AA3 01 00000000:00000000\n"
        "   2: 00000000000000000000000000000000:1AA3 00000000000000000000000000000000:0000 0A 00000000:00000000\n"
    )
    assert processes.listening_ports(table) == {6817, 6819}


def test_members_are_found_with_all_that_descends_from_them(tmp_path: Path) -> None:
    marks = processes.Marks("rankzero-lab:no-such", "/no/such/agent", str(tmp_path))
    command = ["sh", "-c", "env -i sleep 60 & echo $!; wait"]
    environment = {"RANKZERO_LAB_MEMBER": str(tmp_path), "PATH": os.environ["PATH"]}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        child = int(shell.stdout.readline())
        try:
            assert {who.pid for who in processes.members(marks)} == {shell.pid, child}
            assert processes.kill_all(marks) == 2
            assert processes.members(marks) == []
        finally:
            shell.kill()


def test_a_slurmstepd_is_known_by_its_log(tmp_path: Path) -> None:
    """slurmstepd overwrites its environment with its title."""
    (tmp_path / "log" / "node01").mkdir(parents=True)
    program = tmp_path / "slurmstepd"
    program.symlink_to("/bin/sleep")
    marks = processes.Marks("rankzero-lab:no-such", "/no/such/agent", str(tmp_path))
    with (
        open(tmp_path / "log" / "node01" / "slurmd.log", "w", encoding="utf-8") as log,
        subprocess.Popen([str(program), "60"], env={}, stdout=log) as stepd,
        subprocess.Popen(["sleep", "60"], env={}, stdout=log) as reader,
    ):
        try:
            assert [who.pid for who in processes.members(marks)] == [stepd.pid]
        finally:
            stepd.kill()
            reader.kill()
