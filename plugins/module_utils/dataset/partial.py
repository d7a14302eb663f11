# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The transferred parts of an incomplete dataset: PARTIAL/parts/, one file for each file of the dataset.

A part's name contains digests of the file's name and of its version at the source. So a killed run finds its parts
again, and bytes of a file that was replaced at the source are never used as the beginning of the new one. The name of a
complete part also contains the sha256 of its content.
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
    """One file that a source offers. `stamp`: identifies its version there; `size`: bytes, if known."""

    path: str
    size: int | None = None
    sha256: str | None = None
    stamp: str = ""


@dataclass(frozen=True)
class Part:
    """A file below `folder` that is incomplete, or complete (then with its sha256)."""

    path: str
    size: int
    sha256: str | None = None


class Parts:
    """The parts in one folder, which is created if it is missing."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        os.makedirs(folder, exist_ok=True)

    def stem(self, item: Item) -> str:
        """A name for the item's part that changes when the file changes at the source."""
        identity = f"{item.stamp}|{item.sha256 or ''}"
        return f"{_short(item.path)}-{_short(identity)}"

    def growing(self, item: Item) -> str:
        """The path that the bytes of an item are written to."""
        return os.path.join(self.folder, self.stem(item))

    def find(self, items: Iterable[Item]) -> tuple[dict[str, Part], list[str]]:
        """The parts of the items, by path, and the paths of items with a part of an older version.

        Parts of no item, or of an older version, are removed.
        """
        wanted = {self.stem(item): item for item in items}
        names = {stem.partition("-")[0]: item.path for stem, item in wanted.items()}
        parts, changed = {}, set()
        with os.scandir(self.folder) as listed:
            for entry in list(listed):
                stem, _dot, sha256 = entry.name.partition(_WHOLE)
                item = wanted.get(stem)
                if item is None:
                    if stem.partition("-")[0] in names:
                        changed.add(names[stem.partition("-")[0]])
                    os.unlink(entry.path)
                    continue
                parts[item.path] = Part(entry.path, entry.stat().st_size, sha256 or None)
        return parts, sorted(changed)

    def finish(self, item: Item, sha256: str) -> Part:
        """Mark the part of an item as complete, with the sha256 of its content."""
        path = self.growing(item)
        with open(path, "rb") as stream:
            os.fsync(stream.fileno())
        complete = f"{path}{_WHOLE}{sha256}"
        os.replace(path, complete)
        return Part(complete, os.path.getsize(complete), sha256)

    def put_aside(self, item: Item, folder: str) -> str:
        """Move the part of an item with wrong content into `folder`; returns its new path."""
        os.makedirs(folder, exist_ok=True)
        target = os.path.join(folder, item.path.replace("/", "--"))
        os.replace(self.growing(item), target)
        return target

    def drop(self, item: Item) -> None:
        """Remove the incomplete part of an item."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.growing(item))


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:24]
