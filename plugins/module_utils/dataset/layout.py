# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The layout of datasets in a store. Pure except for reading records.

datasets/DIGEST/data/...        the files, never written again; DIGEST covers their names and contents
datasets/DIGEST/dataset.json    the manifest of the files
datasets/DIGEST/dataset.sqsh    the same files packed into one, if requested
datasets/KEY.partial/           an incomplete dataset; KEY covers the name and the source
datasets/by-name/NAME           a link to DIGEST/data: the path that jobs read
datasets/records/NAME.json      the DIGEST that the name refers to, and its KEY
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import MOST_LIST_BYTES, json_of
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import root_of
from ansible_collections.rankzero.slurm.plugins.module_utils.store.manifest import File, FileSet

PACKED = "dataset.sqsh"
MANIFEST = "dataset.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Place:
    """One dataset in a store. `key`: the key of its recipe."""

    root: str
    name: str
    key: str

    @property
    def home(self) -> str:
        """The folder of all datasets in the store."""
        return f"{self.root}/datasets"

    def tree(self, digest: str) -> str:
        """The folder of one content: the manifest and the data."""
        return f"{self.home}/{digest}"

    def data(self, digest: str) -> str:
        """The files of one content."""
        return f"{self.home}/{digest}/data"

    @property
    def link(self) -> str:
        """The link by which jobs find the dataset."""
        return f"{self.home}/by-name/{self.name}"

    @property
    def record(self) -> str:
        """The file that records what is staged under the name, and from which recipe."""
        return f"{self.home}/records/{self.name}.json"

    @property
    def lock(self) -> str:
        """The lock for changes of what the name refers to."""
        return f"{self.home}/records/{self.name}.lock"

    @property
    def partial(self) -> str:
        """The folder for files until the dataset is complete."""
        return f"{self.home}/{self.key}.partial"


@dataclass(frozen=True)
class Record:
    """What a name refers to. `stamps`: file -> its version at the source (an ETag, a time)."""

    digest: str
    key: str
    stamps: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Manifest(FileSet):
    """The files of a digest. `packed`: bytes and sha256 of the squashfs file, and bytes and number of its files."""

    files: tuple[File, ...]
    packed: Mapping[str, Any] | None = None


def place_of(store_root: str, name: str, recipe: Mapping[str, object]) -> Place:
    """The place of a dataset of that name. `recipe`: its source and selection. Raises RankzeroError."""
    if not _NAME.fullmatch(name):
        raise RankzeroError(
            f"name: {name!r} cannot name a dataset; use letters, digits, '.', '_' and '-', at most 64, beginning with "
            "a letter or digit"
        )
    text = json.dumps({"name": name, **recipe}, sort_keys=True)
    return Place(root_of(store_root), name, hashlib.sha256(text.encode()).hexdigest())


def read_record(place: Place) -> Record | None:
    """The record of the name; None without a valid one."""
    try:
        document = json_of(place.record)
        record = Record(str(document["digest"]), str(document["key"]), dict(document["stamps"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return record if re.fullmatch(r"[0-9a-f]{64}", record.digest) else None


def read_manifest(place: Place, digest: str) -> Manifest | None:
    """The manifest of a digest; None if it is missing, unreadable or of another digest."""
    try:
        document = json_of(os.path.join(place.tree(digest), MANIFEST), MOST_LIST_BYTES)
        made = Manifest(tuple(File(**file) for file in document["files"]), document["packed"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return made if made.digest == digest else None


def text(manifest: Manifest) -> str:
    """The manifest as JSON. The runtime looks for the data of a squashfs file under `sealed`."""
    packed = {"sealed": {"file": PACKED, **manifest.packed}} if manifest.packed else {}
    return json.dumps({"format": 1, "digest": manifest.digest, **asdict(manifest), **packed}, sort_keys=True) + "\n"
