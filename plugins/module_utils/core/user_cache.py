# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small files that a command keeps for the next ones of its user.

They save time and nothing else: a file that another user could have written is not read, and a home without space is no
error.
"""

from __future__ import annotations

import contextlib
import os
import time

from ansible_collections.rankzero.slurm.plugins.module_utils.core.module_cache import UNUSED, Copy, Unusable


class UserCache:
    """A folder of such files. `folder`: as of `process.user_cache`; of a user without a home it is relative, so in a
    folder that anybody may have filled, and is not used.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is none to rely on."""
        if not os.path.isabs(self.folder):
            return None
        try:
            with contextlib.closing(Copy(self.folder)) as folder:
                return folder.read(name)
        except (OSError, Unusable):
            return None

    def write(self, name: str, content: bytes) -> None:
        """Keep a file, and remove those that are a week old: what is still used is written again."""
        if not os.path.isabs(self.folder):
            return
        with contextlib.suppress(OSError, Unusable):
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            with contextlib.closing(Copy(self.folder)) as folder:
                folder.write(name, content)
            for other in os.scandir(self.folder):
                if other.stat(follow_symlinks=False).st_mtime < time.time() - UNUSED:
                    os.unlink(other.path)
