# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the superblock of a squashfs file (kernel: fs/squashfs/squashfs_fs.h)."""

from __future__ import annotations

import os
import struct

MAGIC = b"hsqs"
SUPERBLOCK = 96


def is_squashfs(path: str) -> bool:
    """Return whether a file starts with the squashfs magic number. Raises OSError."""
    with open(path, "rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def cut_off(path: str) -> str | None:
    """Return `N bytes of M` if a squashfs file is shorter than its superblock states, else None. Raises OSError."""
    with open(path, "rb") as stream:
        head = stream.read(SUPERBLOCK)
    # At offset 40: the length of the file system as 8 bytes, little-endian.
    length = struct.unpack_from("<Q", head.ljust(SUPERBLOCK, b"\0"), 40)[0]
    size = os.path.getsize(path)
    return f"{size} bytes of {length}" if size < max(length, SUPERBLOCK) else None
