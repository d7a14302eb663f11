# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record when an entry of a store was last used, and which state roots use a store, to protect entries from a prune.

ROOT/used/PLACE/NAME is the mark of ROOT/PLACE/NAME. Its modification time, by the file system's clock, is that of the
last use. A launch sets the mark first and then checks that the entry exists. A prune locks the entry, reads the mark
and renames the entry under the lock. So either the prune sees the mark, or the launch sees that the entry is gone.
ROOT/used/state_roots/ names the state roots whose runs use the store.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import json_of
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import KINDS
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import (
    folders_as_above,
    group_writes,
    process_scope,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.store.locks import hold, is_held

PLACES = (*(kind.folder for kind in KINDS), "archives")
USED = "used"
STATE_ROOTS = "state_roots"
# How long (seconds) a launch waits for a prune that holds the same entry; a prune needs milliseconds.
_WAIT = 60.0


@dataclass(frozen=True)
class Slot:
    """The slot of an entry in a store: ROOT/PLACE/NAME."""

    root: str
    place: str
    name: str

    @property
    def path(self) -> str:
        """The path of the entry."""
        return os.path.join(self.root, self.place, self.name)

    @property
    def mark(self) -> str:
        """The file whose modification time is that of the entry's last use."""
        return os.path.join(self.root, USED, self.place, self.name)

    @property
    def lock(self) -> str:
        """The lock that a prune takes, and for which a launch waits."""
        return f"{self.mark}.lock"


def slot_of(path: str) -> Slot | None:
    """The slot of a path; None for a path in no store, which is never pruned."""
    above, name = os.path.split(os.path.normpath(path))
    root, kind = os.path.split(above)
    return Slot(root, kind, name) if kind in PLACES else None


def use(path: str, state_root: str | None = None) -> None:
    """Mark the entry at `path` as used now, by a launch of `state_root`; waits until no prune holds it.

    The caller checks afterwards that the entry exists. Raises OSError if the store cannot be written, RankzeroError if
    a hanging prune holds the entry.
    """
    slot = slot_of(path)
    if slot is None:
        return
    touch(slot)
    if state_root is not None:
        register(slot.root, state_root)
    if is_held(slot.lock):
        with hold(slot.lock, _WAIT):
            pass


def mark(path: str) -> None:
    """As `use`, where the store may be another user's, which is read-only for us."""
    with contextlib.suppress(OSError):
        use(path)


def touch(slot: Slot) -> None:
    """Set the time of the mark to now. Raises OSError."""
    try:
        os.utime(slot.mark)
    except FileNotFoundError:
        folders_as_above(os.path.dirname(slot.mark))
        _new_file(slot.mark)


def register(root: str, state_root: str) -> None:
    """Record in a store that runs of `state_root` use it. Raises OSError."""
    folder = os.path.join(root, USED, STATE_ROOTS)
    target = os.path.join(folder, hashlib.sha256(os.fsencode(state_root)).hexdigest()[:16])
    if os.path.exists(target):
        return
    folders_as_above(folder)
    temporary = f"{target}.{process_scope()}-{os.getpid()}-{time.time_ns()}"
    _new_file(temporary, json.dumps({"state_root": state_root}))
    os.replace(temporary, target)


def _new_file(path: str, content: str = "") -> None:
    """Make a file that is group-writable only if its folder is. An existing file is left as it is."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(FileExistsError), os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as stream:
        os.fchmod(stream.fileno(), 0o644 | group_writes(os.path.dirname(path)))
        stream.write(content)


def registered(root: str) -> dict[str, str]:
    """State root -> the file that names it. Raises OSError and ValueError if they cannot be read."""
    folder = os.path.join(root, USED, STATE_ROOTS)
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return {}
    paths = {}
    for name in names:
        if "." not in name:
            paths[str(json_of(os.path.join(folder, name))["state_root"])] = os.path.join(folder, name)
    return paths
