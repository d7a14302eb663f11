# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder as one file and back: what staging sends to a node.

    pack.py keep FOLDER ARCHIVE      makes ARCHIVE and ARCHIVE.json, unless they are there

The archive depends on names, contents, the execute bit and link targets only: two packers make the same file. Standard
library only; imported by copies.py, and started by the module that packs where the nodes see no store.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import gzip
import hashlib
import json
import os
import stat
import sys
import tarfile
import time
import zlib

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from core import extraction  # noqa: E402
from core.files import document  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

BLOCK = 1 << 20
# What a file takes on disk at least, and its inode.
CLUSTER = 4096
# The beginning of 1980: zip files know no earlier time, and some tools make one of what they find.
TIME = 315532800
# Deflate at its fastest does some 60 MB a second: slower than most networks of a cluster. It pays only for an archive
# that is kept, and for that only where it saves something.
PAYS = 0.9
SAMPLES, SAMPLE_BYTES = 256, 1 << 16
ABANDONED_SECONDS = 24 * 3600


class Damaged(Exception):
    """What was to be unpacked is not what was packed."""


def members(root: str) -> list[tuple[str, os.stat_result]]:
    """Every folder, file and link below `root` as (relative path, status), sorted by the bytes of the path."""
    members, pending = [], [""]
    while pending:
        folder = pending.pop()
        for name in os.listdir(os.path.join(root, folder)):
            path = os.path.join(folder, name)
            status = os.lstat(os.path.join(root, path))
            members.append((path, status))
            if stat.S_ISDIR(status.st_mode):
                pending.append(path)
    return sorted(members, key=lambda item: os.fsencode(item[0]))


def measure(members: Sequence[tuple[str, os.stat_result]]) -> dict[str, int]:
    """Bytes that the unpacked folder takes on disk at most, and the number of its files and folders."""
    size = sum(CLUSTER + -(-status.st_size // CLUSTER) * CLUSTER for _path, status in members)
    return {"unpacked": size, "files": len(members)}


def pays(root: str, members: Sequence[tuple[str, os.stat_result]]) -> bool:
    """Whether compressing saves enough, judged by the beginnings of some of the files."""
    files = [path for path, status in members if stat.S_ISREG(status.st_mode) and status.st_size]
    before = after = 0
    for path in files[:: max(1, len(files) // SAMPLES)]:
        with open(os.path.join(root, path), "rb") as stream:
            sample = stream.read(SAMPLE_BYTES)
        before += len(sample)
        after += len(zlib.compress(sample, 1))
    return before > 0 and after < PAYS * before


class Hashing:
    """A file to write to that knows the digest and the size of what it was given."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.digest, self.size = stream, hashlib.sha256(), 0

    def write(self, block: bytes) -> int:
        self.digest.update(block)
        self.size += len(block)
        return int(self.stream.write(block))

    def flush(self) -> None:
        self.stream.flush()


def pack(root: str, target: str, kept: bool = False) -> dict[str, Any]:
    """Write the archive of a folder; what must be known of it to unpack it. Only a kept one is ever compressed."""
    packed = members(root)
    compressed = kept and pays(root, packed)
    with open(target, "wb") as stream:
        counted = Hashing(stream)
        with contextlib.ExitStack() as layers:
            out: Any = counted
            if compressed:
                out = layers.enter_context(gzip.GzipFile("", "wb", 1, counted, mtime=0))
            archive = layers.enter_context(tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT))
            for path, status in packed:
                add(archive, root, path, status)
        stream.flush()
        os.fsync(stream.fileno())
    return {"sha256": counted.digest.hexdigest(), "bytes": counted.size, "path": root, **measure(packed)}


def add(archive: tarfile.TarFile, root: str, path: str, status: os.stat_result) -> None:
    entry, full = tarfile.TarInfo(path), os.path.join(root, path)
    entry.mtime = TIME
    if stat.S_ISDIR(status.st_mode):
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(entry)
    elif stat.S_ISLNK(status.st_mode):
        entry.type, entry.mode, entry.linkname = tarfile.SYMTYPE, 0o777, os.readlink(full)
        if entry.linkname.startswith(root + "/"):  # else it would lead back to where the folder was
            entry.linkname = os.path.relpath(entry.linkname, os.path.dirname(full))
        archive.addfile(entry)
    elif stat.S_ISREG(status.st_mode):
        entry.size, entry.mode = status.st_size, 0o755 if status.st_mode & 0o100 else 0o644
        with open(full, "rb") as stream:
            archive.addfile(entry, stream)


def file_sha256(path: str) -> str:
    total = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(BLOCK), b""):
            total.update(block)
    return total.hexdigest()


def unpack(archive: str, target: str) -> None:
    """Make the folder `target` of an archive whose checksum was right. Raises Damaged and OSError."""
    os.mkdir(target)
    try:
        # What a tree links to is its own affair: an environment's Python is the node's.
        extraction.untar(archive, target, extraction.Rules(links="any", control=True), TIME)
    except (extraction.Refused, extraction.Damaged) as error:
        raise Damaged(str(error)) from error


def kept(target: str) -> dict[str, Any] | None:
    """What is known of a kept archive; None where it is not there, or not whole."""
    try:
        known: dict[str, Any] = document(target + ".json")
        return known if os.path.getsize(target) == known["bytes"] else None
    except (OSError, ValueError, KeyError):
        return None


def keep(root: str, target: str) -> dict[str, Any]:
    """Make an archive that stays, whole or not at all. Two at once make the same file."""
    known = kept(target)
    if known:
        return known
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    for leftover in glob.glob(glob.escape(target) + ".*.tmp"):
        with contextlib.suppress(OSError):
            if time.time() - os.lstat(leftover).st_mtime > ABANDONED_SECONDS:
                os.unlink(leftover)
    temporary = f"{target}.{os.uname().nodename}-{os.getpid()}.tmp"
    try:
        known = pack(root, temporary, kept=True)
        os.replace(temporary, target)
        with open(temporary, "w", encoding="utf-8") as stream:
            json.dump(known, stream)
        os.replace(temporary, target + ".json")
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    return known


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("command", choices=["keep"])
    parser.add_argument("folder")
    parser.add_argument("archive")
    arguments = parser.parse_args()
    try:
        keep(arguments.folder, arguments.archive)
    except OSError as error:
        print(f"cannot pack {arguments.folder} as {arguments.archive}: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
