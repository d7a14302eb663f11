# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of a sealed environment as a node sees it: where it is, whether it is whole, whether to copy it.

Standard library only; imported by sealed.py.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tarfile

from core import files
from node import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO, Any

BLOCK = 1 << 20


class Damaged(disk.Trouble):
    """The file is not what was published."""


def facts_of(file: str) -> dict[str, Any] | None:
    """What env.json (of a dataset dataset.json) beside a file says of it; None where this node sees neither."""
    for name in ("env.json", "dataset.json"):
        path = os.path.join(os.path.dirname(file), name)
        with contextlib.suppress(OSError, ValueError, KeyError):
            sealed: dict[str, Any] = json.loads(files.content(path, files.MOST_LIST_BYTES))["sealed"]
            return sealed
    return None


def extracted(archive: tarfile.TarFile, member: str) -> IO[bytes]:
    """A file of an archive. Raises KeyError where it is none."""
    stream = archive.extractfile(member)
    if stream is None:
        raise KeyError(member)
    return stream


class Source:
    """Where a node reads the file from, and what must be true of it. `member`: its name where `path` is an archive."""

    def __init__(self, path: str, facts: dict[str, Any], member: str = "") -> None:
        self.path, self.facts, self.member = path, facts, member

    @contextlib.contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        if not self.member:
            with open(self.path, "rb") as stream:
                # What another job read a while ago may not be what the storage has; asked for, not demanded.
                with contextlib.suppress(OSError, AttributeError):
                    os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
                yield stream
            return
        with tarfile.open(self.path, "r:*") as archive:
            yield extracted(archive, self.member)

    def forget(self) -> None:
        """Have the next reading ask the storage again, and not this node's memory."""
        with contextlib.suppress(OSError, AttributeError), open(self.path, "rb") as stream:
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def find(file: str, archive: str) -> Source | None:
    """The source of the file on this node: the store, else what was packed for nodes without one. None: neither."""
    facts = facts_of(file)
    if facts is not None and os.path.isfile(file):
        return Source(file, facts)
    if not archive or not os.path.isfile(archive):
        return None
    try:
        with tarfile.open(archive, "r:*") as packed:
            facts = json.loads(files.whole(extracted(packed, "env.json"), archive))["sealed"]
        return Source(archive, facts, facts["file"])
    except (OSError, ValueError, KeyError, tarfile.TarError) as error:
        raise disk.Trouble(f"{archive} cannot be read: {error}") from error


def digest_of(source: Source, target: str | None = None) -> str:
    """sha256 of what a source gives, which is written to the file `target` meanwhile."""
    total = hashlib.sha256()
    with contextlib.ExitStack() as layers:
        stream = layers.enter_context(source.opened())
        out = None
        if target:
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            out = layers.enter_context(open(descriptor, "wb"))
        for block in iter(lambda: stream.read(BLOCK), b""):
            total.update(block)
            if out:
                out.write(block)
    return total.hexdigest()


def verified(source: Source, target: str | None = None) -> int:
    """Read (and copy) the file, twice if the first reading is wrong; how often. Raises Damaged and OSError."""
    digest = ""
    for attempt in (1, 2):
        try:
            digest = digest_of(source, target)
        except (tarfile.TarError, EOFError) as error:
            digest = str(error)
        if digest == source.facts["sha256"]:
            return attempt
        source.forget()
    raise Damaged(
        f"{source.path} is damaged as this node sees it: it was published with sha256 {source.facts['sha256'][:16]}, "
        f"and has {digest[:16]} here (read twice)"
    )


def check_length(source: Source) -> None:
    """Look at the length of a file that is too large to be read by every node before it is used. Raises Damaged."""
    size = os.path.getsize(source.path)
    if size != source.facts["bytes"]:
        raise Damaged(f"{source.path} is damaged: it was made with {source.facts['bytes']} bytes, and has {size} here")


def room_for_copy(node: Any, source: Source, policy: str) -> str | None:
    """The folder to copy into, or None where the file is mounted from where it is. Raises Trouble.

    `auto`: a copy pays where many nodes would ask one server for every block, and it may cost disk but not memory.
    """
    need = source.facts["bytes"]
    if source.member or policy == "always":
        return disk.choose(node.places, need, 1, node.limit)
    if policy == "never" or not disk.on_network(source.path):
        return None
    disks = [place for place in node.places if disk.file_system(place) not in disk.MEMORY]
    try:
        return disk.choose(disks, need, 1, node.limit)
    except disk.Trouble:
        return None
