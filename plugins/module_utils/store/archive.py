# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unpack a packed tree into a read-only folder of the store, verified against its digest.

No archive is trusted: `extraction` checks all of it before anything is written, and the digest of the written files
decides.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core import extraction
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import is_own
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import (
    fresh_folder,
    make_read_only,
    publish,
    sync_folder,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import Entry, digest, read_tree

# In a code tree, a link is content, wherever it points; and git allows names of every kind.
_ANY = extraction.Rules(links="any", control=True)


def unpack(archive: str, target: str, expected: str, base: str | None = None, kept: Sequence[Entry] = ()) -> bool:
    """Unpack the tar.gz `archive` as the folder `target`, if its tree has the digest `expected`.

    The entries `kept` are not in the archive: their content is taken from the folder `base`, under any name there, by
    hard links where the file system supports them. Returns False if `target` exists already. Raises RankzeroError for a
    damaged, unsafe or different archive and for storage that cannot be written; nothing is left behind then.
    """
    if os.path.isdir(target):
        return False
    with fresh_folder(target) as folder:
        written = untar(archive, folder)
        entries = written + (_take_over(base, kept, folder) if base else [])
        tree = digest(entries)
        if tree != expected:
            raise RankzeroError(
                f"digest: the archive contains the tree {tree[:16]}, but {expected[:16]} was announced. "
                "The transfer was damaged: run again."
            )
        # In a second pass: by now most data is written, and one wait for the disk serves many files.
        for entry in written:
            if entry.kind != "l":
                _sync(os.path.join(folder, entry.path))
        make_read_only(folder)
        sync_folder(folder)
        return publish(folder, target)


def untar(archive: str, folder: str) -> list[Entry]:
    """Unpack files and links of the tar `archive` (compressed or not) into `folder`. Raises RankzeroError, OSError."""
    with said_of(f"archive: {archive}", "Run again to transfer it again."):
        members = extraction.untar(archive, folder, _ANY)
    return [Entry(member.name, _kind(member), member.sha256, member.size) for member in members]


def unzip(archive: str, folder: str, only: str | None = None) -> None:
    """Unpack the files of a zip (or the file `only`) into an empty folder. Raises Refused, Damaged and OSError."""
    try:
        with extraction.damage(), zipfile.ZipFile(archive) as packed:
            items = [item for item in packed.infolist() if only in (None, item.filename)]
            if only and not items:
                raise extraction.Damaged(f"it has no {only!a}")
            size, free = os.path.getsize(archive), shutil.disk_usage(folder).free
            members = extraction.check(map(_zipped, items), extraction.Rules(), size, free)
            extraction.write(members, folder, lambda member: packed.open(member.source), extraction.Rules())
    except zipfile.BadZipFile as error:
        raise extraction.Damaged(str(error)) from error


def _zipped(info: zipfile.ZipInfo) -> extraction.Member:
    kind, mode = extraction.FOLDER if info.is_dir() else extraction.FILE, info.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        kind = extraction.LINK if stat.S_ISLNK(mode) else extraction.OTHER
    return extraction.Member(info.filename, kind, info.file_size, mode, "", info)


def _kind(member: extraction.Written) -> str:
    return "l" if member.kind == extraction.LINK else "x" if member.executable else "f"


@contextlib.contextmanager
def said_of(what: str, advice: str) -> Iterator[None]:
    """Turn a defect of an archive into a RankzeroError. `what`: the option and the archive's path."""
    try:
        yield
    except extraction.Damaged as error:
        raise RankzeroError(f"{what} is damaged ({error}). {advice}") from error
    except extraction.Refused as error:
        raise RankzeroError(f"{what}: {error}; nothing was unpacked") from error


def _plain(path: str) -> str:
    try:
        return extraction.plain(path, control=True)
    except extraction.Refused as error:
        raise RankzeroError(f"archive: {error}; nothing was unpacked") from error


def _take_over(base: str, kept: Sequence[Entry], folder: str) -> list[Entry]:
    """Link or copy files from an older snapshot. Each is used only after its content was read there again."""
    places = contents(base)
    taken = []
    for entry in kept:
        parts = _plain(entry.path).split("/")
        source = places.get((entry.kind, entry.sha256))
        if source is None:
            raise RankzeroError(
                f"archive: {base} no longer contains the content of {entry.path}. Run again to transfer it."
            )
        target = os.path.join(folder, entry.path)
        os.makedirs(os.path.join(folder, *parts[:-1]), exist_ok=True)
        try:
            if not is_own(source.path):
                raise PermissionError(f"{source.path} can be written by others: by that name the new one could, too")
            os.link(source.path, target, follow_symlinks=False)
        except OSError:  # hard links are unsupported, or this file has too many
            shutil.copy2(source.path, target, follow_symlinks=False)
            if entry.kind != "l":
                _sync(target)
        taken.append(Entry(entry.path, source.kind, source.sha256, source.size))
    return taken


def contents(base: str) -> dict[tuple[str, str], Entry]:
    """The entries of a tree by kind and sha256; `path` is absolute. Raises OSError."""
    return {
        (entry.kind, entry.sha256): replace(entry, path=os.path.join(base, entry.path)) for entry in read_tree(base)
    }


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
