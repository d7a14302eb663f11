# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetch a snapshot from the hub with the hub's own library, in a Python that has it. Fetched files are kept."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core import children
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import child_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import MOST_VALUE_BYTES, text_of
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.layout import Repository

# Runs in the other Python. The request comes on standard input, so that no token appears in the arguments (`ps`).
PROGRAM = """
import json, os, sys
asked = json.load(sys.stdin)
try:
    from huggingface_hub import HfApi, snapshot_download
except ImportError as error:
    print(json.dumps({"error": ["ImportError"], "text": str(error)}))
    sys.exit(0)
try:
    where = {"repo_id": asked["repo"], "repo_type": asked["kind"], "token": asked["token"]}
    info = HfApi().repo_info(revision=asked["revision"], **where)
    told = {"commit": info.sha, "names": [each.rfilename for each in info.siblings or []]}
    if asked["folder"]:
        snapshot_download(
            revision=info.sha, local_dir=asked["folder"], allow_patterns=asked["include"] or None,
            ignore_patterns=asked["exclude"] or None, **where
        )
except Exception as error:
    told = {"error": [kind.__name__ for kind in type(error).__mro__], "text": str(error)}
print(json.dumps(told))
"""
# Nobody reads the progress bars here. The offline variables are removed, as a download cannot use the cache.
_ENVIRONMENT = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
_OFFLINE = ("HF_HUB_OFFLINE",)


@dataclass(frozen=True)
class Hub:
    """Access to the hub: the Python to use and the file of the token (None: the one that the library finds).

    `otherwise`: the advice for when the hub cannot be reached.
    """

    python: str
    token_file: str | None = None
    otherwise: str = "use download: controller where this host reaches no hub, or give src"

    def list_files(self, repository: Repository) -> tuple[str, list[str]]:
        """(commit, names of all its files) of the revision. Raises RankzeroError."""
        answer = self._ask(repository, None, (), ())
        return str(answer["commit"]), [str(name) for name in answer["names"]]

    def download(
        self, repository: Repository, commit: str, folder: str, include: Sequence[str], exclude: Sequence[str]
    ) -> None:
        """Fetch the selected files of a commit into `folder`, which may contain some. Raises RankzeroError."""
        pinned = Repository(repository.home, repository.name, repository.kind, commit)
        self._ask(pinned, folder, include, exclude)

    def _ask(
        self, repository: Repository, folder: str | None, include: Sequence[str], exclude: Sequence[str]
    ) -> dict[str, list[str] | str]:
        asked = {
            "repo": repository.name,
            "kind": repository.kind,
            "revision": repository.revision,
            "folder": folder,
            "include": list(include),
            "exclude": list(exclude),
            "token": read_token(self.token_file),
        }
        allowed = child_environment(os.environ, "HF_", "HUGGINGFACE_", "HUGGING_FACE_")
        environment = {name: value for name, value in allowed.items() if name not in _OFFLINE}
        try:
            done = children.run(
                [self.python, "-I", "-c", PROGRAM],
                {**environment, **_ENVIRONMENT},
                stdin=json.dumps(asked).encode(),
                cwd="/",
            )
        except OSError as error:
            raise RankzeroError(f"python: {self.python} cannot be run: {error.strerror}") from error
        try:
            answer: dict[str, list[str] | str] = json.loads(done.stdout.strip().rsplit("\n", 1)[-1])
        except ValueError:
            last = (done.stderr.strip() or done.stdout.strip() or "it printed nothing").rsplit("\n", 1)[-1]
            raise RankzeroError(f"python: {self.python} ended with {done.returncode}: {last}") from None
        if "error" in answer:
            raise explained(repository, self.python, list(answer["error"]), str(answer["text"]), self.otherwise)
        return answer


def read_token(file: str | None) -> str | None:
    """The token in a file; None without a file. Raises RankzeroError."""
    if file is None:
        return None
    path = os.path.expanduser(file)
    try:
        token = text_of(path, MOST_VALUE_BYTES).strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise RankzeroError(f"token_file: {path} cannot be read: {reason}") from error
    if not token or any(character.isspace() for character in token):
        raise RankzeroError(f"token_file: {path} contains no token; expected one word")
    return token


def explained(repository: Repository, python: str, kinds: Sequence[str], text: str, otherwise: str) -> RankzeroError:
    """The error with the option that fixes it. `kinds`: the class names of the exception and its bases."""
    name, revision = repository.name, repository.revision
    if "ImportError" in kinds:
        return RankzeroError(
            f"python: {python} has no huggingface_hub ({text}). Install it, name a Python that has it, or give src."
        )
    if "GatedRepoError" in kinds:
        return RankzeroError(
            f"repo: {name} is gated. Accept its terms on its page with the account of the token, and give the token "
            "(token_file, or HF_TOKEN): it needs the permission to read public gated repositories."
        )
    if "RevisionNotFoundError" in kinds:
        return RankzeroError(f"revision: {name} has no {revision!r}; give a branch, a tag or a commit of 40 digits.")
    if "RepositoryNotFoundError" in kinds:
        return RankzeroError(
            f"repo: there is no {repository.kind} {name}, or it is private: then the token (token_file, or HF_TOKEN) "
            "needs the permission to read it."
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [kinds[0] if kinds else "no reason given"]
    return RankzeroError(
        f"repo: {name} cannot be fetched from the hub: {lines[0]}. The files that have arrived are kept; run "
        f"again to resume, or {otherwise}."
    )
