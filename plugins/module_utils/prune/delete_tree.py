# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Delete a tree without leaving it: every name is one in an open folder, no link is followed, no mount is entered.

A path is looked up anew each time it is used. Whoever may write in a folder on the way can put a link there in between,
and `rm -r PATH` deletes somewhere else. A folder that is open stays the folder that it was.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_folder(path: str) -> int:
    """A descriptor of an absolute path of which no part is a link. Raises OSError."""
    folder = os.open("/", _FOLDER)
    for name in path.strip("/").split("/"):
        if name in ("", ".", ".."):
            os.close(folder)
            raise NotADirectoryError(f"{path} is not an absolute path in its plain form")
        try:
            inner = os.open(name, _FOLDER, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def delete_in(folder: int, name: str) -> None:
    """Delete `name` in an open folder, with all that is in it. Raises OSError; what is gone already is no error.

    A tree may be deeper than a program may open folders: what lies in an inner folder is moved up before it goes.
    """
    try:
        os.unlink(name, dir_fd=folder)
        return
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        pass
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode):
            os.unlink(name, dir_fd=folder)  # for its error
        top = _opened(folder, name, os.fstat(folder).st_dev)
        try:
            _empty(top)
        finally:
            os.close(top)
        os.rmdir(name, dir_fd=folder)


def _opened(folder: int, name: str, device: int) -> int:
    """An inner folder, made writable for its owner."""
    try:
        inner = os.open(name, _FOLDER, dir_fd=folder)
    except PermissionError:
        # Only its owner's own, and only a folder: fchmodat(2) follows a link, so a link is looked for before.
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise
        os.chmod(name, 0o700, dir_fd=folder)
        inner = os.open(name, _FOLDER, dir_fd=folder)
    try:
        if os.fstat(inner).st_dev != device:
            raise OSError(0, f"another file system is mounted at {name}; it is left alone")
        os.fchmod(inner, 0o700)
    except OSError:
        os.close(inner)
        raise
    return inner


def _empty(top: int) -> None:
    """Remove everything in an open folder, with two descriptors however deep it is."""
    device = os.fstat(top).st_dev
    numbers = itertools.count()
    while names := os.listdir(top):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
                    os.unlink(name, dir_fd=top)
                    continue
                inner = _opened(top, name, device)
                try:
                    for one in os.listdir(inner):
                        _lift(one, inner, top, device, numbers)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=top)


def _lift(name: str, inner: int, top: int, device: int, numbers: itertools.count[int]) -> None:
    """Remove a file of an inner folder; move a folder of it up, under a name that nothing has."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=inner, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=inner)
        return
    # To be moved it has to be writable: its `..` changes.
    os.close(_opened(inner, name, device))
    os.rename(name, f".{os.getpid()}-{next(numbers)}", src_dir_fd=inner, dst_dir_fd=top)
