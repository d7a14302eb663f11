# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder on a local disk for building a sealed environment or a uv cache: small files are slow on shared storage."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import fresh_folder

# The required space in bytes: an unpacked CUDA build of torch with its dependencies, and their wheels.
ROOM = 12 * 10**9
_MEMORY = ("tmpfs", "ramfs")


def workplace(name: str) -> str | None:
    """A path for a fresh folder on a disk of this host (TMPDIR, /var/tmp, /tmp). None if none has enough space."""
    for place in dict.fromkeys((os.environ.get("TMPDIR") or "/var/tmp", "/var/tmp", "/tmp")):
        own = os.path.join(place, f"rankzero-build-{os.geteuid()}")
        try:
            free = os.statvfs(place)
            if free.f_bavail * free.f_frsize < ROOM or _file_system(place) in _MEMORY:
                continue
            os.makedirs(own, mode=0o700, exist_ok=True)
            status = os.lstat(own)
        except OSError:
            continue
        # Any user may have created a folder of that name.
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022:
            return os.path.join(own, name)
    return None


@contextlib.contextmanager
def disk_folder(name: str) -> Iterator[str | None]:
    """A fresh folder on a disk of this host, removed at the end with its parent; None without a disk."""
    place = workplace(name)
    if place is None:
        yield None
        return
    try:
        with fresh_folder(place) as folder:
            yield folder
    finally:
        with contextlib.suppress(OSError):  # it contains another build
            os.rmdir(os.path.dirname(place))


def _file_system(path: str) -> str:
    """The type of a path's file system (proc(5), mounts); empty if unknown."""
    best, kind = "", ""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as stream:
            for line in stream:
                point, mounted_kind = line.split(" ")[1:3]
                if len(point) >= len(best) and (os.path.realpath(path) + "/").startswith(point.rstrip("/") + "/"):
                    best, kind = point, mounted_kind
    except OSError:
        return ""
    return kind
