# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bandwidth between neighbours, measured by real processes over the loop-back: by TCP, and by torch where it is."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.runtime.harness import runtime_parts
from tests.unit.runtime.test_preflight import PROGRAM


def plan_of(folder: Path, nodes: list[str], torch: bool) -> None:
    plan = {
        "nodes": nodes,
        "interface": "lo",
        "addresses": {name: f"127.0.0.{place + 1}" for place, name in enumerate(nodes)},
        "torch": torch,
        "seconds": 20,
    }
    (folder / "exchange.json").write_text(json.dumps(plan))


def node(folder: Path, nodes: list[str], place: int, budget: int = 60) -> subprocess.Popen[str]:
    """The program on one node, with an exchange of 1 MB."""
    words = ["exchange", str(folder), ",".join(nodes), "--budget", str(budget), "--megabytes", "1"]
    return subprocess.Popen(
        [sys.executable, "-B", PROGRAM, *words],
        env={**os.environ, "SLURM_NODEID": str(place), "SLURM_JOB_ID": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(folder: Path, nodes: list[str], running: list[subprocess.Popen[str]]) -> dict[str, dict[str, float]]:
    """{node: {neighbour: MB/s}} once all have ended."""
    said = [process.communicate(timeout=120)[0] for process in running]
    assert [process.returncode for process in running] == [0] * len(running), said
    return {name: json.loads((folder / f"{name}.exchange.json").read_text())["pairs"] for name in nodes[: len(running)]}


def exchanged(folder: Path, nodes: list[str], torch: bool, present: int | None = None) -> dict[str, dict[str, float]]:
    """{node: {neighbour: MB/s}} of an exchange; only the first `present` nodes take part."""
    plan_of(folder, nodes, torch)
    budget = 60 if present is None else 5
    running = [node(folder, nodes, place, budget) for place in range(len(nodes))[:present]]
    return ended(folder, nodes, running)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_every_pair_is_measured_from_both_ends(tmp_path: Path, count: int) -> None:
    nodes = [f"n{number}" for number in range(count)]
    found = exchanged(tmp_path, nodes, torch=False)
    for place, name in enumerate(nodes):
        assert set(found[name]) == {nodes[place - 1], nodes[(place + 1) % count]}
        assert all(speed > 0 for speed in found[name].values())


def test_a_neighbour_that_never_comes_costs_no_more_than_the_budget(tmp_path: Path) -> None:
    found = exchanged(tmp_path, ["n0", "n1", "n2"], torch=False, present=2)
    assert found["n0"].pop("n1") > 0 and found["n1"].pop("n0") > 0
    assert found == {"n0": {"n2": 0.0}, "n1": {"n2": 0.0}}


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="this Python has no torch, which the job brings")
def test_torch_reduces_between_neighbours(tmp_path: Path) -> None:
    found = exchanged(tmp_path, ["n0", "n1", "n2"], torch=True)
    assert all(len(pairs) == 2 and min(pairs.values()) > 0 for pairs in found.values())


def test_strangers_neither_hold_the_exchange_up_nor_take_part(tmp_path: Path) -> None:
    """Many connect before the neighbour does: some say nothing, some a part, some that they are the neighbour."""
    nodes = ["n0", "n1"]
    plan_of(tmp_path, nodes, torch=False)
    running = [node(tmp_path, nodes, 0)]
    path, deadline = tmp_path / "ports" / "0" / "n0.port", time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline and running[0].poll() is None
        time.sleep(0.02)
    assert path.stat().st_mode & 0o077 == 0, "others can read the word by which a neighbour proves itself"
    document = json.loads(path.read_text())
    port = document[0] if isinstance(document, list) else document
    neighbour = (1).to_bytes(4, "big")
    with contextlib.ExitStack() as open_connections:
        for said in (b"", b"GET / HTTP/1.1\r\n\r\n", neighbour, neighbour[:2], neighbour + bytes(16)) * 60:
            stranger = open_connections.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            with contextlib.suppress(OSError):  # who said something wrong may have been hung up on
                stranger.sendall(said)
        running.append(node(tmp_path, nodes, 1))
        found = ended(tmp_path, nodes, running)
    assert found["n0"]["n1"] > 0 and found["n1"]["n0"] > 0


#: Connects to a port all the time, and says nothing, nonsense, or a part of a word.
FLOOD = """
import socket, sys
held, words = [], [b"", b"x" * 4096, bytes(3), bytes(20)]
print("ready", flush=True)
while True:
    for word in words * 16:
        try:
            held.append(socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=0.2))
            held[-1].sendall(word)
        except OSError:
            pass
    for connection in held[:-200]:
        connection.close()
    del held[:-200]
"""


def test_a_flood_of_strangers_leaves_the_neighbours_their_measurement(tmp_path: Path) -> None:
    """It goes on while the neighbour calls: what is in the queue before it is hung up on, or it calls again."""
    nodes = ["n0", "n1"]
    plan_of(tmp_path, nodes, torch=False)
    running = [node(tmp_path, nodes, 0)]
    path, deadline = tmp_path / "ports" / "0" / "n0.port", time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline and running[0].poll() is None
        time.sleep(0.02)
    port = json.loads(path.read_text())[0]
    floods = [
        subprocess.Popen([sys.executable, "-c", FLOOD, "127.0.0.1", str(port)], stdout=subprocess.PIPE, text=True)
        for _number in range(3)
    ]
    try:
        for flood in floods:
            assert flood.stdout is not None and flood.stdout.readline() == "ready\n"
        running.append(node(tmp_path, nodes, 1))
        found = ended(tmp_path, nodes, running)
    finally:
        for flood in floods:
            flood.kill()
            flood.communicate()
    assert found["n0"]["n1"] > 0 and found["n1"]["n0"] > 0


def test_a_neighbour_that_is_hung_up_on_calls_again(tmp_path: Path) -> None:
    """A node that many strangers call hangs up on the oldest caller, and that may be its neighbour."""
    nodes = ["n0", "n1"]
    plan_of(tmp_path, nodes, torch=False)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with runtime_parts("preflight.exchange") as exchange:
            port = [listener.getsockname()[1], "00" * exchange.WORD_BYTES]
            exchange.publish(exchange.port_file(str(tmp_path), {"nodes": nodes}, 0), port, mode=0o600)
        caller = node(tmp_path, nodes, 1, budget=20)
        listener.settimeout(60)
        for _again in range(3):
            listener.accept()[0].close()
        connection, _address = listener.accept()
        with connection:
            connection.settimeout(60)
            assert connection.recv(4) == (1).to_bytes(4, "big")
        listener.close()
        assert caller.communicate(timeout=60)[0] and caller.returncode == 0
