# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove a tree in which somebody may put a link in the place of a folder meanwhile: by open folders, never by paths.

Standard library only, and of this collection nothing: jobs use the same file on their nodes (runtime/clearing.py is a
link to it).
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence

_HANDLE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def clear(folder: int, keep: Sequence[str] = ()) -> None:
    """Remove what lies in an open folder. No link is followed and no other file system entered. Raises OSError."""
    with os.scandir(folder) as found:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found if entry.name not in keep]
    for name, is_folder in entries:
        if is_folder:
            remove_folder(name, folder)
        else:
            os.unlink(name, dir_fd=folder)


def remove_folder(name: str, above: int) -> None:
    """Remove a folder of an open folder, with all that is in it. Raises OSError."""
    handle = os.open(name, _HANDLE, dir_fd=above)
    try:
        if os.fstat(handle).st_dev != os.fstat(above).st_dev:
            raise OSError(errno.EBUSY, "another file system is mounted there", name)
        # The owner's right may have been taken away. By the descriptor: the name could lead elsewhere by now.
        with contextlib.suppress(PermissionError):
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
        inner = os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(handle)
    try:
        clear(inner)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=above)
