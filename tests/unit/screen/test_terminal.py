# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The user's terminal in the hands of a command, from a process that is not at it; and how it is reached over SSH."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.action.job_shell import held_command, not_opened, ssh_argv
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.terminal import NO_TERMINAL, hand_over, terminal_of

SECONDS = 30


class User:
    """A person at a terminal whose process hands it over, as a worker of Ansible does: in a session of its own."""

    def __init__(self, command: list[str]) -> None:
        self.outer, inner = pty.openpty()
        self.modes = termios.tcgetattr(inner)
        self.inner = inner
        self.path = os.ttyname(inner)
        self.text = ""
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            os._exit(hand_over(self.path, command)[0])

    def expect(self, pattern: str) -> None:
        until = time.monotonic() + SECONDS
        while not re.search(pattern, self.text):
            assert time.monotonic() < until, self.text
            if select.select([self.outer], [], [], 0.1)[0]:
                self.text += os.read(self.outer, 65536).decode()

    def type(self, text: str) -> None:
        os.write(self.outer, text.encode())

    def end(self) -> int:
        until = time.monotonic() + SECONDS
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < until, self.text
            if select.select([self.outer], [], [], 0.05)[0]:
                self.text += os.read(self.outer, 65536).decode()


def test_what_is_typed_arrives_and_so_does_the_exit_code() -> None:
    user = User(["/bin/sh", "-c", 'test -t 0 && test -t 1 && echo at-a-terminal; read -r line; echo "<$line>"; exit 7'])
    user.expect("at-a-terminal")
    user.type("hello\r")
    user.expect("<hello>")
    assert user.end() == 7
    assert termios.tcgetattr(user.inner)[:4] == user.modes[:4], "the terminal is left as it was"


def test_ctrl_c_is_the_commands() -> None:
    user = User(["/bin/sh", "-c", "trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done"])
    user.expect("ready")
    user.type("\x03")
    user.expect("caught")
    assert user.end() == 3


def test_the_window_is_the_commands_too() -> None:
    watch = "until [ \"$(stty size)\" = '31 77' ]; do sleep 0.05; done; echo seen"
    user = User(["/bin/sh", "-c", watch])
    fcntl.ioctl(user.inner, termios.TIOCSWINSZ, struct.pack("HHHH", 31, 77, 0, 0))
    user.expect("seen")
    assert user.end() == 0


def test_a_command_that_is_not_there() -> None:
    user = User(["/no/such/command"])
    user.expect("No such file")
    assert user.end() == 127


def test_a_process_without_a_terminal_has_none() -> None:
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os._exit(0 if terminal_of(os.getpid()) is None else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_the_terminal_of_a_process_is_found() -> None:
    pid, end = pty.fork()
    if pid == 0:
        os.execv("/bin/cat", ["cat"])
    try:
        # The child takes its terminal after the fork.
        until = time.monotonic() + 10
        while (found := terminal_of(pid)) is None and time.monotonic() < until:
            time.sleep(0.05)
        assert found is not None and found.startswith("/dev/")
        assert os.path.exists(found)
    finally:
        os.close(end)
        os.waitpid(pid, 0)


@pytest.mark.parametrize(
    ("options", "argv"),
    [
        ({"host": "login1"}, ["ssh", "-t", "login1", "exec x"]),
        (
            {
                "host": "login1",
                "port": 2222,
                "remote_user": "me",
                "private_key_file": "/k y",
                "ssh_executable": "/opt/ssh",
                "ssh_args": "-C -o ControlPersist=60s",
                "ssh_common_args": "-o ProxyCommand='ssh -W %h:%p gate'",
            },
            [
                *("/opt/ssh", "-t", "-p", "2222", "-l", "me", "-i", "/k y", "-C", "-o", "ControlPersist=60s"),
                *("-o", "ProxyCommand=ssh -W %h:%p gate", "login1", "exec x"),
            ],
        ),
    ],
)
def test_over_ssh_it_is_the_users_own_ssh(options: dict[str, Any], argv: list[str]) -> None:
    assert ssh_argv(options.get, "exec x") == argv


def test_a_terminal_that_cannot_be_opened_is_no_exit_code_of_a_shell(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "gone", tmp_path / "file"):
        assert hand_over(str(path), ["true"]) == (NO_TERMINAL, "")


def test_the_beginning_of_the_output_is_kept() -> None:
    outer, inner = pty.openpty()
    code, printed = hand_over(os.ttyname(inner), ["/bin/sh", "-c", "echo salloc: error: no >&2; echo later; exit 1"])
    os.close(inner)
    os.close(outer)
    assert code == 1
    assert printed.splitlines() == ["salloc: error: no", "later"]


GRANTED = "salloc: Granted job allocation 7\r\nsalloc: Nodes node01 are ready for job\r\n"
RELEASED = "salloc: Relinquishing job allocation 7\r\n"
PENDING = "salloc: Pending job allocation 7\r\nsalloc: job 7 queued and waiting for resources\r\n"
PROMPT = "\x1b[?2004hme@node01:~$ "


@pytest.mark.parametrize(
    ("printed", "allocates", "reasons"),
    [
        (
            "salloc: error: Job submit/allocate failed: Invalid qos specification\r\n",
            True,
            ["no allocation was granted", "Invalid qos specification"],
        ),
        (
            f"Welcome\r\n{PENDING}^Csalloc: Job allocation 7 has been revoked.\r\nConnection to login1 closed.\r\n",
            True,
            ["no allocation was granted", "has been revoked"],
        ),
        ("/bin/sh: 1: exec: salloc: not found\r\n", True, ["no allocation was granted", "not found"]),
        (
            f"{GRANTED}srun: error: Unable to create step for job 7: Invalid generic resource\r\n{RELEASED}",
            True,
            ["no shell opened", "Invalid generic resource"],
        ),
        (
            "srun: error: Unable to confirm allocation for job 9: Invalid job id specified\r\n",
            False,
            ["Invalid job id"],
        ),
    ],
)
def test_a_session_that_had_no_shell_says_why(printed: str, allocates: bool, reasons: list[str]) -> None:
    message = not_opened(printed, allocates)
    assert all(reason in message for reason in reasons), message
    assert "Granted" not in message and "Relinquishing" not in message and "\r" not in message


@pytest.mark.parametrize(
    ("printed", "allocates"),
    [
        (f"{GRANTED}{PROMPT}false\r\n{PROMPT}exit\r\n{RELEASED}", True),
        (f"{GRANTED}{PROMPT}srun false\r\nsrun: error: node01: task 0: Exited with exit code 1\r\n{PROMPT}", True),
        (f"{PROMPT}salloc\r\nsalloc: error: Job submit/allocate failed: Access denied\r\n{PROMPT}", False),
        (GRANTED, True),
        ("", True),
    ],
)
def test_the_exit_code_of_a_shell_is_no_refusal(printed: str, allocates: bool) -> None:
    assert not_opened(printed, allocates) == ""


@pytest.mark.parametrize("ends", [0, signal.SIGHUP, signal.SIGTERM])
def test_a_file_that_a_session_holds_goes_with_it_however_it_ends(ends: int, tmp_path: Path) -> None:
    """As sshd starts it, in a shell of its own; a lost terminal signals all of its group."""
    held = tmp_path / "it's held"
    held.touch()
    inner = "exit 7" if not ends else "echo begun; exec sleep 60"
    line = f"exec {held_command(('/bin/sh', '-c', inner), str(held))}"
    with subprocess.Popen(["/bin/sh", "-c", line], stdout=subprocess.PIPE, start_new_session=True) as process:
        if ends:
            assert process.stdout and process.stdout.readline() == b"begun\n" and held.exists()
            os.killpg(process.pid, ends)
        assert process.wait(SECONDS) == (128 + ends if ends else 7)
    assert not held.exists() and held_command(("a b",), "") == "'a b'"
