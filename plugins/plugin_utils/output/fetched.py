# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of a fetch (module_utils/logs/archive.py): what is here already, and what an archive brings.

No path in an archive is trusted, and no link here is followed (writer.py).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

from ansible_collections.rankzero.slurm.plugins.module_utils.core import extraction
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import amount, short_list
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.archive import (
    BLOCK,
    CHECKED,
    INDEX,
    ROUND_BYTES,
    collect,
    safe_path,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.transfer import Holding, Part
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import identity
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Folder, Place

# Next to the log folder here: whose logs it holds, as `origin_of` their run directory.
ORIGIN = ".origin"
# The limit of the index (bytes).
MOST_INDEX = 64 << 20


def launch_place(dest: str, run_dir: str) -> Place:
    """The folder for what is fetched of a launch. Raises RankzeroError if git tracks the folder `dest` (writer.py)."""
    who = identity(run_dir)
    place = Place.of(dest, who.name, who.key, str(who.generation))
    place.refuse_tracked()
    return place


def place_of(launch: Place, origin: str = "", inner: str = "logs") -> Place:
    """The folder for the files of a run: `launch`/`inner`, or a sibling where that holds another run's (`mark`)."""
    marked = None
    with contextlib.suppress(OSError), launch.opened(create=False) as folder:
        marked = folder.read(ORIGIN)
    if origin and not re.fullmatch(r"[0-9a-f]{16}", origin):
        raise RankzeroError(f"the cluster gave {origin[:40]!a} for the origin of its files; nothing was fetched")
    if origin and marked not in (None, origin):
        launch = launch.beside(f"{os.path.basename(launch.path)}-{origin[:8]}")
    return launch.below(inner)


def mark(place: Place, origin: str) -> None:
    """Record whose logs are in a folder from `place_of`. Raises RankzeroError."""
    launch = Place(place.named, place.inner[:-1])
    if launch.read(ORIGIN) is None:
        launch.write(ORIGIN, origin)


def holdings(place: Place) -> dict[str, Holding]:
    """The part of each file that is here, read from the files themselves: an edited file is fetched again."""
    held: dict[str, Holding] = {}
    with place.files() as files:
        index = _index(files.text(INDEX, MOST_INDEX))
        for path, size in collect(files)[0]:
            length = min(size, CHECKED)
            # One that is a link by now is refused where it is written.
            with contextlib.suppress(OSError), files.at(os.path.join(files.path, path)) as stream:
                stream.seek(max(0, size - length))
                digest = hashlib.sha256(stream.read(length)).hexdigest()
                skipped = index.get(path, 0)
                held[path] = Holding(skipped + size, length, digest, skipped)
    return held


def left_out(held: Mapping[str, Holding]) -> str | None:
    """What of the logs here was left on the cluster, and how to fetch it, as one sentence; None if all is here."""
    skipped = {path: holding.skipped for path, holding in held.items() if holding.skipped}
    if not skipped:
        return None
    whose = short_list(sorted(skipped), 3)
    return (
        f"the first {amount(sum(skipped.values()))} of {whose} stayed on the cluster: only the ends of large logs were "
        "fetched. tail_bytes=0 fetches all of them, tail_bytes=N their last N bytes."
    )


def unpack(archive: IO[bytes], parts: Sequence[Part], place: Place) -> int:
    """Write the bytes of an archive into the files of a folder. Returns their number. Raises RankzeroError."""
    for part in parts:
        if not safe_path(part.path) or part.path == INDEX:
            raise RankzeroError(f"the cluster named a file {part.path!a}, which is outside {place.path}; none was kept")
    moved = 0
    try:
        with place.opened() as folder, _members(archive, parts) as members:
            index = _index(folder.read(INDEX) or "")
            for part, stream in members:
                moved += _store(folder, part, stream)
                if part.restart:
                    index.pop(part.path, None)
                    if part.start:
                        index[part.path] = part.start
            _write_index(folder, index)
    except OSError as error:
        raise RankzeroError(f"dest: {place.path} cannot be written: {error.strerror or error}") from error
    return moved


def discard(place: Place, path: str) -> None:
    """Remove one fetched file, so that it is fetched again."""
    *folders, name = path.split("/")
    with contextlib.suppress(FileNotFoundError), place.below(*folders).opened(create=False) as folder:
        folder.remove(name)


def _store(dest: Folder, part: Part, stream: IO[bytes]) -> int:
    *folders, name = part.path.split("/")
    with dest.inner(*folders) as folder:
        if not part.restart:
            with folder.growing(name) as grown:
                return _copy(stream, grown, part.bytes)
        with folder.fresh(name) as fresh:
            return _copy(stream, fresh, part.bytes)


def _index(text: str) -> dict[str, int]:
    """Bytes left out at the beginning of the files here, by path. A missing or damaged index counts as empty."""
    try:
        index = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(index, dict):
        return {}
    return {path: skipped for path, skipped in index.items() if isinstance(skipped, int) and skipped > 0}


def _write_index(folder: Folder, index: Mapping[str, int]) -> None:
    """Write the index; remove the file where it is empty."""
    if index:
        folder.write(INDEX, json.dumps(dict(index), sort_keys=True, indent=1))
    else:
        folder.remove(INDEX)


@contextlib.contextmanager
def _members(archive: IO[bytes], parts: Sequence[Part]) -> Iterator[Iterator[tuple[Part, IO[bytes]]]]:
    """The parts with their bytes. Raises `RankzeroError` where the archive does not match `parts`."""
    rules = extraction.Rules(members=len(parts) + 1, size=ROUND_BYTES)
    try:
        with extraction.tar(archive) as tar:
            members = extraction.check(extraction.of_tar(tar, rules), rules, 0)
            for number, member in enumerate(members):
                part = parts[number] if number < len(parts) else None
                header = (member.kind, member.name)
                if part is None or header != (extraction.FILE, part.path) or not 0 <= part.bytes <= member.size:
                    raise extraction.Refused(f"{member.name!a}")
            if len(members) < len(parts):
                raise extraction.Damaged("not all of it is there")
            opened = (tar.extractfile(member.source) for member in members)
            yield zip(parts, (stream for stream in opened if stream is not None))
    except extraction.Refused as error:
        raise RankzeroError(f"the archive contains unrequested files ({error}); it was not used") from error
    except extraction.Damaged as error:
        raise RankzeroError(
            f"the archive ends early ({error}): the connection cut it short; run the task again"
        ) from error


def _copy(source: IO[bytes], target: IO[bytes], count: int) -> int:
    remaining = count
    while remaining:
        block = source.read(min(remaining, BLOCK))
        if not block:
            raise extraction.Damaged(f"{remaining} bytes are missing")
        target.write(block)
        remaining -= len(block)
    return count
