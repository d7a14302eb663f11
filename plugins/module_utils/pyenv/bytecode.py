# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The byte code of all modules of a sealed environment in one file, which each of its processes maps into memory.

A node has the environment by FUSE, which keeps no open file: at every module each rank would ask for its open, its
`ioctl` and its close, 2,000 times for torch, and wait for an answer. One open file needs none of it.

This module writes the pack, and lies in the environment itself to read it (`install`, called by a .pth file): it needs
nothing but the standard library. Finders, sources and everything else of the import system stay as they are; whatever
the pack does not hold, or should not answer, goes the ordinary way.

The pack: HEADER; the code of each module, marshalled, as in its .pyc after the sixteen bytes of its head; for each
folder a table with a line a module, `START END NAME`; the same of the folders. Offsets are bytes from the beginning.
"""

from __future__ import annotations

import _imp
import marshal
import mmap
import os
import sys

# What importlib gives out, without loading more of importlib into every process.
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any

NAME = "_rankzero_modules"
PTH = f"import {NAME}; {NAME}.install()\n"
# Magic number of the byte code (hex), where the table of the folders starts and ends. Always of the same length.
HEADER = "{} {:015d} {:015d}\n"
_HEADER_BYTES = len(HEADER.format(MAGIC_NUMBER.hex(), 0, 0))
_PYC_HEAD = 16

Table = dict[str, tuple[int, int]]


def pack(library: str, compiled: list[tuple[str, str]], magic: bytes, target: str) -> None:
    """Write the pack of the modules below `library` (lib/pythonX.Y) to the new file `target`. `compiled`: path of each
    source and of its .pyc, both relative to it. `magic`: that of the Python that compiled them. The same files give the
    same bytes. Raises OSError.
    """
    folders: dict[str, Table] = {}
    with open(target, "wb") as out:

        def append(content: bytes) -> tuple[int, int]:
            start = out.tell()
            out.write(content)
            return start, out.tell()

        append(HEADER.format(magic.hex(), 0, 0).encode("ascii"))
        for source, pyc in sorted(compiled):
            if not holds(source):
                continue
            with open(os.path.join(library, pyc), "rb") as stream:
                folder, name = os.path.split(source)
                stream.seek(_PYC_HEAD)
                start = out.tell()
                for block in iter(lambda: stream.read(1 << 20), b""):
                    out.write(block)
                folders.setdefault(folder, {})[name] = (start, out.tell())
        tables = {folder: append(_rows(names)) for folder, names in sorted(folders.items())}
        start, end = append(_rows(tables))
        out.seek(0)
        append(HEADER.format(magic.hex(), start, end).encode("ascii"))


def holds(source: str) -> bool:
    """Whether a pack can name this file."""
    return "\n" not in source


def _rows(table: Table) -> bytes:
    return "".join(f"{start} {end} {name}\n" for name, (start, end) in sorted(table.items())).encode(
        "utf-8", "surrogateescape"
    )


def install() -> None:
    """Let this process take the code of modules from the pack beside this file, which lies in site-packages."""
    # What asks for other byte code than the pack has, or wants to see that it fits its source.
    if sys.flags.optimize or _imp.check_hash_based_pycs == "always":
        return
    place = os.path.dirname(os.path.abspath(__file__))
    try:
        with open(os.path.join(place, f"{NAME}.pack"), "rb") as stream:
            mapped = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
        magic, start, end = bytes(mapped[:_HEADER_BYTES]).decode("ascii").split()
        if magic != MAGIC_NUMBER.hex():
            return
        reader = Reader(os.path.dirname(place), mapped, int(start), int(end))
    except (OSError, ValueError):
        return  # every module still has its source
    ordinary = SourceFileLoader.get_code
    SourceFileLoader.get_code = reader.before(ordinary)  # type: ignore[assignment]


class Reader:
    """A pack as a process uses it. `mapped`: its bytes, of which `start` to `end` are the table of the folders."""

    def __init__(self, library: str, mapped: memoryview, start: int, end: int) -> None:
        self.library = library + os.sep
        self.mapped = mapped
        self.folders = self._table(start, end)
        self.known: dict[str, Table] = {}

    def _table(self, start: int, end: int) -> Table:
        rows = bytes(self.mapped[start:end]).decode("utf-8", "surrogateescape").split("\n")
        return {name: (int(first), int(last)) for first, last, name in (row.split(" ", 2) for row in rows if row)}

    def code(self, path: str) -> CodeType | None:
        """The code of the module whose source is `path`, as Python itself would read it; None: not in the pack."""
        if not path.startswith(self.library):
            return None
        folder, name = os.path.split(path[len(self.library) :])
        names = self.known.get(folder)
        if names is None:
            names = self.known[folder] = self._table(*self.folders.get(folder, (0, 0)))
        if name not in names:
            return None
        start, end = names[name]
        code: CodeType = marshal.loads(self.mapped[start:end])
        _imp._fix_co_filename(code, path)  # type: ignore[attr-defined]
        return code

    def before(self, ordinary: Callable[[Any, str], CodeType | None]) -> Callable[[Any, str], CodeType | None]:
        """A `get_code` that asks the pack first. Loaders derived from Python's own are left alone: they may want to
        change the code.
        """

        def get_code(self_: SourceFileLoader, fullname: str) -> CodeType | None:
            code = self.code(self_.path) if self_.__class__ is SourceFileLoader else None
            return ordinary(self_, fullname) if code is None else code

        return get_code
