# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The limits of a node that may become the first one: every rank connects to it when the ranks start.

A finding is an error only where the ranks cannot start: a limit that no program of the user may raise. All others are
warnings: connections are retried, or the need is an estimate. What the node does not tell is not judged.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

ERROR, WARNING = "error", "warning"
# What a process of rank 0 has open besides the connections of the others: files, libraries, pipes of data loaders.
OWN_FILES = 256
# What a rank needs at least on its node: its shell or launcher, and itself. And what it has as a rule: threads of
# Python, OpenMP, CUDA, NCCL and Gloo, and data loaders.
LEAST_PROCESSES, USUAL_PROCESSES = 2, 64
# Ports on which a rank listens for the other ranks of its groups.
LISTENING_PORTS = 64
SYSCTL = "in /etc/sysctl.d: "


class Load:
    """What the job puts on its first node. `agents`: launchers that connect besides the ranks, one a node. `torch`:
    whether the ranks are known to meet at a TCPStore on this node. `privileged`: may raise its own hard limits.
    """

    def __init__(
        self, nodes: int, ranks_here: int, agents: int = 0, torch: bool = False, privileged: bool = False
    ) -> None:
        self.nodes, self.ranks_here, self.ranks = nodes, ranks_here, nodes * ranks_here
        self.clients, self.torch, self.privileged = self.ranks + agents, torch, privileged


def words_of(root: str, name: str) -> list[str]:
    """The words of a file below the root; none where there is no such file."""
    try:
        with open(os.path.join(root, name), encoding="utf-8", errors="replace") as stream:
            return stream.read().split()
    except OSError:
        return []


def number_of(root: str, name: str) -> int | None:
    """The first word of a file as a number, or None."""
    words = words_of(root, name)
    return int(words[0]) if words and words[0].isdigit() else None


def sysctl(root: str, name: str) -> int | None:
    return number_of(root, "proc/sys/" + name.replace(".", "/"))


def of_process(root: str, name: str) -> tuple[int | None, int | None]:
    """(soft limit, hard limit) of a row of /proc/self/limits; None for one that is unlimited or unknown."""
    try:
        with open(os.path.join(root, "proc/self/limits"), encoding="utf-8") as stream:
            row = next((line[len(name) :].split() for line in stream if line.startswith(name + " ")), ())
    except OSError:
        row = ()
    soft, hard = (row[0], row[1]) if len(row) > 1 else ("", "")
    return int(soft) if soft.isdigit() else None, int(hard) if hard.isdigit() else None


def rounded(need: int) -> int:
    """What an administrator would set: the next power of two."""
    return 1 << (need - 1).bit_length()


def finding(level: str, name: str, numbers: tuple[int, int], why: str, line: str) -> dict[str, Any]:
    """The document of a limit that is too low. `numbers`: its value, and the need."""
    value, need = numbers
    return {
        "level": level,
        "name": name,
        "value": value,
        "need": need,
        "words": f"{name} is {value}, {need} needed: {why} ({line})",
    }


def too_low(root: str, name: str, need: int, why: str) -> list[dict[str, Any]]:
    """A warning where a kernel setting is below the need."""
    value = sysctl(root, name)
    if value is None or value >= need:
        return []
    return [finding(WARNING, name, (value, need), why, f"{SYSCTL}{name} = {rounded(need)}")]


def of_queues(root: str, load: Load) -> list[dict[str, Any]]:
    """The queues of connections that wait until the store takes them; what finds no room is sent again after 1 s, then
    3 s, and so on.
    """
    why = f"{load.clients} connections of ranks and launchers arrive at once, and the others are sent again"
    findings = too_low(root, "net.core.somaxconn", load.clients, why)
    # With SYN cookies the kernel goes by somaxconn alone. Without, it keeps a quarter for hosts that it knows.
    if sysctl(root, "net.ipv4.tcp_syncookies") == 0:
        findings += too_low(root, "net.ipv4.tcp_max_syn_backlog", (load.clients * 4 + 2) // 3, why)
    return findings


def of_files(root: str, load: Load) -> list[dict[str, Any]]:
    """The store's process holds a connection to each rank, and a rank's soft limit is the submitting shell's."""
    soft, hard = of_process(root, "Max open files")
    least, need = load.clients, load.clients + OWN_FILES
    why = f"one process on the first node holds a connection to each of {load.clients} ranks and launchers"
    if hard is not None and hard < need and not load.privileged:
        level = ERROR if load.torch and hard < least else WARNING
        line = f"in slurmd's unit: LimitNOFILE={rounded(need)}"
        return [finding(level, "nofile (hard limit)", (hard, need), why, line)]
    if soft is not None and soft < need:
        line = (
            f"in the job: setup: {{commands: [ulimit -Sn {need}]}}; in slurm.conf: PropagateResourceLimitsExcept=NOFILE"
        )
        return [finding(WARNING, "nofile (soft limit)", (soft, need), why, line)]
    return []


def of_ports(root: str, load: Load) -> list[dict[str, Any]]:
    """Ports that the kernel chooses: for a connection to each rank, and for what the node's ranks listen on."""
    words = words_of(root, "proc/sys/net/ipv4/ip_local_port_range")
    if len(words) != 2 or not all(word.isdigit() for word in words):
        return []
    there, need = int(words[1]) - int(words[0]) + 1, load.ranks + LISTENING_PORTS * load.ranks_here
    if there >= need:
        return []
    why = (
        f"rank 0 connects to {load.ranks} ranks, and each of {load.ranks_here} here listens on about {LISTENING_PORTS}"
    )
    # Below are the ports of a launch (start/ports.py).
    line = f"{SYSCTL}net.ipv4.ip_local_port_range = 24000 65535"
    return [finding(WARNING, "net.ipv4.ip_local_port_range", (there, need), why, line)]


def of_neighbours(root: str, load: Load) -> list[dict[str, Any]]:
    why = f"{load.nodes} nodes of one subnet are neighbours of the first; beyond the limit sends fail"
    # The loop-back and the site's own machines are neighbours, too.
    return too_low(root, "net.ipv4.neigh.default.gc_thresh3", load.nodes + 64, why)


def groups_of(root: str) -> Iterator[str]:
    """The control groups of this process that count processes, innermost first, as folders."""
    try:
        with open(os.path.join(root, "proc/self/cgroup"), encoding="utf-8") as stream:
            rows = [line.rstrip("\n").split(":", 2) for line in stream if line.count(":") >= 2]
    except OSError:
        return
    for number, kinds, path in rows:
        base = "sys/fs/cgroup/pids" if "pids" in kinds.split(",") else "sys/fs/cgroup"
        if number != "0" and "pids" not in kinds.split(","):
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        while parts:
            yield "/".join([base, *parts])
            parts.pop()


def of_processes(root: str, load: Load) -> list[dict[str, Any]]:
    """Room for processes and threads: of the job's control group, of the user, of the node."""
    rooms = []
    for group in groups_of(root):
        limit, used = number_of(root, group + "/pids.max"), number_of(root, group + "/pids.current")
        if limit is not None:
            rooms.append((limit - (used or 0), f"pids left in {group}", "in slurmd's unit: TasksMax=infinity", ERROR))
    running = words_of(root, "proc/loadavg")
    threads = running[3].partition("/")[2] if len(running) > 3 else ""
    for name in ("kernel.pid_max", "kernel.threads-max"):
        limit = sysctl(root, name)
        if limit is not None:
            left = limit - (int(threads) if threads.isdigit() else 0)
            rooms.append((left, f"{name} less what runs", f"{SYSCTL}{name} = {rounded(max(limit, 2) * 2)}", ERROR))
    hard = of_process(root, "Max processes")[1]
    if hard is not None and not load.privileged:
        rooms.append((hard, "nproc (hard limit)", "in slurmd's unit: LimitNPROC=infinity", WARNING))
    need = USUAL_PROCESSES * load.ranks_here
    short = [room for room in rooms if room[0] < need]
    if not short:
        return []
    left, name, line, worst = min(short)
    certain = worst == ERROR and left < LEAST_PROCESSES * load.ranks_here
    why = f"each of {load.ranks_here} ranks of the node has about {USUAL_PROCESSES} processes and threads"
    return [finding(ERROR if certain else WARNING, name, (left, need), why, line)]


def findings(root: str, load: Load) -> list[dict[str, Any]]:
    """What a node's limits mean for a job of that size, as documents."""
    parts = (of_queues, of_files, of_ports, of_neighbours, of_processes)
    return [each for part in parts for each in part(root, load)] if load.nodes > 1 or load.ranks_here > 1 else []
