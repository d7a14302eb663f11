# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The layout of the cache of the Hugging Face libraries below HF_HOME, by repository. Pure.

    hub/models--ORG--NAME/refs/REVISION            the commit that a branch or tag refers to
    hub/models--ORG--NAME/snapshots/COMMIT/FILE    a link to the blob
    hub/models--ORG--NAME/blobs/ID                 the content
    rankzero/models--ORG--NAME/COMMIT.json         our manifest (not in hub/, which the libraries list)

Source: the hub client's documentation of its cache; spec/environments, Tokenizers and data.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError

#: Kind of repository -> the prefix of its folder's name.
KINDS = {"model": "models", "dataset": "datasets", "space": "spaces"}
COMMIT = re.compile(r"[0-9a-f]{40}")
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]{0,254}")


@dataclass(frozen=True)
class Repository:
    """One repository at one revision, and its location below `home` (HF_HOME, absolute)."""

    home: str
    name: str
    kind: str = "model"
    revision: str = "main"

    @property
    def folder(self) -> str:
        """The hub library's name for the repository's folder, as models--ORGANISATION--NAME."""
        return "--".join([KINDS[self.kind], *self.name.split("/")])

    @property
    def path(self) -> str:
        """The path at which the hub library looks for the repository."""
        return f"{self.home}/hub/{self.folder}"

    @property
    def blobs(self) -> str:
        """The folder of files by content, to which snapshots link."""
        return f"{self.path}/blobs"

    @property
    def ref(self) -> str:
        """The file that names the commit of the revision. A revision that is a commit has no such file."""
        return f"{self.path}/refs/{self.revision}"

    def snapshot(self, commit: str) -> str:
        """The folder of one commit."""
        return f"{self.path}/snapshots/{commit}"

    @property
    def ours(self) -> str:
        """The folder for this collection's own data about the repository."""
        return f"{self.home}/rankzero/{self.folder}"

    def manifest(self, commit: str) -> str:
        """The manifest of one commit."""
        return f"{self.ours}/{commit}.json"

    @property
    def lock(self) -> str:
        """The lock for changes of the repository."""
        return f"{self.ours}/lock"


def repository(home: str, name: str, kind: str, revision: str) -> Repository:
    """The repository with these names, if they are valid. Raises RankzeroError that names the option."""
    parts = name.split("/")
    wrong = [
        part for part in parts if not _PART.fullmatch(part) or "--" in part or ".." in part or part.endswith(".git")
    ]
    if wrong or len(parts) > 2:
        raise RankzeroError(
            f"repo: {name!r} is not a repository name; expected ORG/NAME of letters, digits, '.', '_' and single '-'"
        )
    if not _REVISION.fullmatch(revision) or any(part in ("", ".", "..") for part in revision.split("/")):
        raise RankzeroError(f"revision: {revision!r} is not a branch, tag or commit; the default is 'main'")
    return Repository(home, name, kind, revision)
