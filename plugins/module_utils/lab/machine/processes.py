# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Identities of processes that are safe against pid reuse, and the search for all processes of a lab."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import signal
import time
from collections.abc import Iterable

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError


@dataclasses.dataclass(frozen=True)
class Identity:
    """A process by pid and start time (clock ticks since boot, proc(5) field 22), which differs for a reused pid."""

    pid: int
    start: int

    def alive(self) -> bool:
        """Whether this very process still runs. A zombie (state Z) does not."""
        return identity(self.pid) == self

    def __str__(self) -> str:
        return f"{self.pid} {self.start}"


def parse_stat(text: str) -> tuple[str, int, int]:
    """State, parent and start time from /proc/PID/stat. The command name may contain spaces and parentheses."""
    fields = text[text.rindex(")") + 2 :].split()
    return fields[0], int(fields[1]), int(fields[19])


def identity(pid: int) -> Identity | None:
    """The identity of a running process; None if there is no such process or it is a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            state, start = parse_stat(stream.read())[::2]
    except (OSError, ValueError):
        return None
    return None if state in "ZX" else Identity(pid, start)


def mounted_sources(mountinfo: str) -> set[str]:
    """The sources of all mounts in the text of /proc/PID/mountinfo (proc(5)), with octal escapes decoded."""
    sources = set()
    for line in mountinfo.splitlines():
        if " - " in line:
            source = line.split(" - ", 1)[1].split(" ")[1]
            sources.add(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), source))
    return sources


@dataclasses.dataclass(frozen=True)
class Marks:
    """The marks by which a lab's processes are recognised.

    There are several, because a start can be killed at any moment and no record can be trusted:
    `source`: a tmpfs of this source is mounted in the process's own mount namespace (realistic way);
    `program`: the process's command line contains the path of the lab's agent program;
    `directory`: its environment has RANKZERO_LAB_MEMBER=directory (daemons), or it belongs to a job with that lab's
    slurm.conf, or it is a slurmstepd (they overwrite their environment) with a log below the directory.
    """

    source: str
    program: str
    directory: str


def members(marks: Marks) -> list[Identity]:
    """Every process of a lab and all their descendants, except this process. Agents come last.

    Agents are killed last because orphans become their children and so can still be recognised.
    """
    own = os.getpid()
    parents: dict[int, int] = {}
    running: dict[int, Identity] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != own:
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{entry}/stat", "rb") as stream:
                state, parent, start = parse_stat(stream.read().decode("utf-8", "replace"))
                if state not in "ZX":
                    parents[int(entry)] = parent
                    running[int(entry)] = Identity(int(entry), start)
    by_namespace = {os.readlink("/proc/self/ns/mnt"): False}
    agents = {pid for pid in running if marks.program in _arguments(pid)}
    pids = {pid for pid in running if pid in agents or _marked(pid, marks, by_namespace)}
    grown = True
    while grown:
        children = {pid for pid, parent in parents.items() if parent in pids} - pids
        pids |= children
        grown = bool(children)
    return [running[pid] for pid in sorted(pids, key=lambda pid: (pid in agents, pid))]


def _arguments(pid: int) -> list[str]:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as raw:
        return raw.read().decode("utf-8", "replace").split("\0")
    return []


def _marked(pid: int, marks: Marks, by_namespace: dict[str, bool]) -> bool:
    """Whether a process has one of the marks. A process that has ended, or that may not be read, is not the lab's."""
    with contextlib.suppress(OSError):
        namespace = os.readlink(f"/proc/{pid}/ns/mnt")
        if namespace not in by_namespace:
            with open(f"/proc/{pid}/mountinfo", encoding="utf-8", errors="replace") as stream:
                by_namespace[namespace] = marks.source in mounted_sources(stream.read())
        if by_namespace[namespace]:
            return True
        with open(f"/proc/{pid}/environ", "rb") as raw:
            if in_environment(raw.read().decode("utf-8", "replace").split("\0"), marks.directory):
                return True
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as stream:
            if stream.read().strip() == "slurmstepd":
                logs = f"{marks.directory}/log/"
                return any(os.readlink(entry.path).startswith(logs) for entry in os.scandir(f"/proc/{pid}/fd"))
    return False


def in_environment(variables: Iterable[str], directory: str) -> bool:
    """Whether an environment belongs to one of the lab's daemons, or to a job of the simple way.

    SLURM_CONF alone does not show that, nor does RANKZERO_LAB, which a user exports to select a lab.
    """
    known = set(variables)
    if f"RANKZERO_LAB_MEMBER={directory}" in known:
        return True
    in_job = any(variable.startswith("SLURM_JOB_ID=") for variable in known)
    return in_job and f"SLURM_CONF={directory}/etc/slurm/slurm.conf" in known


def kill_all(marks: Marks) -> int:
    """SIGKILL every member until none is left. Returns how many there were. RankzeroError if some do not end."""
    killed: set[Identity] = set()
    deadline = time.monotonic() + 20.0
    while True:
        left = members(marks)
        if not left:
            return len(killed)
        if time.monotonic() > deadline:
            pids = ", ".join(str(who.pid) for who in left)
            raise RankzeroError(f"lab in {marks.directory}: processes {pids} do not end; check them, then retry")
        agents = [who for who in left if marks.program in _arguments(who.pid)]
        for who in left if len(agents) == len(left) else left[: -len(agents) or None]:
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
    """TCP ports in state LISTEN, from the text of /proc/PID/net/tcp."""
    ports = set()
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 3 and fields[3] == "0A":
            ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports
