# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The client side of the lab's agents: send requests, wait for services, run commands inside their namespaces."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import MOST_BYTES, last_text
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import agents
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.machine import processes
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.slurmconf import Host

Condition = Callable[[], bool]


class AgentGone(RankzeroError):
    """No process listens on an agent's socket."""


class Agent:
    """One agent, reached through its socket. Every call opens its own connection; no state is kept between calls."""

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self._path = path

    def request(self, timeout: float = 30.0, **request: object) -> JsonObject:
        """Send a request and return the answer. Raises AgentGone if there is no agent, RankzeroError if it refuses."""
        with self._connect(timeout) as connection, connection.makefile("rw", encoding="utf-8") as stream:
            try:
                stream.write(json.dumps(request) + "\n")
                stream.flush()
                line = stream.readline(MOST_BYTES)
            except OSError as error:
                raise AgentGone(f"the lab's agent {self.name!r} did not answer: {error}") from error
        if not line:
            raise AgentGone(f"the lab's agent {self.name!r} ended while it was asked")
        answer: JsonObject = json.loads(line)
        if "error" in answer:
            raise RankzeroError(f"the lab's agent {self.name!r} refused {request}: {answer['error']}")
        return answer

    def _connect(self, timeout: float) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(timeout)
        try:
            connection.connect(self._path)
        except OSError as error:
            connection.close()
            raise AgentGone(f"the lab's agent {self.name!r} is not running: {error}") from error
        return connection

    def identity(self) -> processes.Identity:
        """The agent's process as seen by this process. Raises AgentGone if there is none."""
        with self._connect(2.0) as connection:
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        who = processes.identity(struct.unpack("3i", credentials)[0])
        if who is None:
            raise AgentGone(f"the lab's agent {self.name!r} is not running")
        return who

    def services(self) -> dict[str, dict[str, int | None]]:
        """Service name -> {"pid", "exit"}. The pids are those of the agent's pid namespace."""
        services: dict[str, dict[str, int | None]] = self.request(op="status")["services"]
        return services

    def start(self, service: str) -> None:
        """Start a service of the agent's configuration. Raises RankzeroError with the agent's error."""
        self.request(op="start", service=service)

    def signal(self, service: str, number: int) -> None:
        """Send a signal to a service's process."""
        self.request(op="signal", service=service, signal=number)

    def running(self, service: str) -> bool:
        """Whether the service has a process."""
        return self.services()[service]["pid"] is not None

    def end(self, service: str, number: int, timeout: float) -> bool:
        """Signal a service and wait up to `timeout` seconds; True once it has no process (or never had one)."""
        self.signal(service, number)
        return until(lambda: not self.running(service), timeout)


def agent(host: Host, name: str) -> Agent:
    """The agent of this name. It is not contacted yet."""
    return Agent(name, agents.socket_path(host, name))


def until(condition: Condition, timeout: float, step: float = 0.01) -> bool:
    """Poll `condition` until it holds (True) or `timeout` seconds have passed (False)."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(step)
    return True


def run(argv: Sequence[str], stdin: str = "", timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
    """Run a program of the host with a small clean environment and text streams. No exit code raises an error."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
    try:
        # pylint: disable-next=ansible-bad-function
        return subprocess.run(
            list(argv),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=environment,
            cwd="/",
            check=False,
        )
    except FileNotFoundError as error:
        raise RankzeroError(
            f"{argv[0]} is not on this host; install the packages that role lab_cluster names"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise RankzeroError(f"{' '.join(argv)} did not end within {timeout:.0f} s") from error


def must(argv: Sequence[str], stdin: str = "") -> str:
    """Like `run`, but a nonzero exit code raises RankzeroError with the end of the command's output."""
    done = run(argv, stdin)
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise RankzeroError(f"{' '.join(argv)} failed with exit code {done.returncode}: {words}")
    return done.stdout


def ports(pid: int) -> set[int]:
    """TCP ports with a listener in the network namespace of `pid`, over IPv4 or IPv6."""
    ports: set[int] = set()
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/net/{name}", encoding="ascii") as stream:
            ports |= processes.listening_ports(stream.read())
    return ports


def enter(lab: Lab, where: str) -> list[str]:
    """The argv prefix that runs a command on the head or on a node, with a clean environment."""
    return [lab.path("bin", "head")] if where == "head" else [lab.path("bin", "node"), where]


def log_tail(lab: Lab, where: str, count: int = 12) -> str:
    """The last lines of every log of one host of the lab, for an error message."""
    parts = []
    for directory in (lab.path("log", where), lab.path("log", "munge", where)):
        for entry in sorted(os.listdir(directory)) if os.path.isdir(directory) else []:
            path = f"{directory}/{entry}"
            if os.path.isfile(path) and os.path.getsize(path):
                parts.append(f"--- {path}\n{''.join(last_text(path).splitlines(keepends=True)[-count:])}")
    return "\n".join(parts)


def wait_for_service(lab: Lab, agent: Agent, service: str, where: str, ready: Condition) -> None:
    """Wait until `ready` holds. If the daemon ends first, raise an error at once with the last lines of its logs."""
    state = {"lost": False}

    def done() -> bool:
        if ready():
            return True
        state["lost"] = not agent.running(service)
        return state["lost"]

    if not until(done, 60.0) or state["lost"]:
        how = "ended while it started" if state["lost"] else "was not ready after 60 s"
        raise RankzeroError(f"lab {lab.name}: {service} on {where} {how}\n{log_tail(lab, where)}")


def start_with_socket(lab: Lab, agent: Agent, service: str, where: str, path: str) -> None:
    """Start a daemon and wait for its unix socket. A socket left by a killed daemon is removed first."""
    if not agent.running(service):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        agent.start(service)
    wait_for_service(lab, agent, service, where, lambda: os.path.exists(path))
