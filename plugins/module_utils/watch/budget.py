# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limit how often all waits of one user on one host query Slurm.

Each query appends one byte to a file for the current minute, in a folder that belongs to the user. The folder exists
while a wait runs; the last wait removes it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable

_COUNT = "asked."


def count(most: int, clock: Callable[[], float] = time.time) -> bool:
    """Count a query. Returns False once there were more than `most` this minute.

    Where nothing can be counted, every query is allowed.
    """
    path = _folder()
    current = f"{_COUNT}{int(clock()) // 60}"
    with contextlib.suppress(OSError):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(folder).st_uid != os.getuid():
                return True
            names = os.listdir(folder)
            for name in names if current not in names else ():
                if name.startswith(_COUNT):
                    os.unlink(name, dir_fd=folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            file = os.open(current, flags, 0o600, dir_fd=folder)
            try:
                os.write(file, b".")
                return os.fstat(file).st_size <= most
            finally:
                os.close(file)
        finally:
            os.close(folder)
    return True


def drop(asked: int, clock: Callable[[], float] = time.time) -> None:
    """Remove the folder at the end of a wait, unless another wait still counts in it.

    `asked`: the queries that this wait made in the last minute.
    """
    path = _folder()
    current = f"{_COUNT}{int(clock()) // 60}"
    with contextlib.suppress(OSError):
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(folder).st_uid != os.getuid():
                return
            for name in os.listdir(folder):
                size = os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
                if name.startswith(_COUNT) and (name != current or size <= asked):
                    os.unlink(name, dir_fd=folder)
            os.rmdir(path)
        finally:
            os.close(folder)


def _folder() -> str:
    return os.path.join(os.environ.get("XDG_RUNTIME_DIR") or "/tmp", f"rankzero-{os.getuid()}")
