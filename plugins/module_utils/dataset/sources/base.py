# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every source of a dataset can do: say which files it has, and bring some of them, going on where it was cut off.

A source of streams (a folder, http, an object store) opens one file at an offset; the rest is the same for all.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.partial import Item, Parts
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.progress import Meter

BLOCK = 1 << 20
#: So often a file is asked for again without a single new byte of it.
ATTEMPTS = 4
_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


class Changed(Exception):
    """The source has another file under the same name by now: `item`."""

    def __init__(self, item: Item) -> None:
        super().__init__(item.path)
        self.item = item


class Failed(RankzeroError):
    """A file that cannot be had, for a reason that trying again will not mend."""


class Source(ABC):
    """Where a dataset comes from. `said` names it in messages; no secret is in it."""

    said = ""
    parallel = 4

    @abstractmethod
    def listing(self, wanted: Callable[[str], bool]) -> list[Item]:
        """The files that it offers and whose names are wanted. Raises RankzeroError."""

    def expect(self, names: Iterable[str]) -> None:  # noqa: B027
        """These files are known to be there. Only sources that cannot list what they have need to be told."""

    def begun(self, item: Item, parts: Parts) -> int:
        """Bytes of an item that a killed run has left elsewhere than in `parts`."""
        return 0

    @abstractmethod
    def bring(self, items: Sequence[Item], parts: Parts, meter: Meter) -> list[Item]:
        """Bring the contents of these items into `parts`, each from where its part ends; the items as they came.

        Raises RankzeroError that names what could not be brought; what has come stays.
        """


class Streams(Source):
    """A source that opens a file at an offset."""

    @abstractmethod
    def open(self, item: Item, offset: int) -> AbstractContextManager[tuple[int, Iterable[bytes]]]:
        """(where the blocks really begin, the blocks). Raises Changed, Failed, OSError and HTTPException."""

    def bring(self, items: Sequence[Item], parts: Parts, meter: Meter) -> list[Item]:
        """With up to `parallel` streams. A stream that breaks off is opened again where it ended."""
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
            # Unbuffered: what has come is on disk when we are killed.
            with open(path, "r+b" if begins else "wb", buffering=0) as stream:
                stream.truncate(begins)
                stream.seek(begins)
                for block in blocks:
                    stream.write(block)
                    meter.count(len(block))


def together(work: Callable[[_Given], _Made], items: Iterable[_Given], parallel: int, wanted: int = 12) -> list[_Made]:
    """`work` on all items by some threads. Raises RankzeroError with the first `wanted` complaints, Stopped at once."""
    made, complaints = [], []
    with ThreadPoolExecutor(max_workers=max(1, parallel)) as pool:
        running = [pool.submit(work, item) for item in items]
        for one in as_completed(running):
            try:
                made.append(one.result())
            except RankzeroError as error:
                complaints.append(error.message)
            except BaseException:
                for other in running:
                    other.cancel()
                raise
    if complaints:
        more = f"\nand {len(complaints) - wanted} more" if len(complaints) > wanted else ""
        raise RankzeroError("\n".join(sorted(complaints)[:wanted]) + more)
    return made


def hashed(path: str, meter: Meter) -> str:
    """sha256 of a file, counted. Raises OSError and Stopped."""
    total = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(BLOCK), b""):
            total.update(block)
            meter.count(len(block))
    return total.hexdigest()


def read_blocks(stream: Any) -> Iterator[bytes]:
    """The rest of a stream, as it comes."""
    read = getattr(stream, "read1", stream.read)
    return iter(lambda: read(BLOCK), b"")


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
