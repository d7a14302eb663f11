# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the folders of a launch on this host: writable, with free space, and not on a disk of this host only.

Only the nodes can tell whether they see a folder, and the preflight checks that. This check reports mistakes before
anything is queued. A host's own disk may be exported to the nodes, so it is a note and not a refusal. Sources: proc(5)
for mountinfo, statvfs(3), quota(1).
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import text_of
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.needs import StorageNeeds

IN_MEMORY = ("tmpfs", "ramfs")
# File systems on a host's own disks. Any other type is assumed to be a network file system.
ON_DISK = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay", "aufs")
# A launch with its logs needs at least this many free inodes.
LEAST_INODES = 1000
QUOTA_SECONDS = 5.0


@dataclass(frozen=True)
class Mounted:
    """One line of mountinfo: the mount point, the type of the file system, and its source."""

    point: str
    kind: str
    source: str


def parse_mounts(text: str) -> list[Mounted]:
    """Parse /proc/self/mountinfo, in which blanks and similar characters in names are octal escapes."""
    mounts = []
    for line in text.splitlines():
        left, dash, right = line.partition(" - ")
        fields, more = left.split(), right.split()
        if dash and len(fields) > 4 and len(more) > 1:
            point, source = (
                re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), word) for word in (fields[4], more[1])
            )
            mounts.append(Mounted(point, more[0], source))
    return mounts


def mounted() -> list[Mounted]:
    """What is mounted on this host, in the order in which it was."""
    return parse_mounts(_text("/proc/self/mountinfo"))


def mount_of(path: str, mounts: Sequence[Mounted]) -> Mounted | None:
    """Return the mount that contains a path: the longest mount point above it; of several there, the newest."""
    best: Mounted | None = None
    for mount in mounts:
        if _below(path, mount.point) and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def alone(path: str, mounts: Sequence[Mounted], exports: str = "") -> str | None:
    """Return why a path is probably visible on this host only, or None. `exports`: the text of /etc/exports."""
    mount = mount_of(path, mounts)
    if mount is None:
        return None
    if mount.kind in IN_MEMORY:
        return f"it is in the memory of {socket.gethostname()} ({mount.kind})"
    exported = [line.split()[0] for line in exports.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if mount.point != "/" or mount.kind not in ON_DISK or any(_below(path, folder) for folder in exported):
        return None
    return f"it is on the root file system of {socket.gethostname()} ({mount.kind})"


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def parse_quota(text: str, source: str) -> tuple[int | None, int | None]:
    """Return (KiB, files) left on one file system according to `quota -wp`; None for what is not limited.

    Columns: file system, blocks, quota, limit, grace, files, quota, limit, grace. A star marks an exceeded quota.
    """
    for line in text.splitlines():
        words = line.split()
        if not words or words[0] != source or len(words) < 9:
            continue
        numbers = [int(word.rstrip("*")) if word.rstrip("*").isdecimal() else 0 for word in words[1:]]
        left = []
        for used, soft, hard in (numbers[0:3], numbers[4:7]):
            bound = hard or soft
            left.append(max(bound - used, 0) if bound else None)
        return left[0], left[1]
    return None, None


def size(kib: float) -> str:
    """Return KiB as text for people."""
    for unit in ("KiB", "MiB", "GiB"):
        if kib < 1024:
            return f"{kib:.0f} {unit}"
        kib /= 1024
    return f"{kib:.1f} TiB"


class Places:
    """Checks the folders of one launch. `thorough` also runs `quota`, which is slow on some file systems."""

    def __init__(self, slurm: Slurm, *, thorough: bool) -> None:
        self.slurm = slurm
        self.mounts = mounted()
        self.exports = _text("/etc/exports")
        self._quota: str | None = None if thorough else ""

    def root(self, name: str, path: str, least_kib: int) -> tuple[list[str], list[str], str]:
        """Return (problems, notes, fact) for state_root or store_root, which may not exist yet. `least_kib`: minimum
        free KiB.
        """
        there = _existing(path)
        setting = f"Name a folder on shared storage that this user may write (launch_cluster.{name})."
        try:
            info = os.statvfs(there)
        except OSError as error:
            return [f"{name}: {there} cannot be checked: {error.strerror}. {setting}"], [], ""
        if not os.path.isdir(there) or not os.access(there, os.W_OK | os.X_OK):
            why = "Not a directory" if not os.path.isdir(there) else "Permission denied"
            why = "Read-only file system" if info.f_flag & os.ST_RDONLY else why
            return [f"{name}: cannot write below {there}: {why}. {setting}"], [], ""
        problems = []
        free, files = info.f_bavail * info.f_frsize // 1024, info.f_favail if info.f_files else None
        mount = mount_of(os.path.realpath(there), self.mounts)
        quota_kib, quota_files = parse_quota(self._quotas(), mount.source if mount else "")
        for what, left in (("free", free), ("left of your quota", quota_kib)):
            if left is not None and left < least_kib:
                problems.append(
                    f"{name}: {size(left)} {what} at {there}, at least {size(least_kib)} are wanted "
                    f"(launch_cluster.min_free): make room there, or name another folder (launch_cluster.{name})"
                )
        for what, count in (("free", files), ("left of your quota", quota_files)):
            if count is not None and count < LEAST_INODES:
                problems.append(
                    f"{name}: {count} files {what} at {there}, at least {LEAST_INODES} are wanted: remove some "
                    f"there, or name another folder (launch_cluster.{name})"
                )
        notes = []
        why_alone = alone(os.path.realpath(there), self.mounts, self.exports)
        # The note is given only for a new folder: once a launch has run from there, the nodes have seen it.
        if why_alone and (there != path or (mount and mount.kind in IN_MEMORY)):
            notes.append(
                f"launch_cluster.{name}: {path} may not be seen by the nodes: {why_alone}. If they do not mount it, "
                "name a folder on shared storage"
            )
        seen = f"{name} {path}: {mount.kind if mount else 'unknown file system'}, {size(free)} free"
        if quota_kib is not None:
            seen += f", {size(quota_kib)} left of the quota"
        return problems, notes, seen

    def source(self, field: str, path: str) -> list[str]:
        """Return a note if a path that the nodes mount or read is missing on this host, or is visible on this host
        only.
        """
        if not os.path.exists(path):
            here = socket.gethostname()
            return [f"{field}: {path} is not on {here}: each node checks it before the ranks start"]
        why = alone(os.path.realpath(path), self.mounts, self.exports)
        return [f"{field}: {path} may not be seen by the nodes: {why}"] if why else []

    def _quotas(self) -> str:
        if self._quota is None:
            self._quota = ""
            if self.slurm.find("quota"):
                # Its exit code only tells whether a quota is exceeded.
                self._quota = self.slurm.attempt("quota", "-w", "-p", timeout=QUOTA_SECONDS).stdout
        return self._quota


def check_folders(
    slurm: Slurm, asked: StorageNeeds, *, thorough: bool, building: bool = True
) -> tuple[list[str], list[str], list[str]]:
    """Return (problems, notes, facts) for the folders of a launch.

    If nothing must be built (`building` is false), the store may belong to others or be full. Problems of caches are
    only notes.
    """
    places = Places(slurm, thorough=thorough)
    problems: list[str] = []
    notes: list[str] = []
    facts: list[str] = []
    for name, path in asked.roots.items():
        wrong, root_notes, seen = places.root(name, path, asked.min_free_kib)
        if name == "state_root" or (name == "store_root" and building):
            problems += wrong
        elif name != "store_root":
            notes += wrong
        notes += root_notes
        facts += [seen] if seen else []
    for option, path in asked.sources:
        notes += places.source(option, path)
    return problems, notes, facts


def _existing(path: str) -> str:
    while not os.path.lexists(path) and path not in ("", "/"):
        path = os.path.dirname(path)
    return path or "/"


def _text(path: str) -> str:
    try:
        return text_of(path, errors="replace")
    except OSError:
        return ""
