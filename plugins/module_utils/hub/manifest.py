# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The required files of a snapshot, and a check of them. Unlike the hub's own check, it needs no network."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, ModuleResult, made_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import MOST_LIST_BYTES, json_of, text_of
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.layout import COMMIT, Repository
from ansible_collections.rankzero.slurm.plugins.module_utils.store.manifest import (
    File,
    FileSet,
    files_of,
    look_at,
    rows_of,
)


@dataclass(frozen=True)
class Manifest(FileSet):
    """The staged files of one commit. `wanted`: the patterns that selected them; other patterns need a new manifest."""

    repo: str
    kind: str
    commit: str
    source: str
    wanted: tuple[tuple[str, ...], tuple[str, ...]]
    files: tuple[File, ...]


def read(repository: Repository, commit: str) -> Manifest | None:
    """The manifest of a commit; None if it is missing or unreadable."""
    try:
        document = json_of(repository.manifest(commit), MOST_LIST_BYTES)
        include, exclude = (tuple(patterns) for patterns in document["wanted"])
        files = tuple(File(**file) for file in document["files"])
        return Manifest(
            document["repo"], document["kind"], document["commit"], document["source"], (include, exclude), files
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None


def text(manifest: Manifest) -> str:
    """The manifest as JSON; equal manifests give equal bytes."""
    return json.dumps({"format": 1, **asdict(manifest)}, indent=1, sort_keys=True) + "\n"


def current(repository: Repository) -> str | None:
    """The commit that the revision refers to in the cache, or None."""
    if COMMIT.fullmatch(repository.revision):
        return repository.revision
    try:
        commit = text_of(repository.ref).strip()
    except (OSError, ValueError):
        return None
    return commit if COMMIT.fullmatch(commit) else None


def verify(repository: Repository, manifest: Manifest, *, thorough: bool) -> tuple[Manifest, dict[str, str]]:
    """The manifest with the files' current times, and {file: its defect}.

    The content of a file is read if its modification time changed, and of every file if `thorough`.
    """
    wrong: dict[str, str] = {}
    files = []
    for file in manifest.files:
        blob = f"{repository.blobs}/{file.sha256}"
        link = f"{repository.snapshot(manifest.commit)}/{file.path}"
        try:
            file, why = look_at(blob, file, thorough=thorough)
            why = why if os.path.samefile(link, blob) else "leads elsewhere"
            if why:
                wrong[file.path] = why
        except OSError as error:
            wrong[file.path] = f"cannot be read: {error.strerror}" if os.path.lexists(blob) else "is missing"
        files.append(file)
    return replace(manifest, files=tuple(files)), wrong


def facts(manifest: Manifest, repository: Repository) -> ModuleResult:
    """The data about it that module `hub` returns."""
    return {
        "repo": manifest.repo,
        "revision": repository.revision,
        "commit": manifest.commit,
        "source": manifest.source,
        "bytes": manifest.size,
        "files": [file.path for file in manifest.files],
    }


@dataclass(frozen=True)
class HubRequest:
    """What the controller has of the repository: `commit` (None for a folder), `files`, and `said`, their source.

    `archive`: the lacking files, on this host, after the host has reported what it lacks.
    """

    files: tuple[File, ...] | None = None
    said: str = ""
    commit: str | None = None
    archive: str | None = None

    @classmethod
    def of(cls, given: JsonObject) -> HubRequest:
        """The request from the module's argument. Raises RankzeroError."""
        files = given.get("files")
        return made_of(cls, given if files is None else {**given, "files": files_of(files)})

    def arguments(self) -> JsonObject:
        """The request as it is sent to the module."""
        sent = {name: value for name, value in vars(self).items() if value is not None}
        if self.files is not None:
            sent["files"] = rows_of(self.files)
        return sent
