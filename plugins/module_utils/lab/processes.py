# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which process is which: identities that survive pid reuse, and the search for everything that belongs to a lab."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import signal
import time
from collections.abc import Iterable

from ansible_collections.rankzero.slurm.plugins.module_utils.errors import RankzeroError


@dataclasses.dataclass(frozen=True)
class Identity:
    """A process by pid and start time (clock ticks since boot, proc(5) field 22): a reused pid has another."""

    pid: int
    start: int

    def alive(self) -> bool:
        """Runs still, as the very same process; a zombie (state Z) is dead."""
        return identity(self.pid) == self

    def __str__(self) -> str:
        return f"{self.pid} {self.start}"


def parse_stat(text: str) -> tuple[str, int, int]:
    """State, parent and start time out of /proc/PID/stat. The command name may hold spaces and parentheses."""
    fields = text[text.rindex(")") + 2 :].split()
    return fields[0], int(fields[1]), int(fields[19])


def identity(pid: int) -> Identity | None:
    """The identity of a running process; None where there is none, or only a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            state, _, start = parse_stat(stream.read())
    except (OSError, ValueError):
        return None
    return None if state in "ZX" else Identity(pid, start)


def mounted_sources(mountinfo: str) -> set[str]:
    """The sources of all mounts in a /proc/PID/mountinfo text (proc(5)), octal escapes undone."""
    sources = set()
    for line in mountinfo.splitlines():
        _, separator, tail = line.partition(" - ")
        if separator:
            source = tail.split(" ")[1]
            sources.add(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), source))
    return sources


def members(marker: str, program: str, directory: str) -> list[Identity]:
    """Every process of a lab, this one excluded.

    Three signs, because a start can be killed at any moment: it lives in a mount namespace that carries the lab's
    marker; the lab's agent program stands in its command line; its environment names the lab (simple way: Slurm's
    daemons and what descends from them).
    """
    own = os.getpid()
    by_namespace: dict[str, bool] = {os.readlink("/proc/self/ns/mnt"): False}
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == own:
            continue
        who = identity(int(entry))
        # Processes come and go while we look, and those of other users may be closed to us: neither is ours.
        if who is not None and _belongs(entry, marker, program, directory, by_namespace):
            found.append(who)
    return found


def _belongs(entry: str, marker: str, program: str, directory: str, by_namespace: dict[str, bool]) -> bool:
    with contextlib.suppress(OSError):
        namespace = os.readlink(f"/proc/{entry}/ns/mnt")
        if namespace not in by_namespace:
            with open(f"/proc/{entry}/mountinfo", encoding="utf-8", errors="replace") as stream:
                by_namespace[namespace] = marker in mounted_sources(stream.read())
        if by_namespace[namespace]:
            return True
        with open(f"/proc/{entry}/cmdline", "rb") as raw:
            if program.encode() in raw.read().split(b"\0"):
                return True
        with open(f"/proc/{entry}/environ", "rb") as raw:
            variables = raw.read().split(b"\0")
        return b"RANKZERO_LAB=" + directory.encode() in variables
    return False


def kill_all(marker: str, program: str, directory: str, timeout: float = 20.0) -> int:
    """SIGKILL every member until none is left; how many there were. RankzeroError when some will not die."""
    killed: set[Identity] = set()
    deadline = time.monotonic() + timeout
    while True:
        left = members(marker, program, directory)
        if not left:
            return len(killed)
        if time.monotonic() > deadline:
            pids = ", ".join(str(who.pid) for who in left)
            raise RankzeroError(
                f"lab in {directory}: these processes do not die: {pids}; look at them with ps and retry"
            )
        for who in left:
            kill(who, signal.SIGKILL)
            killed.add(who)
        time.sleep(0.01)


def kill(who: Identity, number: int) -> None:
    """Send a signal to exactly this process, never to a later one with the same pid."""
    if who.alive():
        with contextlib.suppress(ProcessLookupError):
            os.kill(who.pid, number)


def wait_gone(processes: Iterable[Identity], timeout: float) -> bool:
    """True once none of them runs; False after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    left = list(processes)
    while left:
        left = [who for who in left if who.alive()]
        if left and time.monotonic() > deadline:
            return False
        if left:
            time.sleep(0.01)
    return True


def listening_ports(table: str) -> set[int]:
    """TCP ports in state LISTEN out of a /proc/PID/net/tcp text."""
    ports = set()
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 3 and fields[3] == "0A":
            ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports
