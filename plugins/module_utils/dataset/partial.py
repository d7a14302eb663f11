# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has come of a dataset that is still growing: PARTIAL/parts/, a file each, named after what it will be.

A part's name holds the file's name and what its source said of it (both as digests). So a run that was killed finds
what it had, and bytes of a file that was replaced at its source are never taken for the beginning of the new one. A
part that is whole has the sha256 of its content in its name, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass

_WHOLE = ".whole-"


@dataclass(frozen=True)
class Item:
    """One file that a source offers. `stamp`: what says that it is still the same there; `size` in bytes, if known."""

    path: str
    size: int | None = None
    sha256: str | None = None
    stamp: str = ""


@dataclass(frozen=True)
class Part:
    """A file below `folder` that grows, or is whole (then with its sha256)."""

    path: str
    size: int
    sha256: str | None = None


class Parts:
    """The parts in one folder, which is made where it is missing."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        os.makedirs(folder, exist_ok=True)

    def stem(self, item: Item) -> str:
        """A name for the item's part that changes when the file at the source does."""
        said = f"{item.stamp}|{item.sha256 or ''}"
        return f"{_short(item.path)}-{_short(said)}"

    def growing(self, item: Item) -> str:
        """Where the bytes of an item go."""
        return os.path.join(self.folder, self.stem(item))

    def find(self, items: Iterable[Item]) -> tuple[dict[str, Part], list[str]]:
        """What is there of the items, by path, and the paths of those of which something older lies here.

        What belongs to none of the items, or to an older one, is removed.
        """
        wanted = {self.stem(item): item for item in items}
        names = {stem.partition("-")[0]: item.path for stem, item in wanted.items()}
        found, changed = {}, set()
        with os.scandir(self.folder) as listed:
            for entry in list(listed):
                stem, _dot, sha256 = entry.name.partition(_WHOLE)
                item = wanted.get(stem)
                if item is None:
                    if stem.partition("-")[0] in names:
                        changed.add(names[stem.partition("-")[0]])
                    os.unlink(entry.path)
                    continue
                found[item.path] = Part(entry.path, entry.stat().st_size, sha256 or None)
        return found, sorted(changed)

    def finish(self, item: Item, sha256: str) -> Part:
        """The part of an item is whole, and that is its content."""
        path = self.growing(item)
        with open(path, "rb") as stream:
            os.fsync(stream.fileno())
        whole = f"{path}{_WHOLE}{sha256}"
        os.replace(path, whole)
        return Part(whole, os.path.getsize(whole), sha256)

    def put_aside(self, item: Item, folder: str) -> str:
        """Move the part of an item, which is not what it should be, into `folder`; its new path."""
        os.makedirs(folder, exist_ok=True)
        target = os.path.join(folder, item.path.replace("/", "--"))
        os.replace(self.growing(item), target)
        return target

    def drop(self, item: Item) -> None:
        """Forget what there is of an item."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.growing(item))


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:24]
