# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder as content: its files and one digest over them.

Both sides use it: the controller before packing, the cluster after unpacking. The digest depends only on names,
contents, the execute bit and link targets; not on times, owners, umask, empty folders or the location of the tree.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import file_sha256

FORMAT = b"rankzero-tree-1\n"


@dataclass(frozen=True)
class Entry:
    """One file of a tree. `path` is relative, with `/`; `kind` is f (file), x (executable file) or l (link)."""

    path: str
    kind: str
    sha256: str
    size: int


# Digits of a file's short digest: enough to tell two versions of one file apart.
_SHORT = 12


def short_digest(entry: Entry) -> str:
    """The kind of a file and the first digits of its digest, to compare two trees for people."""
    return entry.kind + entry.sha256[:_SHORT]


def digest(entries: Iterable[Entry]) -> str:
    """The tree's digest: sha256 over the entries sorted by the bytes of their path. No path contains the zero byte
    that ends an entry.
    """
    total = hashlib.sha256(FORMAT)
    for entry in sorted(entries, key=lambda item: os.fsencode(item.path)):
        total.update(f"{entry.kind} {entry.sha256} ".encode("ascii") + os.fsencode(entry.path) + b"\0")
    return total.hexdigest()


def read_entry(root: str, path: str) -> Entry | None:
    """The entry for `path` below `root`; None for anything but a file or link (a folder, socket, device).

    Raises OSError.
    """
    full = os.path.join(root, path)
    status = os.lstat(full)
    if stat.S_ISLNK(status.st_mode):
        target = os.fsencode(os.readlink(full))
        return Entry(path, "l", hashlib.sha256(target).hexdigest(), len(target))
    if not stat.S_ISREG(status.st_mode):
        return None
    return Entry(path, "x" if status.st_mode & 0o100 else "f", file_sha256(full), status.st_size)


def small_text(path: str, most: int) -> str | None:
    """The text of a regular file of at most `most` bytes; None for any other file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            content = stream.read(most + 1)
        return content.decode("utf-8") if len(content) <= most and b"\0" not in content else None
    except (OSError, UnicodeDecodeError):
        return None


def _keep_all(folder: str) -> bool:
    return False


def walk(root: str, skip: Callable[[str], bool] = _keep_all) -> Iterator[str]:
    """Relative paths of everything below `root` except folders; links are returned, never followed.

    A folder for which `skip` returns True is not entered. Raises OSError.
    """
    pending = [""]
    while pending:
        folder = pending.pop()
        with os.scandir(os.path.join(root, folder)) as entries:
            for item in entries:
                path = f"{folder}/{item.name}" if folder else item.name
                if item.is_dir(follow_symlinks=False):
                    if not skip(path):
                        pending.append(path)
                else:
                    yield path


#: Total size of the files up to which two trees are compared for people.
_COMPARED_BYTES = 50_000_000


def short_digests(root: str) -> dict[str, str] | None:
    """path -> short digest of each file of a tree; None if the tree is not there or too large to be compared."""
    digests: dict[str, str] = {}
    size = 0
    try:
        for path in walk(root):
            size += os.lstat(os.path.join(root, path)).st_size
            if size > _COMPARED_BYTES:
                return None
            entry = read_entry(root, path)
            if entry is not None:
                digests[path] = short_digest(entry)
    except OSError:
        return None  # removed by a prune
    return digests


def read_tree(root: str) -> list[Entry]:
    """All files of the tree at `root`, in no particular order. Raises OSError."""
    entries = (read_entry(root, path) for path in walk(root))
    return [entry for entry in entries if entry is not None]
