# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts of ansible-playbook without its imports, which take half of a short playbook's time.

The tests start it hundreds of times. A process that has imported ansible-core (warm_server.py) forks into each of them.
Nothing of the collection is imported before: each playbook finds and loads it as ever. The imports may depend on the
environment: each has a process of its own, from the second start with it on. Beside an ansible.cfg, and with
RANKZERO_TEST_COLD=1, the program itself is started. So it is where the tests use a terminal, `make`, molecule or the
examples.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tests.repository import BIN, ROOT

#: Variables (how their names begin) that no import of ansible-core reads, but only what a playbook starts or loads.
READ_LATER = ("RANKZERO_", "PYTEST_CURRENT_TEST", "PATH", "XDG_CACHE_HOME", "HF_", "PIP_", "UV_")
#: With this variable, the program itself is started.
COLD = "RANKZERO_TEST_COLD"
PROGRAM = str(BIN / "ansible-playbook")
#: A server takes 60 MB, and as long as two starts.
MOST_SERVERS = 4
Settings = tuple[tuple[str, str], ...]


class WarmPlaybook:
    """A playbook in a session of its own, with what the tests use of subprocess.Popen."""

    def __init__(self, server: socket.socket, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        self.args = list(argv)
        self.returncode: int | None = None
        reading, writing = os.pipe()
        ours, theirs = socket.socketpair()
        request = json.dumps({"argv": self.args, "cwd": str(cwd), "env": dict(env)}).encode()
        with theirs:
            socket.send_fds(server, [request], [writing, theirs.fileno()])
        os.close(writing)
        self.stdout: IO[str] = os.fdopen(reading, encoding="utf-8", errors="replace")
        self._status = ours.makefile("r", encoding="ascii")
        ours.close()
        pid = self._status.readline()
        assert pid, "the process that forks into playbooks has ended (tests/warm_server.py)"
        self.pid = int(pid)
        self._ended = threading.Event()
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        with self._status:
            self.returncode = int(self._status.readline() or -1)
        self._ended.set()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        assert self.returncode is not None
        return self.returncode


def start(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> WarmPlaybook | subprocess.Popen[str]:
    """ansible-playbook, with its output as text in `stdout`. A process group of its own, so that a signal reaches all
    of it and nothing else, as Ctrl-C in a terminal.
    """
    if argv[0] == PROGRAM and COLD not in env and not (Path(cwd) / "ansible.cfg").exists():
        server = _server_with(_settings(env))
        if server:
            return WarmPlaybook(server, argv, cwd, env)
    return subprocess.Popen(
        argv,
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def run(argv: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float = 1200) -> tuple[int, str]:
    """`start`, and wait for its end: the exit code, and all that it printed."""
    process = start(argv, cwd, env)
    assert process.stdout
    with process.stdout:
        output = process.stdout.read()
    return process.wait(timeout), output


def lives(pid: int | str) -> bool:
    """Whether a process lives. One that nobody waits for may stay as a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _settings(env: Mapping[str, str]) -> Settings:
    """The environment as far as an import may depend on it."""
    return tuple(sorted((name, value) for name, value in env.items() if not name.startswith(READ_LATER)))


#: What most playbooks of this process are started with.
OWN = _settings(os.environ)
_seen: set[Settings] = set()
_servers: dict[Settings, socket.socket] = {}
#: Several threads may start playbooks. A server ends with its socket, so that none may be made twice.
_lock = threading.Lock()


def _server_with(settings: Settings) -> socket.socket | None:
    """A server with this environment; None where it is asked for the first time, or where there are too many."""
    with _lock:
        again = settings in _seen or settings == OWN
        _seen.add(settings)
        if again and settings not in _servers and len(_servers) < MOST_SERVERS:
            _servers[settings] = _server(settings)
        return _servers.get(settings)


def _server(settings: Settings) -> socket.socket:
    """The server that imports ansible-core in this environment. It ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # The request must come whole: one packet, and room for a large environment.
    with contextlib.suppress(OSError):
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    with theirs:
        subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "warm_server.py"), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            cwd="/",
            env=dict(settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
    return ours
