# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose processes listen at the ports of a role."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.repository import ROOT
from tests.unit.runtime.harness import runtime_parts

PROGRAM = ROOT / "plugins" / "runtime" / "start" / "ports.py"
#: A listener of uid 260012 at port 20009, one of root at 20010, and a connection of uid 260012 at 20011.
TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0B00010A:4E29 00000000:0000 0A 00000000:00000000 00:00000000 00000000 260012        0 1592 1 0 100 0 0 10 0
   1: 00000000:4E2A 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1593 1 0 100 0 0 10 0
   2: 0B00010A:4E2B 0C00010A:8000 01 00000000:00000000 02:0000034F 00000000 260012        0 1594 2 0 20 4 30 10 -1
"""


@pytest.fixture(scope="module")
def listeners() -> Iterator[ModuleType]:
    with runtime_parts("start.ports") as loaded:
        yield loaded


def test_the_owners_of_what_listens(listeners: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tcp").write_text(TABLE, encoding="ascii")
    with monkeypatch.context() as changed:
        changed.setattr(listeners, "TABLES", (str(tmp_path / "tcp"), str(tmp_path / "none")))
        assert listeners.listeners() == {20009: {260012}, 20010: {0}}
        assert listeners.used() == {20009, 20010, 20011}
    with (
        socket.create_server(("127.0.0.1", 0)) as four,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as six,
    ):
        now = listeners.listeners()
        assert [now[one.getsockname()[1]] for one in (four, six)] == [{os.getuid()}] * 2


@pytest.mark.parametrize(
    ("listening", "code", "what"),
    [
        ({7: {1000}, 8: {0}}, 0, ""),
        ({7: {1000}}, 3, "nothing listens at port 8"),
        ({7: {1000, 260012}, 8: {1000}}, 4, "port 7 is in the hands of another user (uid 260012)"),
        ({7: {260012}}, 4, "port 7 is in the hands of another user (uid 260012)"),
    ],
)
def test_the_jobs_user_and_root_are_good(
    listeners: ModuleType, listening: dict[int, set[int]], code: int, what: str
) -> None:
    judged, said = listeners.judge([7, 8], 1000, listening)
    assert judged == code and said.startswith(what) and bool(said) == bool(what)


def test_a_node_looks_at_its_own_ports_only() -> None:
    with socket.create_server(("127.0.0.1", 0)) as own:
        places = [f"node-1:{own.getsockname()[1]}", "node-2:1"]
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(PROGRAM), *places],
            env={**os.environ, "SLURMD_NODENAME": "node-1"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done
