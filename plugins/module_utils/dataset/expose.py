# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The paths by which jobs find a dataset: its name in the store, and the path that a job expects."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import replace_file
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import read_json
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.layout import Manifest, Place, Record, read_record
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.stage import require_free
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import (
    fresh_folder,
    publish,
    remove,
    set_aside,
    sync_folder,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import process_scope as this_place
from ansible_collections.rankzero.slurm.plugins.module_utils.store.manifest import File

#: In a copy: the file that names its dataset.
MARK = ".rankzero-dataset.json"


def name(place: Place, digest: str, stamps: Mapping[str, str]) -> None:
    """Let the name refer to a digest, by one rename. Raises OSError."""
    record = Record(digest, place.key, stamps)
    os.makedirs(os.path.dirname(place.record), exist_ok=True)
    replace_file(place.record, json.dumps({"format": 1, "name": place.name, **asdict(record)}), durably=True)
    _lead(place.link, os.path.relpath(place.data(digest), os.path.dirname(place.link)))


def is_named(place: Place, digest: str) -> bool:
    """Whether the name refers to the digest."""
    wanted = os.path.relpath(place.data(digest), os.path.dirname(place.link))
    record = read_record(place)
    return _leads(place.link, wanted) and record is not None and (record.digest, record.key) == (digest, place.key)


def unname(place: Place) -> None:
    """Remove the dataset's name from the store. The files stay until a prune."""
    for path in (place.link, place.record):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _lead(link: str, target: str) -> None:
    os.makedirs(os.path.dirname(link), exist_ok=True)
    own = f"{link}.{this_place()}-{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(own)
    os.symlink(target, own)
    os.replace(own, link)
    sync_folder(os.path.dirname(link))


def _leads(link: str, target: str) -> bool:
    try:
        return os.readlink(link) == target
    except OSError:
        return False


@dataclass(frozen=True)
class Dest:
    """The path that a job expects: a link to the dataset or a copy of it."""

    path: str
    copy: bool

    def ready(self, place: Place, manifest: Manifest) -> bool:
        """Whether the path is up to date. Raises RankzeroError if it belongs to something else."""
        if not self.copy:
            if _leads(self.path, place.link):
                return True
            self._ours(place)
            return False
        if not self._ours(place) or os.path.islink(self.path):
            return False
        return all(self._copied(place, manifest, file) for file in manifest.files)

    def make(self, place: Place, manifest: Manifest) -> None:
        """Make the link or the copy. Raises OSError and RankzeroError."""
        if self.copy:
            self._bring(place, manifest)
            return
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        if os.path.isdir(self.path) and not os.path.islink(self.path):
            remove(self.path)  # a copy that this module made
        _lead(self.path, place.link)

    def drop(self, place: Place) -> bool:
        """Remove the link or copy. Returns whether there was one. Raises RankzeroError if the path is not ours."""
        if not os.path.lexists(self.path) or not self._ours(place):
            return False
        return remove(self.path)

    def present(self, place: Place) -> bool:
        """Whether the dataset exists at the path. Raises RankzeroError if something else does."""
        return os.path.lexists(self.path) and self._ours(place)

    def _ours(self, place: Place) -> bool:
        """Whether the path belongs to this dataset or does not exist. Raises RankzeroError otherwise."""
        if not os.path.lexists(self.path) or _leads(self.path, place.link):
            return True
        mark = read_json(os.path.join(self.path, MARK))
        if isinstance(mark, dict) and mark.get("name") == place.name and not os.path.islink(self.path):
            return True
        raise RankzeroError(
            f"dest: {self.path} is there already, and is not what this task has made of {place.name}. Remove it, or "
            "name another path."
        )

    def _copied(self, place: Place, manifest: Manifest, file: File) -> bool:
        """Whether the copy of a file has the size and time of the original, as cp -p makes it."""
        try:
            there, here = (
                os.stat(os.path.join(folder, file.path)) for folder in (self.path, place.data(manifest.digest))
            )
        except OSError:
            return False
        return there.st_size == here.st_size and abs(there.st_mtime - here.st_mtime) < 0.001

    def _bring(self, place: Place, manifest: Manifest) -> None:
        """Make a complete copy next to the path and rename it, so that a job never sees half of a copy."""
        require_free(os.path.dirname(self.path), manifest.size, len(manifest.files), "dest")
        with fresh_folder(self.path) as folder:
            for file in manifest.files:
                target = os.path.join(folder, file.path)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copy2(os.path.join(place.data(manifest.digest), file.path), target)
            mark: dict[str, Any] = {"name": place.name, "digest": manifest.digest}
            with open(os.path.join(folder, MARK), "w", encoding="utf-8") as stream:
                json.dump(mark, stream)
            before = set_aside(self.path)
            publish(folder, self.path)
            if before:
                remove(before)
