# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ports on which the ranks' servers may listen: MASTER_PORT, and others for a second service. Standard library only.

    ports.py NODE:PORT ...   whether the job's user listens at those of this node; see main

They lie above those of Ray's workers (10002 to 19999) and below those that a kernel gives to connections (from 32768,
or from 24000 where a site follows the preflight's advice), so that neither is in their way later.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

FIRST, COUNT = 20000, 4000
#: Where a kernel gives the others to connections. Neither Ray nor Slurm has one of its own here.
INSTEAD = (7000, 1000)
#: Those of a launch: MASTER_PORT and RANKZERO_PORTS.
OWN = 9
RANGE = "/proc/sys/net/ipv4/ip_local_port_range"
TABLES, LISTENS = ("/proc/net/tcp", "/proc/net/tcp6"), "0A"
#: Exit codes: at a port nobody listens, or another user.
NOBODY, ANOTHER = 3, 4
#: For a listener that was there a moment ago, in seconds.
PATIENCE, EVERY = 5.0, 0.5


def _rows() -> Iterator[tuple[int, str, int]]:
    """(local port, state, user id) of each connection and listener of this node; proc(5)."""
    for path in TABLES:
        with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as stream:
            for line in stream:
                match = re.match(r" *\d+: [0-9A-F]*:([0-9A-F]+) \S+ ([0-9A-F]+) (?:\S+ +){3}(\d+) ", line)
                if match:
                    yield int(match[1], 16), match[2], int(match[3])


def used() -> set[int]:
    """Those that somebody has on this node."""
    return {port for port, _state, _user in _rows()}


def listeners() -> dict[int, set[int]]:
    """{port: the user ids of those that listen there} on this node."""
    users: dict[int, set[int]] = {}
    for port, state, user in _rows():
        if state == LISTENS:
            users.setdefault(port, set()).add(user)
    return users


def of_connections() -> range:
    """Those that the kernel gives to connections; empty where it does not say."""
    with contextlib.suppress(OSError, ValueError), open(RANGE, encoding="ascii") as stream:
        low, high = map(int, stream.read().split())
        return range(low, high + 1)
    return range(0)


def _start(job: str) -> int:
    """Where a job looks first: tasks of one array, or steps of one job, may meet on a node at the same moment."""
    first, *more = (int(part) for part in re.findall(r"\d+", job))
    return first * 37 + sum(more) * 101


def free(job: str) -> list[int]:
    """Ports for a job, a task (JOB_TASK) or a step (JOB.STEP) with this node as its first one: the starting point of
    its own, then what nobody uses here. Fewer than OWN where there are no more.
    """
    start = _start(job)
    taken, given = used(), of_connections()
    most: list[int] = []
    for first, count in ((FIRST, COUNT), INSTEAD, (FIRST, COUNT)):
        places = (first + (start + step) % count for step in range(count))
        ports = [port for port in places if port not in taken and port not in given][:OWN]
        most = max(most, ports, key=len)
        if len(most) == OWN:
            break
        # No port lies outside, or nearly none: then one of those has to do.
        given = given if first == FIRST else range(0)
    return most


def row(job: str, count: int) -> int:
    """The first of so many ports in a row that nobody uses on this node, above those that `free` names; 0 if there are
    none.
    """
    start = _start(job)
    taken, given = used() | set(free(job)), of_connections()
    for banned in (given, range(0)):
        begun, length = 0, 0
        for step in range(COUNT + count):
            port = FIRST + (start + OWN + step) % COUNT
            if port in taken or port in banned or port == FIRST:
                length = 0
                continue
            begun, length = (port, 1) if not length else (begun, length + 1)
            if length == count:
                return begun
    return 0


def judge(ports: Sequence[int], user: int, listening: Mapping[int, set[int]]) -> tuple[int, str]:
    """(exit code, what is wrong) of the ports of a role on its node: root may listen there for a user."""
    for port in ports:
        others = sorted(listening.get(port, set()) - {user, 0})
        if others:
            return ANOTHER, f"port {port} is in the hands of another user (uid {others[0]}), not of this job"
    silent = [port for port in ports if port not in listening]
    return (NOBODY, f"nothing listens at port {silent[0]}") if silent else (0, "")


def main() -> int:
    """Judge the ports of this node: another user may have taken one before the role does."""
    node = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    places = [word.rpartition(":") for word in sys.argv[1:]]
    own = [int(port) for name, _colon, port in places if name == node]
    until = time.monotonic() + PATIENCE
    while True:
        code, what = judge(own, os.getuid(), listeners())
        if code != NOBODY or time.monotonic() > until:
            break
        time.sleep(EVERY)
    if what:
        print(f"{node}: {what}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
