# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that waits until the processes of a role are ready."""

from __future__ import annotations

import http.server
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repository import ROOT

PROGRAM = ROOT / "plugins" / "runtime" / "rank" / "ready.py"


class Page(http.server.BaseHTTPRequestHandler):
    """Answers with 200 once the server is told to."""

    def do_GET(self) -> None:
        self.send_response(200 if self.server.up and self.path == "/health" else 503)  # type: ignore[attr-defined]
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[http.server.HTTPServer]:
    made = http.server.HTTPServer(("127.0.0.1", 0), Page)
    made.up = False  # type: ignore[attr-defined]
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def start(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-I", "-S", str(PROGRAM), str(folder / "waits"), *words])


def waits(folder: Path, process: subprocess.Popen[bytes]) -> str:
    """What it says that it waits for, once it says so."""
    while not (folder / "waits").exists():
        assert process.poll() is None
    return (folder / "waits").read_text(encoding="utf-8")


def test_a_page_of_every_process_has_to_answer_well(tmp_path: Path, server: http.server.HTTPServer) -> None:
    target = f"127.0.0.1:{server.server_port}"
    process = start(tmp_path, "http", "/health", target, f"localhost:{server.server_port}")
    said = waits(tmp_path, process)
    assert "2 not ready" in said and f"{target}/health" in said and "503" in said
    server.up = True  # type: ignore[attr-defined]
    assert process.wait(30) == 0


def test_a_port_has_to_be_open(tmp_path: Path) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        process = start(tmp_path, "port", "", f"127.0.0.1:{listening.getsockname()[1]}")
        assert "refused" in waits(tmp_path, process)
        listening.listen()
        assert process.wait(30) == 0


def test_a_file_has_to_be_there(tmp_path: Path) -> None:
    process = start(tmp_path, "file", "", str(tmp_path / "there"))
    assert "it is not there" in waits(tmp_path, process)
    (tmp_path / "there").touch()
    assert process.wait(30) == 0


def test_a_line_of_every_log_has_to_match(tmp_path: Path) -> None:
    logs = [tmp_path / "rank-0002.log", tmp_path / "rank-0003.log"]
    logs[0].write_text("begins\nlistens on 7\nmore\n")
    # The first process has started again: what it wrote before counts no more.
    earlier = logs[0].stat().st_size
    process = start(tmp_path, "line", "^listens on [0-9]+$", f"{earlier}:{logs[0]}", f"0:{logs[1]}")
    assert f"2 not ready; {logs[0]}" in waits(tmp_path, process)
    with logs[0].open("a") as stream:
        stream.write("listens on 7\n")
    logs[1].write_text("begins\nlistens")
    with logs[1].open("a") as stream:
        stream.write(" on 8\n")
    assert process.wait(30) == 0
