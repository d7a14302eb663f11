# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading what another host has just written, on file systems that remember (NFS, Lustre, FUSE).

They remember three things: that a name was missing, a file's size, and its content. A name is therefore looked for in
the listing of its folder, and never asked for while it is missing: asked for once, it stays missing for up to a minute.
Sizes are asked anew (statx(2), AT_STATX_FORCE_SYNC). Pure standard library.
"""

from __future__ import annotations

import ctypes
import os

_AT_FDCWD, _FORCE_SYNC, _SIZE = -100, 0x2000, 0x200
_libc = ctypes.CDLL(None)


def is_listed(path: str) -> bool:
    """Whether a file's folder names it."""
    try:
        return os.path.basename(path) in os.listdir(os.path.dirname(path) or ".")
    except OSError:
        return False


def sync(path: str) -> None:
    """Ask the server for a file's attributes, so that the next look at it sees its true size. Never fails."""
    statx = getattr(_libc, "statx", None)
    if statx is not None:  # glibc before 2.28 has none
        statx(_AT_FDCWD, os.fsencode(path), _FORCE_SYNC, _SIZE, ctypes.create_string_buffer(256))


def text_of(path: str) -> str:
    """A file's text as it is now; "" where there is none that can be read."""
    if not is_listed(path):
        return ""
    sync(path)
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
