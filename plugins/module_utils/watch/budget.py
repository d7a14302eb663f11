# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limit how often all waits of one user on one host query Slurm.

Each query appends one byte to a file for the current minute, in a folder that belongs to the user. The folder exists
while a wait runs; the last wait removes it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator

_COUNT = "asked."


def count(most: int, clock: Callable[[], float] = time.time) -> bool:
    """Count a query. Returns False once there were more than `most` this minute.

    Where nothing can be counted, every query is allowed.
    """
    current = _minute(clock)
    with contextlib.suppress(OSError):
        with contextlib.suppress(FileExistsError):
            os.mkdir(_path(), 0o700)
        with _own_folder() as folder:
            names = os.listdir(folder)
            for name in names if current not in names else ():
                if name.startswith(_COUNT):
                    os.unlink(name, dir_fd=folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(current, flags, 0o600, dir_fd=folder), "wb", buffering=0) as file:
                file.write(b".")
                return os.fstat(file.fileno()).st_size <= most
    return True


def drop(asked: int, clock: Callable[[], float] = time.time) -> None:
    """Remove the folder at the end of a wait, unless another wait still counts in it.

    `asked`: the queries that this wait made in the last minute.
    """
    current = _minute(clock)
    with contextlib.suppress(OSError), _own_folder() as folder:
        for name in os.listdir(folder):
            size = os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
            if name.startswith(_COUNT) and (name != current or size <= asked):
                os.unlink(name, dir_fd=folder)
        os.rmdir(_path())


@contextlib.contextmanager
def _own_folder() -> Iterator[int]:
    """Open the folder. Raises OSError where it is not there, is a link or belongs to somebody else."""
    folder = os.open(_path(), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(folder).st_uid != os.getuid():
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), _path())
        yield folder
    finally:
        os.close(folder)


def _minute(clock: Callable[[], float]) -> str:
    return f"{_COUNT}{int(clock()) // 60}"


def _path() -> str:
    return os.path.join(os.environ.get("XDG_RUNTIME_DIR") or "/tmp", f"rankzero-{os.getuid()}")
