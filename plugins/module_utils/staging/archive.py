# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A packed tree becomes a read-only folder of the store, verified against its digest.

Nothing in an archive is believed: only files and links are taken, only with plain relative names, links are made after
all files (so that no file can be written through one), and the digest of what was written decides.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import IO

from ansible_collections.rankzero.slurm.plugins.module_utils.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.staging.fresh import (
    fresh_folder,
    make_read_only,
    publish,
    sync_folder,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.staging.owned import is_own
from ansible_collections.rankzero.slurm.plugins.module_utils.staging.tree import Entry, digest, read_tree

_BLOCK = 1 << 20


def unpack(archive: str, target: str, expected: str, base: str | None = None, kept: Sequence[Entry] = ()) -> bool:
    """Unpack the tar.gz `archive` as the folder `target`, if its tree has the digest `expected`.

    The entries `kept` do not travel: they come from the folder `base`, wherever in it their content lies, by hard links
    where the file system has them.
    False when `target` is there already. Raises RankzeroError for a damaged, dishonest or different archive and for
    storage that cannot be written; then nothing is left behind.
    """
    if os.path.isdir(target):
        return False
    with fresh_folder(target) as folder:
        try:
            with tarfile.open(archive, mode="r:gz") as packed:
                entries = _extract(packed, folder)
            written = list(entries)
            entries += _take_over(base, kept, folder) if base else []
        except (tarfile.TarError, EOFError, zlib.error) as error:
            raise RankzeroError(f"archive: {archive} is damaged ({error}). Run again to send it anew.") from error
        found = digest(entries)
        if found != expected:
            raise RankzeroError(
                f"digest: the archive holds the tree {found[:16]}, and {expected[:16]} was announced. "
                "A file changed while it was packed, or the transfer was damaged: run again."
            )
        # In a second pass: by now most of it is written, and one wait for the disk serves many files.
        for entry in written:
            if entry.kind != "l":
                _sync(os.path.join(folder, entry.path))
        make_read_only(folder)
        sync_folder(folder)
        return publish(folder, target)


def untar(archive: str, folder: str) -> list[Entry]:
    """Unpack files and links of the tar (packed or not) `archive` into `folder`. Raises RankzeroError and OSError."""
    try:
        with tarfile.open(archive) as packed:
            return _extract(packed, folder)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise RankzeroError(f"archive: {archive} is damaged ({error}). Run again to send it anew.") from error


def _extract(packed: tarfile.TarFile, folder: str) -> list[Entry]:
    entries = []
    links = []
    for member in packed:
        name = member.name
        parts = _parts(name)
        if member.issym():
            links.append((name, member.linkname))
            continue
        content = packed.extractfile(member) if member.isreg() else None
        if content is None:
            raise RankzeroError(f"archive: {name!r} is neither a file nor a link; nothing was unpacked.")
        os.makedirs(os.path.join(folder, *parts[:-1]), exist_ok=True)
        executable = bool(member.mode & 0o100)
        sha256, size = _write(content, os.path.join(folder, name), 0o755 if executable else 0o644)
        entries.append(Entry(name, "x" if executable else "f", sha256, size))
    for name, target in links:
        os.makedirs(os.path.join(folder, os.path.dirname(name)), exist_ok=True)
        os.symlink(target, os.path.join(folder, name))
        raw = os.fsencode(target)
        entries.append(Entry(name, "l", hashlib.sha256(raw).hexdigest(), len(raw)))
    return entries


def _parts(name: str) -> list[str]:
    parts = name.split("/")
    if name.startswith("/") or "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise RankzeroError(f"archive: {name!r} is no plain relative path; nothing was unpacked.")
    return parts


def _take_over(base: str, kept: Sequence[Entry], folder: str) -> list[Entry]:
    """Bring files of an older snapshot. Each is believed only after its content was read there just now."""
    places = contents(base)
    taken = []
    for entry in kept:
        parts = _parts(entry.path)
        source = places.get((entry.kind, entry.sha256))
        if source is None:
            raise RankzeroError(f"archive: {base} no longer holds what {entry.path} needs. Run again to send it anew.")
        target = os.path.join(folder, entry.path)
        os.makedirs(os.path.join(folder, *parts[:-1]), exist_ok=True)
        try:
            if not is_own(source.path):
                raise PermissionError(f"{source.path} can be written by others: by that name the new one could, too")
            os.link(source.path, target, follow_symlinks=False)
        except OSError:  # no hard links here, or too many of this one
            shutil.copy2(source.path, target, follow_symlinks=False)
            if entry.kind != "l":
                _sync(target)
        taken.append(Entry(entry.path, source.kind, source.sha256, source.size))
    return taken


def contents(base: str) -> dict[tuple[str, str], Entry]:
    """What a tree holds, by kind and sha256; `path` is absolute. Raises OSError."""
    return {(one.kind, one.sha256): replace(one, path=os.path.join(base, one.path)) for one in read_tree(base)}


def _write(content: IO[bytes], path: str, mode: int) -> tuple[str, int]:
    total, size = hashlib.sha256(), 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with open(descriptor, "wb") as stream:
        for block in iter(lambda: content.read(_BLOCK), b""):
            stream.write(block)
            total.update(block)
            size += len(block)
    return total.hexdigest(), size


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
