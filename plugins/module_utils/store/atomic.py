# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders of the store that appear complete or not at all.

A folder is filled under a temporary name next to its final path and published by one rename. If two processes make the
same folder, the first rename wins and the other result is deleted. What a killed process left has no usable name; the
next process deletes it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ansible_collections.rankzero.slurm.plugins.module_utils.core.clearing import remove_tree
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import amount

# A leftover from another machine may belong to a process that cannot be checked from here. No process takes this long
# (seconds).
ABANDONED_AFTER = 24 * 3600.0
_SUFFIX = ".tmp"


def root_of(
    store_root: str,
    option: str = "store_root",
    advice: str = "Give a path on shared storage that begins with /, ~ or a variable that is set there.",
) -> str:
    """An option's folder as an absolute path; `~` and `$NAME` are expanded on this host. Raises RankzeroError."""
    path = os.path.expanduser(os.path.expandvars(store_root))
    if not os.path.isabs(path) or "$" in path:
        raise RankzeroError(
            f"{option}: {store_root!r} is not an absolute path on the cluster (it expands to {path!r}). {advice}"
        )
    return os.path.normpath(path)


@contextmanager
def fresh_folder(target: str) -> Iterator[str]:
    """A new, empty folder next to `target`, removed at the end unless `publish` renamed it.

    Only the user can enter it until then, for any umask. An OSError inside becomes a RankzeroError that says what to
    do.
    """
    parent, name = os.path.split(target)
    folder = os.path.join(parent, f".{name}.{process_scope()}-{os.getpid()}-{time.time_ns()}{_SUFFIX}")
    try:
        open_folders(parent)
        sweep(parent)
        os.mkdir(folder, 0o700)
        yield folder
    except OSError as error:
        raise trouble(error, parent) from error
    finally:
        remove(folder)


def publish(folder: str, target: str) -> bool:
    """Give a finished folder its name: everybody may read it, only its owner may write it.

    Returns False if `target` exists already. Raises OSError.
    """
    if not os.path.islink(folder):
        # A folder that its owner may not write could not be moved to another folder.
        mode = os.lstat(folder).st_mode
        os.chmod(folder, open_mode(folder) if stat.S_ISDIR(mode) else _read_only(mode))
    try:
        os.rename(folder, target)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY) and os.path.isdir(target):
            return False
        raise
    sync_folder(os.path.dirname(target))
    return True


def remove(path: str) -> bool:
    """Remove a folder (or a file) of the store, read-only or not. It is renamed first. False if it did not exist.

    Raises OSError.
    """
    doomed = path if path.endswith(_SUFFIX) else set_aside(path)
    if doomed is None or not os.path.lexists(doomed):
        return False
    delete(doomed)
    return True


def open_folders(path: str) -> None:
    """Make a folder of a store and its parents, with mode 0755 for any umask. Existing folders keep their mode.

    Raises OSError.
    """
    if not path or os.path.isdir(path):
        return
    open_folders(os.path.dirname(path))
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
        os.chmod(path, open_mode(path))


def open_mode(folder: str) -> int:
    """The mode of a folder of a store. The setgid bit is kept, as quotas may count by group."""
    return 0o755 | os.lstat(folder).st_mode & stat.S_ISGID


def folders_as_above(path: str) -> None:
    """Make a folder and its parents, for any umask: group-writable if the parent is, else writable only by the owner.

    Raises OSError.
    """
    if not path or os.path.isdir(path):
        return
    above = os.path.dirname(path)
    folders_as_above(above)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
        os.chmod(path, open_mode(path) | group_writes(above))


def group_writes(folder: str) -> int:
    """The group write bit of a folder's mode, where it is set."""
    return os.stat(folder or ".").st_mode & stat.S_IWGRP


def set_aside(path: str) -> str | None:
    """Rename a path to a temporary name, which a later sweep removes in any case. None if it did not exist."""
    parent, name = os.path.split(path)
    doomed = os.path.join(parent, f".{name}.{process_scope()}-{os.getpid()}-{time.time_ns()}{_SUFFIX}")
    try:
        os.rename(path, doomed)
    except FileNotFoundError:
        return None
    # The deletion begins now: another host decides by this time whether the folder is abandoned.
    with contextlib.suppress(OSError):
        os.utime(doomed, follow_symlinks=False)
    return doomed


def delete(doomed: str) -> None:
    """Delete a path that was renamed to a temporary name. Raises OSError."""
    if not os.path.isdir(doomed) or os.path.islink(doomed):
        os.unlink(doomed)
        return
    while os.path.isdir(doomed):
        # Two processes may delete the same folder at once.
        with contextlib.suppress(FileNotFoundError):
            remove_tree(doomed)


def sweep(parent: str) -> list[str]:
    """Remove what killed processes left in `parent`; returns the names. Folders that may still be in use are kept."""
    swept = []
    for name in sorted(os.listdir(parent)):
        if name.startswith(".") and name.endswith(_SUFFIX) and _abandoned(os.path.join(parent, name)):
            try:
                remove(os.path.join(parent, name))
            except OSError:  # another process deletes it, or it belongs to another user
                continue
            swept.append(name)
    return swept


def make_read_only(folder: str) -> None:
    """Make everything below `folder` readable by all and writable by nobody, for any umask.

    Links are left alone; `publish` sets the mode of `folder` itself. Raises OSError.
    """
    for place, folders, files in os.walk(folder):
        for name in files + folders:
            path = os.path.join(place, name)
            mode = os.lstat(path).st_mode
            if not stat.S_ISLNK(mode):
                os.chmod(path, _read_only(mode))


def _read_only(mode: int) -> int:
    return 0o555 if stat.S_ISDIR(mode) or mode & 0o100 else 0o444


def sync_folder(path: str) -> None:
    """Make the names in a folder durable, where the file system supports fsync on folders."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def trouble(error: OSError, path: str) -> RankzeroError:
    """The error message for a failure of the storage below `path`."""
    reason = error.strerror or str(error)
    where = error.filename or path
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return RankzeroError(
            f"store_root: {reason}: {where} ({free_space(path)}). Make room there, or name another storage with "
            "launch_cluster.store_root."
        )
    return RankzeroError(
        f"store_root: cannot write below {path}: {reason} ({where}). Name a folder on shared storage that "
        "this user may write (launch_cluster.store_root)."
    )


def free_space(path: str) -> str:
    """Free bytes and files of the file system of `path`, as text; the nearest existing parent is checked."""
    while path != "/" and not os.path.isdir(path):
        path = os.path.dirname(path) or "/"
    try:
        status = os.statvfs(path)
    except OSError:
        return "free space unknown"
    return f"{amount(status.f_bavail * status.f_frsize)} and {status.f_favail} files free"


def process_scope() -> str:
    """A short id of the scope of process ids: this host, this boot, this process namespace."""
    parts = [socket.gethostname()]
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            parts.append(stream.read())
        parts.append(os.readlink("/proc/self/ns/pid"))
    except OSError:
        parts.append("")  # not Linux, or /proc does not show it
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]


def lives(pid: int | str) -> bool:
    """Whether a process of this host runs. A zombie does not count."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            return stream.read().rpartition(b")")[2].split()[:1] not in ([b"Z"], [b"X"])
    except OSError:
        return False


def _abandoned(path: str) -> bool:
    # .NAME.PLACE-PID-TIME.tmp
    maker = re.search(r"\.([0-9a-f]{8})-([0-9]+)-[0-9]+$", os.path.basename(path)[: -len(_SUFFIX)])
    if maker and maker[1] == process_scope():
        return not lives(maker[2])
    try:
        return time.time() - os.lstat(path).st_mtime > ABANDONED_AFTER
    except OSError:
        return False
