# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ports on which the ranks' servers may listen: MASTER_PORT, and others for a second service. Standard library only.

They lie above those of Ray's workers (10002 to 19999) and below those that a kernel gives to connections (from 32768,
or from 24000 where a site follows the preflight's advice), so that neither is in their way later.
"""

from __future__ import annotations

import contextlib
import re

FIRST, COUNT = 20000, 4000
#: Where a kernel gives the others to connections. Neither Ray nor Slurm has one of its own here.
INSTEAD = (7000, 1000)
#: Those of a launch: MASTER_PORT and RANKZERO_PORTS.
OWN = 9
RANGE = "/proc/sys/net/ipv4/ip_local_port_range"


def used() -> set[int]:
    """Those that somebody has on this node."""
    taken = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as stream:
            for line in stream:
                match = re.match(r" *\d+: [0-9A-F]*:([0-9A-F]+) ", line)
                if match:
                    taken.add(int(match[1], 16))
    return taken


def of_connections() -> range:
    """Those that the kernel gives to connections; empty where it does not say."""
    with contextlib.suppress(OSError, ValueError), open(RANGE, encoding="ascii") as stream:
        low, high = map(int, stream.read().split())
        return range(low, high + 1)
    return range(0)


def free(job: str) -> list[int]:
    """Ports for a job or a step (JOB.STEP) with this node as its first one: the starting point of its own, then what
    nobody uses here. Fewer than OWN where there are no more.
    """
    digits = [int(part) for part in re.findall(r"\d+", job)]
    start = digits[0] * 37 + (digits[-1] * 101 if "." in job else 0)
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
    digits = [int(part) for part in re.findall(r"\d+", job)]
    taken, given = used() | set(free(job)), of_connections()
    for banned in (given, range(0)):
        begun, length = 0, 0
        for step in range(COUNT + count):
            port = FIRST + (digits[0] * 37 + OWN + step) % COUNT
            if port in taken or port in banned or port == FIRST:
                length = 0
                continue
            begun, length = (port, 1) if not length else (begun, length + 1)
            if length == count:
                return begun
    return 0
