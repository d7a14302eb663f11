# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove a tree of any depth without leaving it: each name is removed from an open folder, no link is followed and no
mount is entered.

A path is looked up anew each time it is used. Whoever may write to a folder on the way can put a link there in between,
and `rm -r PATH` deletes somewhere else. An open folder stays the same folder. A tree may also be deeper than Python's
limit of recursion or of open files (`shutil.rmtree` fails on 1,000 levels), so the folders in a folder are moved up
before it is removed.

Standard library only, and of this collection nothing: jobs use the same file on their nodes (runtime/clearing.py is a
link to it).
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
    """A descriptor of an absolute path of which no part is a link. Raises OSError."""
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
    """Remove a file, a link, or a folder with all that is in it. Raises OSError; what is gone already is no error."""
    try:
        above = os.open(os.path.dirname(path) or ".", _FOLDER)
    except FileNotFoundError:
        return
    try:
        remove_in(above, os.path.basename(path))
    finally:
        os.close(above)


def remove_in(folder: int, name: str) -> None:
    """Remove `name` in an open folder, with all that is in it. Raises OSError; what is gone already is no error."""
    with contextlib.suppress(FileNotFoundError):
        try:
            os.unlink(name, dir_fd=folder)
            return
        except (IsADirectoryError, PermissionError) as error:
            try:
                inner = _opened(name, folder)
            except NotADirectoryError:  # a file that may not be removed
                raise error from None
        try:
            clear(inner)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=folder)


def clear(folder: int, keep: Sequence[str] = ()) -> None:
    """Remove everything in an open folder but the names `keep`. Raises OSError."""
    # Two may clear the same folder at once, also on two hosts.
    fresh = (f".{os.getpid()}-{time.time_ns()}-{number}" for number in itertools.count())
    while entries := [one for one in _entries(folder) if one[0] not in keep]:
        for name, is_folder in entries:
            with contextlib.suppress(FileNotFoundError):
                if is_folder:
                    _dissolve(name, folder, fresh)
                else:
                    os.unlink(name, dir_fd=folder)


def _dissolve(name: str, top: int, fresh: Iterator[str]) -> None:
    """Remove a folder of an open one: its files are removed, its folders get a fresh name in `top`."""
    inner = _opened(name, top)
    try:
        for one, is_folder in _entries(inner):
            with contextlib.suppress(FileNotFoundError):
                if is_folder:
                    # To be moved it has to be writable: its `..` changes.
                    os.close(_opened(one, inner))
                    os.rename(one, next(fresh), src_dir_fd=inner, dst_dir_fd=top)
                else:
                    os.unlink(one, dir_fd=inner)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)


def _entries(folder: int) -> list[tuple[str, bool]]:
    """(name, whether it is a folder) of everything in an open folder."""
    with os.scandir(folder) as found:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]


def _opened(name: str, above: int) -> int:
    """A folder of an open one, made writable for its owner. Raises OSError, also for a link and for a mount."""
    handle = os.open(name, _HANDLE, dir_fd=above)
    try:
        found = os.fstat(handle)
        if found.st_dev != os.fstat(above).st_dev:
            raise OSError(errno.EBUSY, "another file system is mounted there", name)
        if found.st_mode & 0o700 != 0o700:
            # By the descriptor: the name could lead elsewhere by now.
            with contextlib.suppress(PermissionError):
                os.chmod(f"/proc/self/fd/{handle}", 0o700)
        return os.open(f"/proc/self/fd/{handle}", _FOLDER)
    finally:
        os.close(handle)
