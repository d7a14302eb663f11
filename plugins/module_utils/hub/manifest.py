# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a snapshot must hold, and whether it does. The hub's own check needs a network; this one needs none."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import JsonObject, ModuleResult, made_of
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
    """What is staged of one commit. `wanted` are the patterns it was made with: others make another selection."""

    repo: str
    kind: str
    commit: str
    source: str
    wanted: tuple[tuple[str, ...], tuple[str, ...]]
    files: tuple[File, ...]


def read(repository: Repository, commit: str) -> Manifest | None:
    """The manifest of a commit; None where there is none that can be read."""
    try:
        with open(repository.manifest(commit), encoding="utf-8") as stream:
            found = json.load(stream)
        include, exclude = (tuple(patterns) for patterns in found["wanted"])
        files = tuple(File(**file) for file in found["files"])
        return Manifest(found["repo"], found["kind"], found["commit"], found["source"], (include, exclude), files)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def text(manifest: Manifest) -> str:
    """The manifest as JSON, the same bytes for the same manifest."""
    return json.dumps({"format": 1, **asdict(manifest)}, indent=1, sort_keys=True) + "\n"


def current(repository: Repository) -> str | None:
    """The commit that the revision stands for in the cache, or None."""
    if COMMIT.fullmatch(repository.revision):
        return repository.revision
    try:
        with open(repository.ref, encoding="ascii") as stream:
            found = stream.read().strip()
    except (OSError, ValueError):
        return None
    return found if COMMIT.fullmatch(found) else None


def verify(repository: Repository, manifest: Manifest, *, thorough: bool) -> tuple[Manifest, dict[str, str]]:
    """The manifest as last seen, and {file: what is wrong with it}.

    A content is read again where its time or size changed, and of every file when `thorough`.
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
    """What module `hub` returns of it."""
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
    """What the controller has of the repository: `commit` (None for a folder), `files`, `said`, where
    they are from, and once the host has said what is lacking the `archive` with it, on this host.
    """

    files: tuple[File, ...] | None = None
    said: str = ""
    commit: str | None = None
    archive: str | None = None

    @classmethod
    def of(cls, given: JsonObject) -> HubRequest:
        """From the module's argument. Raises RankzeroError."""
        files = given.get("files")
        return made_of(cls, given if files is None else {**given, "files": files_of(files)})

    def arguments(self) -> JsonObject:
        """As it is sent to the module."""
        sent = {name: value for name, value in vars(self).items() if value is not None}
        if self.files is not None:
            sent["files"] = rows_of(self.files)
        return sent
