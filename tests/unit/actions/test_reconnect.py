# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A connection that is lost: when it is tried again, and when never."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.login import advice
from ansible_collections.rankzero.slurm.plugins.plugin_utils.waits.reconnect import (
    ConnectionLost,
    asks_for_login,
    master_is_gone,
    retried,
)


class Line:
    """A connection that fails as often as a test says, on a clock of its own."""

    def __init__(self, *failures: str) -> None:
        self.failures = list(failures)
        self.tries = 0
        self.now = 0.0
        self.said: list[str] = []

    def command(self) -> dict[str, Any]:
        self.tries += 1
        if self.failures:
            raise AnsibleConnectionFailure(self.failures.pop(0))
        return {"rc": 0}

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def run(self, connection: Any = None) -> dict[str, Any]:
        say = lambda line, _color: self.said.append(line)  # noqa: E731
        lost = (AnsibleConnectionFailure,)
        return retried(self.command, say, 60, connection, lost=lost, clock=lambda: self.now, sleep=self.sleep)


def test_a_network_that_comes_back() -> None:
    line = Line(*["Connection timed out"] * 3)
    assert line.run() == {"rc": 0} and line.tries == 4
    assert line.said == [
        "the connection is lost (Connection timed out); the job is not affected, trying again",
        "the connection is back",
    ]


def test_a_network_that_does_not() -> None:
    line = Line(*["No route to host"] * 99)
    with pytest.raises(ConnectionLost, match=r"could not be made again within 60 s \(No route to host\)"):
        line.run()
    assert line.tries <= 8


@pytest.mark.parametrize(
    "reason",
    [
        "me@login: Permission denied (publickey,keyboard-interactive).",
        "Invalid/incorrect password: Permission denied, please try again.",
        "Received disconnect: 2: Too many authentication failures",
        "(me@login) Verification code:",
    ],
)
def test_who_asks_for_a_login_is_not_asked_twice(reason: str) -> None:
    line = Line(*[reason] * 9)
    with pytest.raises(ConnectionLost, match="the host asks for a login"):
        line.run()
    assert line.tries == 1 and line.said == []
    assert asks_for_login(reason) and not asks_for_login("Connection reset by peer")


def ssh(tmp_path: Path, master: bool, password: str | None) -> Any:
    """An SSH connection as Ansible has it, whose ssh says whether the master is there."""
    program = tmp_path / "ssh"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/args\nexit {0 if master else 255}\n')
    program.chmod(0o755)
    options = {"password": password, "host": "login1", "ssh_executable": str(program), "control_path_dir": "/cp"}
    options |= {"remote_user": "me", "port": "22022"}
    # As Ansible names it.
    return SimpleNamespace(transport="ssh", get_option=options.get, control_path="%(directory)s/master")


def test_a_typed_password_holds_as_long_as_its_master(tmp_path: Path) -> None:
    assert not master_is_gone(ssh(tmp_path, True, "secret"))
    assert (tmp_path / "args").read_text().split() == ["-O", "check", "-o", "ControlPath=/cp/master", "login1"]
    assert master_is_gone(ssh(tmp_path, False, "secret"))
    line = Line(*["Connection reset"] * 9)
    with pytest.raises(ConnectionLost, match="asks for a login"):
        line.run(ssh(tmp_path, False, "secret"))
    assert line.tries == 1
    # Keys open the door as often as one likes, and a local connection has none.
    assert not master_is_gone(ssh(tmp_path, False, None))
    assert not master_is_gone(SimpleNamespace(transport="local"))


@pytest.mark.parametrize("asked", ["keyboard-interactive", "publickey,keyboard-interactive", "password,hostbased"])
def test_a_second_factor_is_typed_once_into_a_connection_that_is_shared(tmp_path: Path, asked: str) -> None:
    told = advice(ssh(tmp_path, False, None), f"me@login1: Permission denied ({asked}).")
    assert "asks for more than a key" in told
    words = shlex.split(told.rpartition(": ")[2])
    assert words[0] == "ssh" and words[-4:] == ["-p", "22022", "me@login1", "true"]
    assert {"ControlPath=/cp/master", "ControlMaster=auto"} <= {*words}


def test_a_key_alone_is_no_second_factor(tmp_path: Path) -> None:
    assert not advice(ssh(tmp_path, False, None), "me@login1: Permission denied (publickey,gssapi-with-mic).")
    assert not advice(SimpleNamespace(transport="local"), "Permission denied (keyboard-interactive).")
