# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pack what is new in the logs of all ranks for the controller: new bytes only, one archive a round trip.

The cluster side (`collect`, `plan`, `write_archive`) gets, for each file in the controller's folder, an offset and a
digest of the bytes just before it. If those bytes are unchanged, everything after them is new. If not, the file was
truncated, rotated or rewritten and is fetched completely. The controller's side trusts no path in an archive
(plugin_utils/output/fetched.py). Content is handled as bytes: binary data and invalid UTF-8 are kept.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import IO

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Untrusted
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath, sync
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.redact import Plain, Redactor
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.transfer import Fetched, FetchRequest, Holding, Part
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import JOURNAL, RunDirectory

# Bytes before an offset that must be unchanged for the rest to count as new.
CHECKED = 1024
# Bytes of one archive. More logs take more round trips, and neither side holds more than this at a time.
ROUND_BYTES = 64 * 1024 * 1024
BLOCK = 256 * 1024
# If only the end of a log is fetched, its beginning is stored next to it under its name with this suffix.
HEAD = ".head"
# In the log folder here: for each path, how many bytes at its beginning were left out on purpose (tail_bytes).
INDEX = ".fetched.json"
PLAIN = Plain()
# (path, size) of files, and warnings about files that are left out.
Listing = tuple[list[tuple[str, int]], list[str]]


def safe_path(path: str) -> bool:
    """True for a relative path of printable characters that stays below its folder."""
    parts = path.split("/")
    return bool(path) and path.isprintable() and not any(part in ("", ".", "..") for part in parts)


def collect(source: Beneath, wanted: Callable[[str], bool] = lambda _path: True, most: int | None = None) -> Listing:
    """(relative path, size) of regular files below a folder, and warnings. Links are not followed.

    `wanted`: tells by its path whether a file is. `most`: after more files than this, no further ones are looked at.
    """
    files: list[tuple[str, int]] = []
    warnings: list[str] = []
    for path, entry, folder in source.entries():
        if entry.is_dir(follow_symlinks=False) or not wanted(path):
            continue
        # Over a network file system, the size of a growing log would otherwise be out of date.
        sync(entry.name, folder)
        try:
            status = os.stat(entry.name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            continue
        if not stat.S_ISREG(status.st_mode) or path == INDEX:
            continue
        if not safe_path(path):
            warnings.append(f"skipped a file whose name is not plain text: {path!a}")
        elif not os.access(entry.name, os.R_OK, dir_fd=folder):
            warnings.append(f"left out {path}: no permission to read it")
        else:
            files.append((path, status.st_size))
        if most is not None and len(files) + len(warnings) > most:
            break
    return sorted(files, key=lambda file: os.path.split(file[0])), sorted(warnings)


def _digest(stream: IO[bytes], end: int, length: int, redactor: Redactor = PLAIN) -> str:
    return hashlib.sha256(redactor.read(stream, end - length, length)).hexdigest()


def _continues(source: Beneath, path: str, size: int, held: Holding, redactor: Redactor) -> bool:
    """Whether the file on the cluster still begins with the bytes that were fetched from it."""
    if not 0 <= held.length <= held.offset <= size:
        return False
    with source.at(os.path.join(source.path, path)) as stream:
        return _digest(stream, held.offset, held.length, redactor) == held.digest


def plan(
    source: Beneath,
    files: Sequence[tuple[str, int]],
    have: Mapping[str, Holding],
    *,
    tail_bytes: int = 0,
    head_bytes: int = 0,
    budget: int = ROUND_BYTES,
    redactor: Redactor = PLAIN,
) -> tuple[list[Part], bool]:
    """What to move now, at most `budget` bytes, and whether more is left for another round.

    `tail_bytes`: of a file with more new bytes than this, only the end is moved (0 moves all). A copy that lacks more
    of its beginning than this allows is moved anew. `head_bytes`: the size of the beginning that is moved as well, into
    a separate file.
    """
    parts: list[Part] = []
    for path, size in files:
        held = have.get(path)
        lacks = held is not None and held.skipped > (max(0, size - tail_bytes) if tail_bytes else 0)
        restart = held is None or lacks or not _continues(source, path, size, held, redactor)
        start = 0 if restart or held is None else held.offset
        if tail_bytes and size - start > tail_bytes:
            start, restart = size - tail_bytes, True
            head = min(head_bytes, start)
            there = have.get(path + HEAD)
            known = there is not None and there.offset == head and _continues(source, path, size, there, redactor)
            if head and not known and budget > 0:
                parts.append(Part(path + HEAD, 0, min(head, budget), size, True, path))
                budget -= min(head, budget)
        if start == size and not restart:
            continue
        if budget <= 0:
            return parts, True
        count = min(size - start, budget)
        parts.append(Part(path, start, count, size, restart))
        budget -= count
        if start + count < size:
            return parts, True
    return parts, False


class _Exactly(io.RawIOBase):
    """Reads exactly `count` bytes from `start` on, redacted. If the file shrinks meanwhile, zeros fill the rest.

    `missing` counts the zeros.
    """

    def __init__(self, stream: IO[bytes], start: int, count: int, redactor: Redactor) -> None:
        super().__init__()
        self.stream = stream
        self.redactor = redactor
        self.at = start
        self.left = count
        self.missing = 0

    def read(self, size: int = -1) -> bytes:
        wanted = self.left if size < 0 else min(size, self.left)
        data = self.redactor.read(self.stream, self.at, wanted)
        self.at += wanted
        if len(data) < wanted:
            self.missing += wanted - len(data)
            data += b"\0" * (wanted - len(data))
        self.left -= len(data)
        return data


def write_archive(source: Beneath, parts: Sequence[Part], target: str, redactor: Redactor = PLAIN) -> list[Part]:
    """Write the bytes of `parts` to `target` (tar.gz, mode 0600). Returns the parts with the bytes actually read."""
    written = []
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    # Level 1: logs shrink five-fold even at this level, and the login node is shared.
    with (
        os.fdopen(descriptor, "wb") as raw,
        gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=1, mtime=0) as packed,
        # In blocks of the default size, each block is redacted with much of its neighbours, and zlib is slower.
        tarfile.TarFile(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT, copybufsize=BLOCK) as archive,
    ):
        for part in parts:
            entry = tarfile.TarInfo(part.path)
            entry.size = part.bytes
            with source.at(os.path.join(source.path, part.origin)) as stream:
                reader = _Exactly(stream, part.start, part.bytes, redactor)
                archive.addfile(entry, reader)
                written.append(replace(part, bytes=part.bytes - reader.missing))
    return written


def fetch_plan(
    source: Beneath, request: FetchRequest, *, write: bool, redactor: Redactor = PLAIN, listing: Listing | None = None
) -> Fetched:
    """Return what the cluster's side moves in one round. Raises RankzeroError.

    The archive is written to a new folder (mode 0700), which the caller removes. `listing`: the files to fetch, where
    not all of them are wanted (`collect`).
    """
    files, notes = listing or collect(source)
    archive, size = None, 0
    try:
        parts, more = plan(
            source,
            files,
            request.have,
            tail_bytes=request.tail_bytes,
            head_bytes=request.head_bytes,
            budget=request.budget,
            redactor=redactor,
        )
        if write and parts:
            archive = os.path.join(tempfile.mkdtemp(prefix="rankzero-logs-", dir=request.folder), "logs.tar.gz")
            parts = write_archive(source, parts, archive, redactor)
            size = os.path.getsize(archive)
    except (OSError, Untrusted) as error:
        raise RankzeroError(
            f"the files in {source.path} cannot be read or packed: {error}; fetch them again"
        ) from error
    left = _left(files, request.have, parts, request.tail_bytes) if more else 0
    return Fetched(parts, more, left, notes, archive, size)


def _left(files: Sequence[tuple[str, int]], have: Mapping[str, Holding], parts: Sequence[Part], tail: int) -> int:
    """About how many bytes are left after `parts`. Files that changed may need more."""
    fresh = [size - (have[path].offset if path in have else 0) for path, size in files]
    return max(0, sum(min(size, tail or size) for size in fresh if size > 0) - sum(part.bytes for part in parts))


def origin_of(run_dir: str) -> str:
    """16 hex digits that distinguish run directories with the same name, key and generation.

    They are computed from the path and the first record. Another cluster or state root may have such a directory.
    """
    first, newline, _rest = RunDirectory(run_dir).text(JOURNAL, state_files.JOURNAL_BYTES).partition("\n")
    return hashlib.sha256(os.fsencode(f"{run_dir}\0{first}{newline}")).hexdigest()[:16]
