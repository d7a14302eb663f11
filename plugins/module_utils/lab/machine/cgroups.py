# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Control groups for the lab's nodes, so that slurmd really limits cores, memory and devices (cgroups(7), version 1).

Every node gets its own group in each hierarchy, and a cgroup namespace with that group as its root. So Slurm's groups
of two nodes, or of two labs, never conflict. The groups are below the group of the user who started the lab, whose
limits therefore apply to the lab too. Groups outlive their processes: `sweep` removes them after a stop, including
those of a killed lab.

Version 2 is not used: for it, Slurm 22.05 requires a group that systemd delegates, which a lab does not have.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.lab.machine import kernel

# What proctrack/cgroup and task/cgroup of Slurm 22.05 use.
CONTROLLERS = ("cpuset", "devices", "freezer", "memory")
# A new cpuset is empty, and no process can run in it until these are set (cpuset(7)).
_CPUSET = ("cpuset.cpus", "cpuset.mems")
MOUNT_POINT = "/sys/fs/cgroup"


def hierarchies(mountinfo: str) -> dict[str, str]:
    """Controller -> mount point of its version 1 hierarchy, from the text of /proc/PID/mountinfo (proc(5)). Pure."""
    paths = {}
    for line in mountinfo.splitlines():
        before, _dash, after = line.partition(" - ")
        fields = after.split(" ")
        if len(fields) > 2 and fields[0] == "cgroup":
            paths.update({word: before.split(" ")[4] for word in fields[2].split(",") if word in CONTROLLERS})
    return paths


def mounted() -> dict[str, str]:
    """The hierarchies that this process sees."""
    with open("/proc/self/mountinfo", encoding="utf-8") as stream:
        return hierarchies(stream.read())


def obstacle(paths: Mapping[str, str]) -> str:
    """Why limits cannot be enforced with these hierarchies; "" if they can."""
    missing = [name for name in CONTROLLERS if name not in paths]
    if missing:
        return f"this machine has no version 1 control groups for {', '.join(missing)}"
    closed = sorted(path for path in paths.values() if not os.access(path, os.W_OK))
    return f"{', '.join(closed)} cannot be written here" if closed else ""


def own_group(text: str, controller: str) -> str:
    """A process's group below its hierarchy's mount point, from the text of /proc/PID/cgroup ("": the top). Pure."""
    for line in text.splitlines():
        _number, names, path = line.split(":", 2)
        if controller in names.split(","):
            return path.rstrip("/")
    return ""


def join(name: str) -> None:
    """Create group `name` (LAB/NODE) in every hierarchy and move this process into it, as the root that it sees."""
    paths = mounted()
    with open("/proc/self/cgroup", encoding="utf-8") as stream:
        own = stream.read()
    for controller in CONTROLLERS:
        group = paths[controller] + own_group(own, controller)
        for part in name.split("/"):
            above, group = group, f"{group}/{part}"
            with contextlib.suppress(FileExistsError):
                os.mkdir(group)
            if controller == "cpuset":
                for setting in _CPUSET:
                    with open(f"{above}/{setting}", encoding="ascii") as stream:
                        value = stream.read()
                    with open(f"{group}/{setting}", "w", encoding="ascii") as stream:
                        stream.write(value)
        with open(f"{group}/cgroup.procs", "w", encoding="ascii") as stream:
            stream.write("0")  # "0" means the writing process
    kernel.unshare(kernel.CLONE_NEWCGROUP)


def mount(root: str) -> None:
    """Mount every hierarchy, as seen in this process's cgroup namespace, below `root`/sys/fs/cgroup (a tmpfs)."""
    for controller in CONTROLLERS:
        path = f"{root}{MOUNT_POINT}/{controller}"
        os.makedirs(path, exist_ok=True)
        flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
        kernel.mount("cgroup", path, "cgroup", flags, controller)


def groups_left(lab: str) -> list[str]:
    """Every group of a lab, innermost first."""
    folders = []
    for path in sorted(set(mounted().values())):
        for folder, _names, _files in os.walk(path, topdown=False):
            if f"/{lab}/" in f"{folder}/":
                folders.append(folder)
    return folders


def sweep(lab: str, timeout: float = 10.0) -> list[str]:
    """Remove a lab's groups. Returns those that could not be removed, because a process still runs in them."""
    deadline = time.monotonic() + timeout
    while True:
        for folder in groups_left(lab):
            with contextlib.suppress(OSError):  # still busy for a moment after its last process has ended
                os.rmdir(folder)
        remaining = groups_left(lab)
        if not remaining or time.monotonic() > deadline:
            return remaining
        time.sleep(0.05)
