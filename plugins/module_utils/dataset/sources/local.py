# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A dataset from a file or folder on the host."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.partial import Item
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.sources.base import Changed, Streams, read_blocks
from ansible_collections.rankzero.slurm.plugins.module_utils.store.manifest import plain
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import walk

_MEND = "replace it by a file, or exclude it"


class Local(Streams):
    """`src` is absolute. A link counts as its target; a link out of the folder is an error."""

    def __init__(self, src: str) -> None:
        self.src = os.path.realpath(src)
        self.label = src
        if not os.path.exists(self.src):
            raise RankzeroError(f"src: {src} is not on this host; give an existing file or folder")
        self.single = not os.path.isdir(self.src)

    def listing(self, wanted: Callable[[str], bool]) -> list[Item]:
        """The files below `src` that are wanted, or `src` itself if it is a file."""
        names = [plain(os.path.basename(self.src))] if self.single else names_below(self.src, wanted)
        return [self._item(name) for name in names if wanted(name)]

    def path(self, name: str) -> str:
        """The path of a listed file on this host."""
        return self.src if self.single else os.path.join(self.src, name)

    def _item(self, name: str) -> Item:
        try:
            status = os.stat(self.path(name))
        except OSError as error:
            raise RankzeroError(f"src: {self.path(name)} cannot be read: {error.strerror}") from error
        return Item(name, status.st_size, None, f"{status.st_mtime_ns}")

    @contextmanager
    def open(self, item: Item, offset: int) -> Iterator[tuple[int, Iterable[bytes]]]:
        """The file from `offset` on. Raises Changed if it is no longer the one that was listed."""
        now = self._item(item.path)
        if (now.size, now.stamp) != (item.size, item.stamp):
            raise Changed(Item(now.path, now.size, item.sha256, now.stamp))
        with open(self.path(item.path), "rb") as stream:
            stream.seek(offset)
            yield offset, read_blocks(stream)


def names_below(folder: str, wanted: Callable[[str], bool]) -> list[str]:
    """The wanted files below a folder, including links to files inside it. Raises RankzeroError."""
    names = []
    root = os.path.realpath(folder).rstrip("/") + "/"
    try:
        for name in walk(folder, lambda below: below == ".git"):
            if not wanted(name):
                continue
            path = os.path.join(folder, name)
            real = os.path.realpath(path)
            if not real.startswith(root):
                raise RankzeroError(f"src: {path} is a link to a path outside of the folder, {real}; {_MEND}")
            if os.path.isdir(real):
                raise RankzeroError(f"src: {path} is a link to a folder; {_MEND}")
            if not os.path.isfile(real):
                raise RankzeroError(f"src: {path} is not a file, or is a broken link; {_MEND}")
            names.append(plain(name))
    except OSError as error:
        raise RankzeroError(f"src: {error.filename or folder} cannot be read: {error.strerror}") from error
    return names
