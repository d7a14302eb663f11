# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remember which entries of a store were verified, so that the next launch need not read them again.

An entry is identified by its file status: inode numbers, owners, modes, sizes and change times, which no user can set.
For a code tree this covers each file, for an image the file that a launch uses. For all other entries it covers the
folder: once the walk has shown that only trusted owners can write below it, only they can have changed it since. The
records are in the user's own state_root; a record that another user could have written is ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import replace_file
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import is_own
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import open_folders

# A file that changes while it is read may have the same time before and after. Wait this long (seconds).
SETTLED_SECONDS = 10.0


@dataclass(frozen=True)
class Memory:
    """`folder`: where the records are kept; None: nothing is remembered."""

    folder: str | None

    def identity(self, path: str, names: Iterable[str] = ()) -> str:
        """The identity of an entry: a sha256 over the status of its folder and the files `names` in it.

        Empty where nothing is remembered, or where the last change is too recent. Raises OSError.
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
        """Whether the entry was verified with this identity before. Only a record that the user owns counts."""
        name = self._name(path)
        try:
            if not name or not is_own(name) or os.path.islink(name):
                return False
            with open(name, encoding="ascii") as stream:
                return stream.read(65) == identity
        except (OSError, ValueError):
            return False

    def learn(self, path: str, identity: str) -> None:
        """Remember the identity, on a best-effort basis: an entry without a record is checked again."""
        name = self._name(path)
        with contextlib.suppress(OSError):
            open_folders(os.path.dirname(name))
            replace_file(name, identity, permissions=0o644)

    def _name(self, path: str) -> str:
        """The record file of the entry."""
        return os.path.join(self.folder or "", hashlib.sha256(os.fsencode(path)).hexdigest()[:32])
