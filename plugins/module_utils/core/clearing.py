# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove a directory tree of any depth without leaving it.

Each name is removed relative to an open folder. Links are not followed, and mounts are not entered.

A path is resolved again each time it is used. Anyone who can write to a folder on the path can put a link there in the
meantime, and `rm -r PATH` would then delete somewhere else. A descriptor always refers to the same folder. A tree may
also be deeper than Python's recursion limit or its limit of open files (`shutil.rmtree` fails at 1,000 levels).
Therefore the subfolders of a folder are moved up before the folder is removed.

This file uses the standard library only and imports nothing from this collection, because jobs use it on their nodes
(runtime/clearing.py is a link to it).
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import time
from collections.abc import Iterator, Sequence

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_HANDLE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_folder(path: str) -> int:
    """Return a descriptor of the folder at an absolute path that contains no links. Raises OSError."""
    names = path.strip("/").split("/")
    if not path.startswith("/") or {"", ".", ".."} & set(names):
        raise NotADirectoryError(f"{path!r} is not an absolute path in its plain form")
    folder = os.open("/", _FOLDER)
    for name in names:
        try:
            inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def remove_tree(path: str) -> None:
    """Remove a file, a link, or a folder with its content. A missing path is not an error. Raises OSError."""
    try:
        above = os.open(os.path.dirname(path) or ".", _FOLDER)
    except FileNotFoundError:
        return
    try:
        remove_in(above, os.path.basename(path))
    finally:
        os.close(above)


def remove_in(folder: int, name: str) -> None:
    """Remove `name` with its content from an open folder. A missing name is not an error. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        try:
            os.unlink(name, dir_fd=folder)
            return
        except (IsADirectoryError, PermissionError) as error:
            try:
                inner = _opened(name, folder)
            except NotADirectoryError:  # a file that this user may not remove
                raise error from None
        try:
            clear(inner)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=folder)


def clear(folder: int, keep: Sequence[str] = ()) -> None:
    """Remove everything in an open folder except the names in `keep`. Raises OSError."""
    # Two processes may clear the same folder at once, even on two hosts, so the names must be unique.
    fresh = (f".{os.getpid()}-{time.time_ns()}-{number}" for number in itertools.count())
    while entries := [entry for entry in _entries(folder) if entry[0] not in keep]:
        for name, is_folder in entries:
            with contextlib.suppress(FileNotFoundError):
                if is_folder:
                    _dissolve(name, folder, fresh)
                else:
                    os.unlink(name, dir_fd=folder)


def _dissolve(name: str, top: int, fresh: Iterator[str]) -> None:
    """Remove a subfolder of an open folder: remove its files, and move its folders to fresh names in `top`."""
    inner = _opened(name, top)
    try:
        for item, is_folder in _entries(inner):
            with contextlib.suppress(FileNotFoundError):
                if is_folder:
                    # A folder must be writable to be moved, because its `..` entry changes.
                    os.close(_opened(item, inner))
                    os.rename(item, next(fresh), src_dir_fd=inner, dst_dir_fd=top)
                else:
                    os.unlink(item, dir_fd=inner)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)


def _entries(folder: int) -> list[tuple[str, bool]]:
    """List an open folder as pairs (name, whether it is a folder)."""
    with os.scandir(folder) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]


def _opened(name: str, above: int) -> int:
    """Open a subfolder of an open folder and make it writable for its owner. Raises OSError, also for a link or a
    mount.
    """
    handle = os.open(name, _HANDLE, dir_fd=above)
    try:
        status = os.fstat(handle)
        if status.st_dev != os.fstat(above).st_dev:
            raise OSError(errno.EBUSY, "another file system is mounted there", name)
        if status.st_mode & 0o700 != 0o700:
            # Use the descriptor, because the name may lead elsewhere by now.
            with contextlib.suppress(PermissionError):
                os.chmod(f"/proc/self/fd/{handle}", 0o700)
        return os.open(f"/proc/self/fd/{handle}", _FOLDER)
    finally:
        os.close(handle)
