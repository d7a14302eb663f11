# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A dataset on the controller: its files with their checksums, and pieces of them to send."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset import stage
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.partial import Parts
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.request import DatasetRequest, Entry
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.sources.local import Local
from ansible_collections.rankzero.slurm.plugins.module_utils.store.manifest import File
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.progress import Meter

#: First and largest size of a piece in bytes. Larger pieces need fewer calls but lose more if the connection breaks.
FIRST, LARGEST = 4 << 20, 64 << 20
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Options:
    """The options of module dataset that the controller reads. `src`: its own path where it is the source."""

    name: str
    state: str
    source: str | None
    include: Sequence[str]
    exclude: Sequence[str]
    src: str = ""
    sha256: str | None = None
    checksums: str | None = None


@dataclass(frozen=True)
class Found:
    """The files of `source`, which `label` names."""

    source: Local
    files: tuple[File, ...]
    label: str

    @property
    def request(self) -> DatasetRequest:
        """The description of the dataset for the host."""
        return DatasetRequest(self.files, self.label)


def read(options: Options, meter: Meter) -> Found:
    """Read what the options name. Raises RankzeroError, also if a file does not match its checksum."""
    src = os.path.abspath(os.path.expanduser(options.src))
    source = Local(src)
    wanted = stage.Selection(tuple(options.include), tuple(options.exclude), options.sha256, options.checksums)
    with tempfile.TemporaryDirectory(prefix="rankzero-") as folder:
        items = stage.wanted_items(source, wanted, Parts(os.path.join(folder, "parts")), meter)
    meter.begin("reading", size=sum(item.size or 0 for item in items), files=len(items))
    files = stage.read_source(source, items, meter)
    must = {item.path: item.sha256 for item in items if item.sha256}
    wrong = [file for file in files if must.get(file.path, file.sha256) != file.sha256]
    if wrong:
        raise RankzeroError(
            "\n".join(
                f"{file.path}: has the sha256 {file.sha256}, and {must[file.path]} was expected; it was not sent. "
                f"Correct the file in {src}, or its checksum"
                for file in wrong[:12]
            )
        )
    return Found(source, tuple(files), src)


class Pieces:
    """Cuts what a host lacks into pieces. `size` may grow from one piece to the next."""

    def __init__(self, what: Found, lacking: Iterable[tuple[str, int]]) -> None:
        files = {file.path: file for file in what.files}
        self._what = what
        self._left = [(files[path], int(offset)) for path, offset in lacking]
        self.size = FIRST

    @property
    def left(self) -> int:
        """Bytes that are still to be sent."""
        return sum(file.size - offset for file, offset in self._left)

    def write(self, target: str) -> list[Entry]:
        """Write the next piece to a file. Returns its entries; empty once everything is sent. Raises RankzeroError."""
        entries: list[Entry] = []
        room = self.size
        try:
            with open(target, "wb") as out:
                while room and self._left:
                    file, offset = self._left.pop(0)
                    length = min(room, file.size - offset)
                    if length:
                        self._copy(file, offset, length, out)
                        entries.append((file.path, file.sha256, file.size, offset, length))
                    room -= length
                    if offset + length < file.size:
                        self._left.insert(0, (file, offset + length))
        except OSError as error:
            raise RankzeroError(f"src: {error.filename or target} cannot be read: {error.strerror}") from error
        return entries

    def _copy(self, file: File, offset: int, length: int, out: IO[bytes]) -> None:
        with open(self._what.source.path(file.path), "rb") as stream:
            stream.seek(offset)
            for block in _blocks(stream, length):
                out.write(block)
                length -= len(block)
        if length:
            raise RankzeroError(f"src: {file.path} got shorter while it was sent: run again")


def _blocks(stream: IO[bytes], length: int) -> Iterator[bytes]:
    while length and (block := stream.read(min(_BLOCK, length))):
        length -= len(block)
        yield block
