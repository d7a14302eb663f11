# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interface of dataset sources: list the files, and transfer some of them, resuming interrupted transfers.

A source of streams (a folder, http, an object store) opens one file at an offset; the rest is common to all.
"""

from __future__ import annotations

import http.client
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import blocks, sha256_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.partial import Item, Parts
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.progress import Meter

BLOCK = 1 << 20
#: The number of tries for a file without a single new byte.
ATTEMPTS = 4
_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


class Changed(Exception):
    """The source now has another file of the same name: `item`."""

    def __init__(self, item: Item) -> None:
        super().__init__(item.path)
        self.item = item


class Failed(RankzeroError):
    """A file cannot be transferred, and another try would not help."""


class Source(ABC):
    """A source of a dataset. `label` names it in messages and contains no secret."""

    label = ""
    parallel = 4

    @abstractmethod
    def listing(self, wanted: Callable[[str], bool]) -> list[Item]:
        """The files of the source whose names are wanted. Raises RankzeroError."""

    def expect(self, names: Iterable[str]) -> None:  # noqa: B027
        """Tell the source which files exist. Only sources that cannot list their files use this."""

    def begun(self, item: Item, parts: Parts) -> int:
        """Bytes of an item that a killed run left elsewhere than in `parts`."""
        return 0

    @abstractmethod
    def bring(self, items: Sequence[Item], parts: Parts, meter: Meter) -> list[Item]:
        """Transfer the contents of these items into `parts`, each from the end of its part; returns the items received.

        Raises RankzeroError that names what could not be transferred; complete parts are kept.
        """


class Streams(Source):
    """A source that opens a file at an offset."""

    @abstractmethod
    def open(self, item: Item, offset: int) -> AbstractContextManager[tuple[int, Iterable[bytes]]]:
        """(the offset of the first block, the blocks). Raises Changed, Failed, OSError and HTTPException."""

    def bring(self, items: Sequence[Item], parts: Parts, meter: Meter) -> list[Item]:
        """Use up to `parallel` streams. An interrupted stream is opened again at its end."""
        return together(lambda item: self._one(item, parts, meter), items, self.parallel)

    def _one(self, item: Item, parts: Parts, meter: Meter) -> Item:
        tries = changes = 0
        while True:
            before = _size(parts.growing(item))
            try:
                self._more(item, parts, meter)
                if item.size in (None, _size(parts.growing(item))):
                    meter.count(0, files=1)
                    return item
                why = f"the connection ended after {_size(parts.growing(item))} bytes of {item.size}"
            except Changed as changed:
                parts.drop(item)
                meter.lose(before)
                meter.note(f"{item.path} changed at its source meanwhile: it starts again")
                item, changes, why = changed.item, changes + 1, "it changes all the time"
            except (OSError, http.client.HTTPException) as error:
                why = str(getattr(error, "strerror", None) or error)
            tries = 0 if _size(parts.growing(item)) > before else tries + 1
            if tries >= ATTEMPTS or changes >= ATTEMPTS:
                raise Failed(f"{item.path}: {why}")
            time.sleep(0.2 * 2**tries if tries else 0)

    def _more(self, item: Item, parts: Parts, meter: Meter) -> None:
        path = parts.growing(item)
        offset = _size(path)
        if item.size is not None and offset > item.size:
            offset = 0
        if offset and offset == item.size:
            return
        with self.open(item, offset) as (begins, blocks):
            if begins != offset:
                meter.lose(offset - begins)
                if offset:
                    meter.note(f"{item.path}: the source cannot resume a file; its transfer starts again")
            # Unbuffered: received bytes are written even if this process is killed.
            with open(path, "r+b" if begins else "wb", buffering=0) as stream:
                stream.truncate(begins)
                stream.seek(begins)
                for block in blocks:
                    stream.write(block)
                    meter.count(len(block))


def together(work: Callable[[_Given], _Made], items: Iterable[_Given], parallel: int) -> list[_Made]:
    """`work` on all items in threads. Raises RankzeroError with up to a dozen errors; others are raised at once."""
    made, complaints = [], []
    with ThreadPoolExecutor(max_workers=max(1, parallel)) as pool:
        running = [pool.submit(work, item) for item in items]
        for future in as_completed(running):
            try:
                made.append(future.result())
            except RankzeroError as error:
                complaints.append(error.message)
            except BaseException:
                for other in running:
                    other.cancel()
                raise
    if complaints:
        more = f"\nand {len(complaints) - 12} more" if len(complaints) > 12 else ""
        raise RankzeroError("\n".join(sorted(complaints)[:12]) + more)
    return made


def hashed(path: str, meter: Meter) -> str:
    """sha256 of a file, counted in `meter`. Raises OSError."""
    with open(path, "rb") as stream:
        return sha256_of(blocks(stream), lambda block: meter.count(len(block)))


def read_blocks(stream: Any) -> Iterator[bytes]:
    """The rest of a stream, in blocks as they arrive."""
    read = getattr(stream, "read1", stream.read)
    return iter(lambda: read(BLOCK), b"")


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
