# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files in memory (memfd) of this user's processes on this node. Used by rank/stacks.py and rank/traces.py.

A name in /proc/PID/fd proves nothing: in a mount namespace of their own, users can give any file the name of one in
memory, and a program with the rights of another user inherits what it was given. So the kernel is asked for what cannot
be made up: who owns the process and the file, and that the file lies where only files in memory do. Standard library
only.
"""

from __future__ import annotations

import os

from core import files


def opened(path: str) -> int | None:
    """A descriptor of a file in memory that belongs to this user, for reading and writing; None for any other file."""
    try:
        device = device_of_memory()
        # Asked before it is opened as well: opening some devices does something.
        if not _fits(os.stat(path), device):
            return None
        descriptor = files.opened(path, os.O_RDWR)
    except (OSError, AttributeError):  # a Python before 3.8 makes no file in memory, so there is none to compare
        return None
    if _fits(os.fstat(descriptor), device):
        return descriptor
    os.close(descriptor)
    return None


def device_of_memory() -> int:
    """The device of the kernel's own file system for files in memory, which nobody can mount."""
    sample = os.memfd_create("rankzero")
    try:
        return os.fstat(sample).st_dev
    finally:
        os.close(sample)


def _fits(status: os.stat_result, device: int) -> bool:
    return status.st_dev == device and status.st_uid == os.getuid()
