# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stranger on the nodes of a job connects to whatever listens there, and takes the ports that can be guessed."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

import pytest

from tests.cluster.attack import ATTACKER, VICTIM, AttackLab
from tests.cluster.launching import read_json

NODES = ("node01", "node02")
#: Connects to every port that the victim listens on, all the time: says nothing, nonsense, or a part of something.
STRANGER = r"""
import socket, sys, threading, time
uid = int(sys.argv[1])
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
words, held, seen = [b"", b"GET / HTTP/1.1\r\n\r\n", bytes(3), bytes(20), b"\xff" * 4096], [], set()
print("ready", flush=True)
def listening():
    with open("/proc/net/tcp") as table:
        for line in list(table)[1:]:
            columns = line.split()
            if columns[3] == "0A" and int(columns[7]) == uid and not columns[1].startswith("00000000:"):
                address, port = columns[1].split(":")
                yield socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)
while not over.is_set():
    for address, port in listening():
        for word in words * 8:
            try:
                held.append(socket.create_connection((address, port), timeout=0.2))
                held[-1].sendall(word)
            except OSError:
                continue
            if port not in seen:
                seen.add(port)
                print(f"connected {port}", flush=True)
    for connection in held[:-150]:
        connection.close()
    del held[:-150]
    time.sleep(0.005)
"""
#: Takes ports from a first one on, on every address of the node.
SQUATTER = r"""
import socket, sys
first, count = map(int, sys.argv[1:])
taken = []
for port in range(first, first + count):
    taken.append(socket.socket())
    taken[-1].bind(("", port))
    taken[-1].listen(1)
print("ready", flush=True)
sys.stdin.read()
"""


#: Answers 200 to every request, at ports from a first one on.
LOOKALIKE = r"""
import http.server, sys, threading
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_words):
        pass
first, count = map(int, sys.argv[1:])
for port in range(first, first + count):
    threading.Thread(target=http.server.HTTPServer(("", port), Page).serve_forever, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def stranger(attack_lab: AttackLab, node: str, program: str, *words: str) -> Iterator[list[str]]:
    """A program of the attacker's on a node; what it said is in the list once it has ended."""
    user = [f"--reuid={ATTACKER.uid}", f"--regid={ATTACKER.uid}", "--clear-groups"]
    command = [
        str(attack_lab.lab.dir / "bin" / "node"),
        node,
        "setpriv",
        *user,
        "/usr/bin/python3",
        "-c",
        program,
        *words,
    ]
    said: list[str] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        try:
            yield said
        finally:
            said += process.communicate(input="")[0].splitlines()


def test_a_flood_of_connections_does_not_change_what_the_preflight_measures(attack_lab: AttackLab) -> None:
    """The nodes are measured, and each has its row."""
    job = attack_lab.job(
        "echo the program ran",
        resources={"nodes": 2},
        preflight={"all_reduce": 400, "slow": "warn", "stage": "never"},
    )
    with contextlib.ExitStack() as strangers:
        said = [
            strangers.enter_context(stranger(attack_lab, node, STRANGER, str(VICTIM.uid)))
            for node in attack_lab.lab.nodes
        ]
        launch = attack_lab.launch_as(VICTIM, job)
        outcome = attack_lab.outcome_of(launch)
    table = attack_lab.as_victim(["cat", f"{launch['run_dir']}/preflight/0/table"]).stdout
    log = attack_lab.as_victim(["sh", "-c", f"cat {launch['run_dir']}/logs/job.*"]).stdout
    assert outcome["success"], log
    assert any(line.startswith("connected ") for lines in said for line in lines), "nobody reached a port"
    assert "Traceback" not in log and "no result in the exchange" not in table, log
    assert "exchange over TCP" in table and " net=0.0MB/s" not in table, table
    assert not outcome.get("unfit_nodes"), table
    assert (
        attack_lab.as_victim(["cat", f"{launch['run_dir']}/logs/0/rank-0000.log"]).stdout.count("the program ran") == 1
    )


def test_a_port_that_a_stranger_has_taken_is_not_used(attack_lab: AttackLab) -> None:
    """The number of the next job is no secret, and so neither is where the search for a port begins."""
    first = attack_lab.launch_as(VICTIM, attack_lab.job("true", name="first"))
    assert attack_lab.outcome_of(first)["success"]
    guessed = [20000 + 37 * number % 4000 for number in range(int(first["job_id"]) + 1, int(first["job_id"]) + 4)]
    listens = "python3 -c \"import os, socket; socket.create_server(('', int(os.environ['MASTER_PORT'])))\""
    with contextlib.ExitStack() as strangers:
        for node in attack_lab.lab.nodes:
            for port in guessed:
                strangers.enter_context(stranger(attack_lab, node, SQUATTER, str(port), "20"))
        launch = attack_lab.launch_as(VICTIM, attack_lab.job(listens, name="second"))
        outcome = attack_lab.outcome_of(launch)
    started = read_json(attack_lab.host_path(launch["run_dir"]) / "started.json")
    assert outcome["success"], outcome
    taken = {port for begin in guessed for port in range(begin, begin + 20)}
    assert started["master_port"] not in taken


# Whose port it is, is asked of both in the same way.
@pytest.mark.parametrize("ready", [{"http": "/health"}, pytest.param({"port": True}, marks=pytest.mark.more)], ids=str)
def test_a_stranger_who_answers_in_the_place_of_a_role_opens_no_gate(
    attack_lab: AttackLab, ready: dict[str, object]
) -> None:
    """The server takes its time to load, and its port can be guessed."""
    first = attack_lab.launch_as(VICTIM, attack_lab.job("true", name="first"))
    assert attack_lab.outcome_of(first)["success"]
    roles = {
        "server": {
            "command": ["sh", "-c", "exec sleep 600", "{port}"],
            "nodes": 1,
            "ready": {**ready, "within": "00:02:00"},
        },
        "client": {"command": ["touch", "asked"], "nodes": 1, "after_ready": ["server"]},
    }
    job = attack_lab.job([], artifact={"path": "asked", "role": "client"}, roles=roles)
    del job["command"]
    # Where the search for ports in a row begins for one of the next jobs; the client's port comes first.
    guessed = 20000 + (37 * (int(first["job_id"]) + 1) + 9) % 4000
    with contextlib.ExitStack() as strangers:
        for node in attack_lab.lab.nodes[1:]:
            strangers.enter_context(stranger(attack_lab, node, LOOKALIKE, str(guessed - 1), "90"))
        launch = attack_lab.launch_as(VICTIM, job)
        outcome = attack_lab.outcome_of(launch)
    started = read_json(attack_lab.host_path(launch["run_dir"]) / "started.json")
    (place,) = [role["hosts"][0] for role in started["roles"] if role["name"] == "server"]
    assert guessed - 1 <= int(place.rpartition(":")[2]) < guessed + 89, "the stranger has guessed wrong"
    assert not outcome["success"] and f"another user (uid {ATTACKER.uid})" in outcome["message"], outcome
    assert not (attack_lab.host_path(launch["run_dir"]) / "work" / "asked").exists(), "the client was started"
