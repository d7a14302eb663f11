# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The artifact and other outputs of a launch: which files are fetched, and their digests on both sides.

Outputs lie in the ranks' working directory, RUN/work. Links in it lead to the code and are never followed. The transfer
is that of the logs (archive.py). It continues a file by its last bytes, so complete files are compared by digest.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import blocks, sha256_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Untrusted
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.archive import Listing, collect, safe_path
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.transfer import Holding
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_end import Artifact

WORK = "work"
# Names shown where a path does not exist.
MOST_SHOWN = 20
# Files of one fetch. The request and the answer name each of them.
MOST_FILES = 50_000


@dataclass(frozen=True)
class Proof:
    """The file that proved the launch, below the working directory, with its digest in outcome.json."""

    path: str
    sha256: str


@dataclass(frozen=True)
class Verification:
    """What the copies are compared with. `digests`: by path; None for a file that the controller does not have."""

    digests: Mapping[str, str | None]
    proof: Proof | None

    @classmethod
    def of(cls, result: ModuleResult) -> Verification:
        """Read it from the result of module job_pull."""
        return cls(result["digests"], Proof(**result["proof"]) if result["proof"] else None)

    def result(self) -> ModuleResult:
        """Return the result of module job_pull."""
        return {"changed": False, **asdict(self)}


@dataclass(frozen=True)
class Copy:
    """A file on the controller."""

    path: str
    bytes: int
    sha256: str | None


@dataclass(frozen=True)
class Difference:
    """Files that are not what they should be: copies that differ from the cluster's, or the artifact from the proof."""

    copies: Sequence[str] = ()
    artifact: str | None = None


def work_of(run: RunDirectory) -> Beneath:
    """Return the working directory: in the run directory, or the folder in which a batch script works in place."""
    spec: object = (run.document("launch.json") or {}).get("spec")
    code: object = spec.get("code") if isinstance(spec, dict) else None
    place: object = code.get("in_place") if isinstance(code, dict) else None
    in_place = isinstance(place, str) and os.path.isabs(place)
    return Beneath(os.path.realpath(str(place))) if in_place else run.shown(WORK)


def chosen_paths(run: RunDirectory, paths: Sequence[str]) -> list[str]:
    """Return the paths to fetch: those given, else the artifact's. Raises `RankzeroError`."""
    if not paths:
        artifact = _artifact(run).get("path")
        if not artifact:
            raise RankzeroError(
                f"the launch {run.path} has no artifact in its job file. Name what to fetch in paths, relative to the "
                "working directory of the ranks; '.' fetches everything."
            )
        return [str(artifact)]
    plain = [os.path.normpath(path) for path in paths]
    for path, given in zip(plain, paths):
        if not given or (path != "." and not safe_path(path)):
            raise RankzeroError(
                f"paths: {given!a} is not a file or folder in the working directory of the ranks. Give a relative path "
                "without '..', such as checkpoints/last."
            )
    return plain


def listing(work: Beneath, paths: Sequence[str]) -> Listing:
    """Return the files at or below `paths` in a working directory. Raises `RankzeroError` for a path without files, and
    for more than MOST_FILES.
    """
    files, notes = collect(work, lambda name: any(_contains(path, name) for path in paths), MOST_FILES)
    if len(files) + len(notes) > MOST_FILES:
        raise RankzeroError(
            f"paths: {', '.join(paths)} are more than {MOST_FILES} files. Name folders of it one after the "
            "other, or let the program pack them into one file."
        )
    missing = [path for path in paths if not any(_contains(path, name) for name, _size in files)]
    if missing:
        first = [name for name, _size in collect(work, most=MOST_FILES)[0]]
        names = sorted({name.partition("/")[0] + ("/" if "/" in name else "") for name in first})
        shown = ", ".join(names[:MOST_SHOWN]) or "none"
        raise RankzeroError(
            f"paths: no files at {', '.join(missing)} in {work.path}. Links are not followed. Names there: {shown}."
        )
    return files, notes


def _contains(path: str, name: str) -> bool:
    return path in (".", name) or name.startswith(f"{path}/")


def proof(run: RunDirectory) -> Proof | None:
    """Return the file that proved the launch; None if nothing was proven."""
    judged, artifact = Artifact.of(run.outcome()), _artifact(run)
    path = artifact.get("path")
    if not (path and judged and judged.valid and judged.sha256):
        return None
    # Of a directory, the file that completes it is digested.
    within = artifact.get("complete") if artifact.get("format") == "directory" else None
    return Proof(os.path.join(path, within) if within else path, judged.sha256)


def _artifact(run: RunDirectory) -> Mapping[str, str]:
    artifact = (run.document("contract.json") or {}).get("artifact")
    return artifact if isinstance(artifact, dict) else {}


def digest(root: Beneath, path: str, size: int) -> str | None:
    """Return the SHA-256 of the first `size` bytes of a file below `root`; None if the file cannot be read."""
    try:
        # It was listed before: a look into the folder for each of its files would take hours where they are many.
        with root.at(os.path.join(root.path, path)) as stream:
            return sha256_of(blocks(stream, size))
    except (OSError, Untrusted):
        return None


def verification(run: RunDirectory, paths: Sequence[str], have: Mapping[str, Holding]) -> Verification:
    """Return the digests of the files at `paths`, each of as many bytes as the controller has, and the proof."""
    work = work_of(run)
    files, _notes = listing(work, paths)
    digests = {name: digest(work, name, have[name].offset) if name in have else None for name, _size in files}
    return Verification(digests, proof(run))


def compare(dest: str, cluster: Verification) -> tuple[list[Copy], Difference]:
    """Compare the copies in `dest` with the cluster's files. Returns the copies, and the differences.

    Raises `RankzeroError` for a path that leads out of `dest`.
    """
    copies: list[Copy] = []
    wrong: list[str] = []
    artifact = None
    for path, sha256 in cluster.digests.items():
        if not safe_path(path):
            raise RankzeroError(f"the cluster named a file {path!a}, which is outside {dest}; nothing was compared")
        place = os.path.join(dest, path)
        size = os.path.getsize(place) if os.path.isfile(place) else 0
        own = digest(Beneath(dest), path, size)
        if sha256 is None or own != sha256:
            wrong.append(path)
        elif cluster.proof and cluster.proof.path == path and own != cluster.proof.sha256:
            artifact = path
        copies.append(Copy(path, size, own))
    return copies, Difference(wrong, artifact)
