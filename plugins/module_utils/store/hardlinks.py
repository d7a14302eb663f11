# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Store each content once: the places of a store that hold it are hard links to the file named after its digest."""

from __future__ import annotations

import contextlib
import os

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import is_own
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import open_folders


def share(target: str, known: str) -> None:
    """Make `target` and `known`, the file named after the content's digest, the same file, whichever existed first.

    On a file system without hard links each place has its own file. The same holds if others can write `known`: then
    its name does not guarantee its content.
    """
    with contextlib.suppress(OSError):
        open_folders(os.path.dirname(known))
        try:
            os.link(target, known)
        except FileExistsError:
            if is_own(known) and os.path.getsize(known) == os.path.getsize(target):
                os.link(known, f"{target}.shared")
                os.replace(f"{target}.shared", target)


def drop_unshared(folder: str) -> list[str]:
    """Remove this user's files in `folder` that have no other hard link; returns their paths. Others' files stay."""
    dropped = []
    with contextlib.suppress(OSError), os.scandir(folder) as items:
        for item in items:
            status = os.lstat(item.path)  # DirEntry.stat() gives no link count on some systems
            if item.is_file(follow_symlinks=False) and status.st_nlink == 1 and status.st_uid == os.geteuid():
                os.unlink(item.path)
                dropped.append(item.path)
    return dropped
