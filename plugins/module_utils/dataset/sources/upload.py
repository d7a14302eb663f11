# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A dataset that the controller sends in pieces, so that an interrupted transfer can resume."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.layout import Place
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.partial import Item, Parts
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.sources.base import Source
from ansible_collections.rankzero.slurm.plugins.module_utils.store.manifest import File, plain
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.progress import Meter


class Sent(Source):
    """The source of a dataset whose pieces have all arrived."""

    def __init__(self, files: Iterable[File], source: str) -> None:
        self.items = [Item(file.path, file.size, file.sha256) for file in files]
        self.label = source

    def listing(self, wanted: Callable[[str], bool]) -> list[Item]:
        """The wanted files among those that the controller announced."""
        return [item for item in self.items if wanted(item.path)]

    def bring(self, items: Sequence[Item], parts: Parts, meter: Meter) -> list[Item]:
        """Check that every file has arrived completely. Raises RankzeroError if one has not."""
        for item in items:
            # An empty file is in no piece.
            with open(parts.growing(item), "ab") as stream:
                if stream.tell() != item.size:
                    raise RankzeroError(
                        f"src: {item.path} has come only in part ({stream.tell()} bytes of {item.size}): run again"
                    )
        return list(items)


def append_piece(place: Place, piece: str, entries: Sequence[tuple[str, str | None, int, int, int]]) -> int:
    """Append a piece to the parts. Returns the bytes appended.

    `entries`: (path, sha256, size, offset, length); the piece contains `length` bytes for each. Raises RankzeroError if
    the files here changed meanwhile or the piece is incomplete, and OSError.
    """
    parts = Parts(os.path.join(place.partial, "parts"))
    total = 0
    with open(piece, "rb") as stream:
        for path, sha256, size, offset, length in entries:
            target = parts.growing(Item(plain(path), size, sha256))
            with open(target, "ab") as out:
                if out.tell() != offset:
                    raise RankzeroError(
                        f"src: {path} has {out.tell()} bytes on the cluster, where {offset} were: another run sends "
                        "it, too. Wait for its end and run again."
                    )
                content = stream.read(length)
                if len(content) != length:
                    raise RankzeroError(f"src: a part of {path} was transferred incompletely: run again")
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
            total += length
    return total
