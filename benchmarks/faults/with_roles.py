# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A case with roles: servers with a gate, and the usual program, which decides and asks them all before its proof."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

from benchmarks.faults.ground import Case

#: The decider, and the other role.
DECIDES, SERVES = "decides", "serves"
#: What is said of the servers, by the way of a launch.
WAYS: dict[str, dict[str, Any]] = {
    "restart": {"on_exit": "restart"},
    "fail": {"on_exit": "fail"},
    "share": {"on_exit": "restart", "share": True},
}
#: Answers each request, and says twice a second that it lives: LEDGER/serve.JOB.ATTEMPT.RANK.PID.
_SERVER = """
import os, socket, sys
names = "SLURM_JOB_ID", "RANKZERO_ATTEMPT", "RANK"
mark = ".".join([sys.argv[1] + "/serve", *(os.environ[name] for name in names), str(os.getpid())])
listener = socket.create_server(("", int(sys.argv[2])))
listener.settimeout(0.5)
while True:
    try:
        open(mark, "w").close()
    except OSError:
        pass
    try:
        connection = listener.accept()[0]
        connection.settimeout(1)
        connection.recv(4096)
        connection.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\n")
        connection.close()
    except OSError:
        pass
"""
#: Put before the proof of a program in bash whose first argument has the servers: each must answer within 30 s.
ASK = (
    "for at in ${1//,/ }; do tries=0; until (exec 8<> /dev/tcp/${at/:/\\/}) 2> /dev/null; do "
    "((tries++ < 30)) || exit 3; sleep 1; done; done"
)


class Divided(Case):
    """One case of two roles. `spec` has `way` (one of WAYS), and in `servers` how many."""

    def _job(self, job: dict[str, Any]) -> dict[str, Any]:
        way, servers = job.pop("way"), job.pop("servers")
        resources, ledger = job["resources"], f"{self.ground.inside}/ran/{self.name}"
        nodes = resources.pop("nodes", 1)
        decides = {
            "command": [*job.pop("command"), DECIDES, f"{{{SERVES}.hosts}}"],
            "nodes": nodes, "after_ready": [SERVES],
        }  # fmt: skip
        serves = {
            "command": ["/usr/bin/python3", "-c", _SERVER, ledger, "{port}"],
            "nodes": min(servers, nodes) if way == "share" else servers,
            "ready": {"http": "/", "within": "00:01:00"},
            **WAYS[way],
        }
        return {**job, "roles": {SERVES: serves, DECIDES: decides}, "artifact": {**job["artifact"], "role": DECIDES}}


def kill_server(job: str) -> bool:
    """Kill a server of a job with SIGKILL, wherever in the lab it runs. False if there is none."""
    for pid, _env in processes({"SLURM_JOB_ID": job, "RANKZERO_ROLE": SERVES}):
        # What starts a server has its environment, too.
        with contextlib.suppress(OSError):
            if Path("/proc", pid, "cmdline").read_bytes().startswith(b"/usr/bin/python3\0-c\0"):
                os.kill(int(pid), signal.SIGKILL)
                return True
    return False


def processes(wanted: dict[str, str]) -> list[tuple[str, dict[str, str]]]:
    """(pid, environment) of all processes of this machine, labs included, with these variables."""
    found = []
    for folder in os.scandir("/proc"):
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                text = Path(folder.path, "environ").read_bytes().decode("utf-8", "replace")
                env = dict(row.partition("=")[::2] for row in text.split("\0") if "=" in row)
                if all(env.get(name) == value for name, value in wanted.items()):
                    found.append((folder.name, env))
    return found
