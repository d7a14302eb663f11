# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How ssh reaches a session: the words of each side, and what cannot serve."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan import door
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.shell import session
from ansible_collections.rankzero.slurm.plugins.module_utils.submit import door as made_door
from tests.unit.plan.test_inside_job import planned


def test_a_session_serves_by_two_words_more() -> None:
    made = planned(resources={"nodes": 1, "gpus_per_node": 2})
    shell, served = session(made).shell, session(made, serves=("code", "rankzero-gpt-login")).shell
    assert served == (*shell, "code", "rankzero-gpt-login")
    connect = door.files_of(made, "ssh-ed25519 KEY")[door.CONNECT]
    # What a rank has, the step of a connection has, too; the terminal is sshd's own.
    kept = [word for word in shell if word.startswith("--") and word != "--pty"]
    assert kept and all(word in connect for word in kept) and "--pty" not in connect and "--unbuffered" in connect


def test_the_words_that_lead_to_the_login_node_arrive_as_they_are() -> None:
    login = ["ssh", "-o", "ControlPath=/a b/%C", "login.example.org", "exec /bin/sh '/x y/door/connect'"]
    block = door.host_block("rankzero-gpt-login", "ada", login, "/home/ada/.ssh/rankzero")
    (proxy,) = [line for line in block.splitlines() if "ProxyCommand" in line]
    assert shlex.split(proxy.partition("ProxyCommand ")[2].replace("%%", "%")) == login
    assert "StrictHostKeyChecking yes" in block and '"/home/ada/.ssh/rankzero/rankzero-gpt-login.key"' in block
    assert door.host_of("gpt", "login 1:22") == "rankzero-gpt-login-1-22"


def test_pyxis_cannot_serve() -> None:
    inside = {"image": "docker://debian:12", "runtime": "pyxis"}
    assert "container.runtime pyxis" in door.refused(planned(container=inside))
    for fine in ({}, {"container": {"image": "/images/debian.sif", "runtime": "apptainer"}}):
        assert door.refused(planned(**fine)) == ""


def test_only_its_user_enters_the_folder_and_the_host_key_stays(tmp_path: Path) -> None:
    folder = str(tmp_path / "door")
    before = os.umask(0)
    try:
        first = made_door.make(folder, {"connect": "exit 1\n"})
    finally:
        os.umask(before)
    assert os.stat(folder).st_mode & 0o777 == 0o700
    assert os.stat(f"{folder}/{made_door.HOST_KEY}").st_mode & 0o777 == 0o600
    assert made_door.make(folder, {"connect": "exit 2\n"}) == first and first["host_key"].startswith("ssh-ed25519 ")
    assert (tmp_path / "door" / "connect").read_text(encoding="utf-8") == "exit 2\n"
    with pytest.raises(RankzeroError, match="serve: cannot write"):
        made_door.make(f"{folder}/connect/below", {})


def test_nothing_is_reached_where_no_session_is_open(tmp_path: Path) -> None:
    made = planned()
    connect = tmp_path / "connect"
    connect.write_text(door.files_of(made, "KEY")[door.CONNECT], encoding="utf-8")
    done = subprocess.run(["/bin/sh", connect], capture_output=True, text=True, check=False)
    assert done.returncode == 69 and f"no session of {made.name} is open" in done.stderr
