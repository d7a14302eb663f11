# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists of files with sha256 and size, and checks of files against them. Needs no network."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import file_sha256
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError


@dataclass(frozen=True)
class File:
    """One staged file. `size`: bytes; `seen`: its modification time in ns when its content was last read."""

    path: str
    sha256: str
    size: int
    seen: int = 0


def tree_digest(files: Iterable[File]) -> str:
    """sha256 over names and contents, independent of the order."""
    total = hashlib.sha256(b"rankzero hub 1\n")
    for file in sorted(files, key=lambda entry: entry.path):
        total.update(f"{file.sha256} {len(file.path.encode())} {file.path}\n".encode())
    return total.hexdigest()


class FileSet:
    """Properties of all `files` of a record."""

    files: tuple[File, ...]

    @property
    def digest(self) -> str:
        """sha256 over the paths and contents of all files."""
        return tree_digest(self.files)

    @property
    def size(self) -> int:
        """Total bytes of all files."""
        return sum(file.size for file in self.files)


def selected(names: Iterable[str], include: Sequence[str], exclude: Sequence[str]) -> list[str]:
    """The names that match a selection; an empty `include` matches all. Shell patterns, but '*' also matches '/'."""
    return [
        name
        for name in names
        if (not include or any(fnmatchcase(name, pattern) for pattern in include))
        and not any(fnmatchcase(name, pattern) for pattern in exclude)
    ]


def plain(name: str) -> str:
    """`name`, if it is a plain relative path. Raises RankzeroError."""
    if name.startswith("/") or "\\" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise RankzeroError(f"src: {name!r} is not a plain relative path of a file")
    return name


def rows_of(files: Iterable[File]) -> list[list[str | int]]:
    """Rows of path, sha256 and size, for JSON."""
    return [[file.path, file.sha256, file.size] for file in files]


def files_of(rows: Iterable[Sequence[str | int]]) -> tuple[File, ...]:
    """The files from rows as `rows_of` makes them. Raises RankzeroError for invalid rows and unsafe names."""
    try:
        return tuple(File(plain(str(path)), str(sha256), int(size)) for path, sha256, size in rows)
    except (TypeError, ValueError) as error:
        raise RankzeroError(f"files: expected path, sha256 and size of each ({error})") from error


def look_at(path: str, file: File, *, thorough: bool) -> tuple[File, str | None]:
    """The file as it is at `path`, and a description of a defect or None.

    The content is read if its modification time changed, or if `thorough`. Raises OSError.
    """
    status = os.stat(path)
    seen = replace(file, seen=status.st_mtime_ns)
    if status.st_size != file.size:
        return seen, f"has {status.st_size} bytes instead of {file.size}"
    if (thorough or status.st_mtime_ns != file.seen) and file_sha256(path) != file.sha256:
        return seen, "has another content"
    return seen, None


def listing(files: Iterable[File]) -> str:
    """One line for each file, for diffs."""
    return "".join(f"{file.sha256[:16]} {file.size} {file.path}\n" for file in files)
