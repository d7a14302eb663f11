# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The content of files: read in blocks, its SHA-256, whether it is a whole squashfs, and replaced as a whole."""

from __future__ import annotations

import contextlib
import os
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import IO

# Bytes that are read at once.
BLOCK = 1 << 20
SQUASHFS, SUPERBLOCK = b"hsqs", 96


def blocks(stream: IO[bytes], most: int | None = None) -> Iterator[bytes]:
    """The rest of a binary stream in blocks, at most `most` bytes of it. Raises what its `read` raises."""
    left = most
    while left is None or left > 0:
        block: bytes = stream.read(BLOCK if left is None else min(left, BLOCK))
        if not block:
            return
        left = None if left is None else left - len(block)
        yield block


def sha256_of(content: Iterable[bytes], *takers: Callable[[bytes], object]) -> str:
    """The SHA-256 of blocks, in hex. Each block is given to the takers as well, such as `out.write`."""
    import hashlib  # only where something is summed: each look at a job imports this file

    total = hashlib.sha256()
    for block in content:
        total.update(block)
        for take in takers:
            take(block)
    return total.hexdigest()


def file_sha256(path: str, *, start: int = 0) -> str:
    """The SHA-256 of a file's content from the byte `start` on, in hex. Raises OSError."""
    with open(path, "rb") as stream:
        stream.seek(start)
        return sha256_of(blocks(stream))


def replace_file(
    path: str, content: str | bytes, *, mode: int = 0o666, permissions: int | None = None, durably: bool = False
) -> None:
    """Make a file hold this content by a rename: who reads it gets the old content or the new one. Raises OSError.

    `mode`: as for open(2), before the umask. `permissions`: whatever the umask. `durably`: the content survives a crash
    of the machine.
    """
    temporary = f"{path}.{os.uname().nodename}-{os.getpid()}-{threading.get_ident()}.tmp"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(temporary, flags, mode), "wb") as stream:
            if permissions is not None:
                os.fchmod(stream.fileno(), permissions)
            stream.write(content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content)
            stream.flush()
            if durably:
                os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def is_squashfs(path: str) -> bool:
    """Return whether a file starts with the squashfs magic number. Raises OSError."""
    with open(path, "rb") as stream:
        return stream.read(len(SQUASHFS)) == SQUASHFS


def squashfs_cut_off(path: str) -> str | None:
    """Return `N bytes of M` if a squashfs file is shorter than its superblock states, else None. Raises OSError."""
    with open(path, "rb") as stream:
        head = stream.read(SUPERBLOCK)
    # At offset 40: the length of the file system as 8 bytes, little-endian.
    length = struct.unpack_from("<Q", head.ljust(SUPERBLOCK, b"\0"), 40)[0]
    size = os.path.getsize(path)
    return f"{size} bytes of {length}" if size < max(length, SUPERBLOCK) else None
