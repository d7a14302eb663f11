# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Digests of files on the host that go into an image. A file is read again only if its metadata changed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator

from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import file_sha256
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import read_json
from ansible_collections.rankzero.slurm.plugins.module_utils.image.layers import of_folder
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import write_text

# These files refer to all others by digest.
_INDEXES = ("index.json", "manifest.json")


def content_digest(option: str, path: str, memory: str, *, check_mode: bool = False) -> str:
    """sha256 in hex of a file, of an image layout's index, or of a root folder. `memory`: the folder of known digests.

    Raises RankzeroError where it cannot be read.
    """
    try:
        if os.path.isdir(path) and option == "reference":
            index = next((name for name in _INDEXES if os.path.isfile(os.path.join(path, name))), None)
            if index is None:
                raise RankzeroError(
                    f"reference: {path} has neither index.json nor manifest.json: it is not an image layout"
                )
            return file_sha256(os.path.join(path, index))
        metadata = hashlib.sha256("".join(_metadata(path)).encode("utf-8", "surrogateescape")).hexdigest()
        place = os.path.join(memory, hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:32])
        known = _known(place)
        if known.get("metadata") == metadata:
            return str(known["digest"])
        digest = _folder_digest(path) if os.path.isdir(path) else file_sha256(path)
        if not check_mode:
            os.makedirs(memory, exist_ok=True)
            write_text(place, json.dumps({"metadata": metadata, "digest": digest}) + "\n")
    except OSError as error:
        raise RankzeroError(f"{option}: {error.filename or path} cannot be read: {error.strerror}") from error
    return digest


def _known(place: str) -> dict[str, str]:
    known = read_json(place)
    return known if isinstance(known, dict) else {}


def _metadata(path: str) -> Iterator[str]:
    """A line for each name: any change of a file's content changes its ctime."""
    pending = [path]
    while pending:
        place = pending.pop()
        status = os.stat(place) if place == path else os.lstat(place)
        numbers = (status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        yield f"{place} {numbers}\n"
        if os.path.isdir(place) and (place == path or not os.path.islink(place)):
            pending += sorted(entry.path for entry in os.scandir(place))


def _folder_digest(path: str) -> str:
    total = hashlib.sha256()
    for name, node in sorted(of_folder(path).nodes.items()):
        content = node.target
        if node.open is not None:
            content = file_sha256(os.path.join(path, name))
        total.update(f"{node.kind} {node.mode:o} {content} ".encode("utf-8", "surrogateescape"))
        total.update(os.fsencode(name) + b"\0")
    return total.hexdigest()
