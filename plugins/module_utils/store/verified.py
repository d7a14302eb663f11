# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a store was found to be sound already, so that the next launch reads it no more.

A thing is known by what the file system alone says of it: inode numbers, owners, modes, sizes, and times of change,
which no user can set. Of a code tree each file is looked at, of an image the file that a launch uses. Of anything else
the folder is: where the walk has found
that only trusted owners can write below it, only they can have changed it since. The memory lies in the user's own
state_root; a memory that another user could have written is none.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import is_own
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import open_folders, place

# A file that was changed in the very moment in which it was read may bear the same time before and after.
SETTLED_SECONDS = 10.0


@dataclass(frozen=True)
class Memory:
    """`folder`: where it is kept; without one nothing is remembered."""

    folder: str | None

    def identity(self, path: str, names: Iterable[str] = ()) -> str:
        """What a thing is known by: its folder and the files `names` in it. Empty where it is not to be remembered, or
        where a change is too young. Raises OSError.
        """
        if self.folder is None:
            return ""
        total, newest = hashlib.sha256(), 0.0
        for name in ["", *sorted(names)]:
            status = os.lstat(os.path.join(path, name))
            facts = (status.st_ino, status.st_uid, status.st_gid, status.st_mode, status.st_size)
            times = (status.st_mtime_ns, status.st_ctime_ns)
            total.update(os.fsencode(name) + b"\0" + repr((facts, times)).encode())
            newest = max(newest, status.st_ctime)
        return total.hexdigest() if newest < time.time() - SETTLED_SECONDS else ""

    def knows(self, path: str, identity: str) -> bool:
        """Whether this thing was verified with this identity before. Only a record of one's own counts."""
        name = self._name(path)
        try:
            if not name or not is_own(name) or os.path.islink(name):
                return False
            with open(name, encoding="ascii") as stream:
                return stream.read(65) == identity
        except (OSError, ValueError):
            return False

    def learn(self, path: str, identity: str) -> None:
        """Best effort: what is not remembered is looked at again."""
        name = self._name(path)
        with contextlib.suppress(OSError):
            open_folders(os.path.dirname(name))
            own = f"{name}.{place()}-{os.getpid()}"
            with open(own, "x", encoding="ascii") as stream:
                os.fchmod(stream.fileno(), 0o644)
                stream.write(identity)
            os.replace(own, name)

    def _name(self, path: str) -> str:
        """The thing's file in the folder."""
        return os.path.join(self.folder or "", hashlib.sha256(os.fsencode(path)).hexdigest()[:32])
