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
# Sets `over` when this minute's queries are used up.
_SHELL = r"""b=${XDG_RUNTIME_DIR:-/tmp}/rankzero-$(id -u) over=
mkdir -m 700 "$b" 2>/dev/null
if [ -O "$b" ] && [ ! -L "$b" ] && [ -w "$b" ]; then
c=$b/asked.$(($(date +%s) / 60)); [ -e "$c" ] || rm -f "$b"/asked.*; printf . >> "$c"
[ "$(wc -c < "$c")" -le MOST ] || over=1
fi"""


def shell(most: int) -> str:
    """POSIX shell text that counts a query and sets `over` to a non-empty text after more than `most` this minute."""
    return _SHELL.replace("MOST", str(most))


def drop(asked: int, clock: Callable[[], float] = time.time) -> None:
    """Remove the folder at the end of a wait, unless another wait still counts in it.

    `asked`: the queries that this wait made in the last minute.
    """
    path = os.path.join(os.environ.get("XDG_RUNTIME_DIR") or "/tmp", f"rankzero-{os.getuid()}")
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
