# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's init as an ordinary process: no namespace, no root."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import agent, control
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.machine import processes

START = (
    "import sys\n"
    "from ansible_collections.rankzero.slurm.plugins.module_utils.lab import agent\n"
    "sys.exit(agent.main(sys.argv[1:]))\n"
)
ORPHAN = "(sleep 1000 & echo $! > {place}/orphan)"  # its parent ends at once


def service(place: Path, *argv: str, start: bool = False, user: str = "") -> dict[str, object]:
    return {"argv": list(argv), "user": user, "env": {"A": "1"}, "log": f"{place}/log", "start": start}


@pytest.fixture
def place() -> Iterator[Path]:
    """A short path: a socket lies in it."""
    with tempfile.TemporaryDirectory(prefix="rz-", dir="/tmp") as directory:
        yield Path(directory)


@pytest.fixture
def running(place: Path) -> Iterator[tuple[control.Agent, subprocess.Popen[str]]]:
    config = {
        "name": "tested",
        "socket": f"{place}/socket",
        "subreaper": True,
        "setup": [["mkdir", f"{place}/made", 0o700], ["write", f"{place}/made/file", "text\n"]],
        "services": {
            "sleeper": service(place, "/bin/sleep", "1000", start=True),
            "ender": service(place, "/bin/sh", "-c", "echo $A; exit 3"),
            "missing": service(place, "/no/such/program"),
            "orphaner": service(place, "/bin/sh", "-c", ORPHAN.format(place=place)),
        },
    }
    (place / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, "-c", START, str(place / "config.json")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    ) as process:
        try:
            client = control.Agent("tested", f"{place}/socket")
            assert control.until(lambda: (place / "socket").exists() and process.poll() is None, 20)
            client.services()
            yield client, process
        finally:
            process.terminate()
            process.wait(timeout=20)


Running = tuple[control.Agent, subprocess.Popen[str]]


def test_it_furnishes_before_it_answers(running: Running, place: Path) -> None:
    assert (place / "made" / "file").read_text(encoding="utf-8") == "text\n"
    assert (place / "made").stat().st_mode & 0o777 == 0o700


def test_its_identity_is_its_process(running: Running) -> None:
    client, process = running
    assert client.identity() == processes.identity(process.pid)


def test_services_start_end_and_stay_ended(running: Running, place: Path) -> None:
    client, _ = running
    assert client.running("sleeper")
    assert client.services()["ender"] == {"pid": None, "exit": None}
    client.start("ender")
    assert control.until(lambda: client.services()["ender"] == {"pid": None, "exit": 3}, 20)
    assert (place / "log").read_text(encoding="utf-8") == "1\n"
    assert client.end("sleeper", signal.SIGKILL, 20)
    assert client.services()["sleeper"]["exit"] == -signal.SIGKILL
    assert client.end("sleeper", signal.SIGTERM, 20), "ending what does not run is nothing"


def test_starting_what_runs_changes_nothing(running: Running) -> None:
    client, _ = running
    pid = client.services()["sleeper"]["pid"]
    client.start("sleeper")
    assert client.services()["sleeper"]["pid"] == pid


def test_a_program_that_is_not_there_says_so_in_the_log(running: Running, place: Path) -> None:
    client, _ = running
    client.start("missing")
    assert control.until(lambda: client.services()["missing"]["exit"] == 127, 20)
    assert "cannot start /no/such/program" in (place / "log").read_text(encoding="utf-8")


def test_orphans_become_its_children_and_leave_with_it(running: Running, place: Path) -> None:
    client, process = running
    client.start("orphaner")
    assert control.until(lambda: client.services()["orphaner"]["exit"] == 0, 20)
    orphan = processes.identity(int((place / "orphan").read_text(encoding="utf-8")))
    assert orphan is not None
    assert orphan.pid in agent.descendants(process.pid)
    process.terminate()
    assert process.wait(timeout=20) == 0
    assert not orphan.alive()


@pytest.mark.parametrize(
    "request_", [{"op": "fly", "service": "sleeper"}, {"op": "start", "service": "nobody"}, {"no": "op"}]
)
def test_a_bad_request_is_refused(running: Running, request_: dict[str, str]) -> None:
    client, _ = running
    with pytest.raises(RankzeroError, match="refused"):
        client.request(**request_)
    assert client.running("sleeper")


def test_a_client_that_says_nothing_does_no_harm(running: Running) -> None:
    client, _ = running
    client.identity()  # connects and leaves without a word
    assert client.running("sleeper")


def test_nobody_there(place: Path) -> None:
    with pytest.raises(control.AgentGone, match="'tested' is not running"):
        control.Agent("tested", f"{place}/socket").services()


def test_a_set_up_that_fails_ends_with_a_reason(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {"name": "n", "socket": f"{place}/s", "setup": [["bind", "/no/such", f"{place}/x/y"]], "services": {}}
    (place / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert agent.main([str(place / "config.json")]) == 1
    assert "n: set-up failed" in capsys.readouterr().err
