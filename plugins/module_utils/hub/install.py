# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install files as a snapshot of the hub's cache.

The order is: contents, links, manifest, and last the name by which libraries find the snapshot.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import file_sha256
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import amount
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import text_of
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.layout import COMMIT, Repository
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.manifest import Manifest, text
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import (
    free_space,
    process_scope,
    remove,
    sync_folder,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.store.manifest import File, plain
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import write_durably
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import walk

#: The hub library's own data next to the files that it fetched.
_CACHE = ".cache"
_ASIDE = ".broken"


def read_folder(folder: str) -> list[File]:
    """All files below `folder`, links followed, without the library's own data. Raises RankzeroError."""
    files = []
    try:
        for path in walk(folder, lambda name: name.split("/")[0] in (_CACHE, ".git")):
            full = os.path.join(folder, path)
            if os.path.isfile(full):
                files.append(File(plain(path), file_sha256(full), os.path.getsize(full)))
    except OSError as error:
        raise RankzeroError(f"src: {error.filename or folder} cannot be read: {error.strerror}") from error
    return files


def require_files(names: Iterable[str], wanted: Sequence[str], repo: str) -> None:
    """Check that all names in `wanted` exist; in an entry with `|`, one of them suffices. Raises RankzeroError."""
    there = sorted(names)
    missing = [entry for entry in wanted if not set(entry.split("|")) & set(there)]
    if missing:
        shown = ", ".join(there[:12]) + (f" and {len(there) - 12} more" if len(there) > 12 else "")
        raise RankzeroError(
            f"require: {repo} lacks {'; '.join(entry.replace('|', ' or ') for entry in missing)}. It has: "
            f"{shown or 'no file'}. A job cannot load it without them: use a revision or folder that has them "
            "(save_pretrained writes them), or correct include and exclude."
        )


def lacking(repository: Repository, files: Iterable[File]) -> list[File]:
    """The files whose content the cache lacks. Existing content is read, and renamed if it is wrong."""
    wanted = {file.sha256: file for file in files}
    return [file for file in wanted.values() if not _sound(repository, file)]


def _sound(repository: Repository, file: File) -> bool:
    blob = f"{repository.blobs}/{file.sha256}"
    try:
        if os.path.getsize(blob) == file.size and file_sha256(blob) == file.sha256:
            return True
        os.replace(blob, blob + _ASIDE)
    except OSError:
        pass
    return False


def install(repository: Repository, folder: str, manifest: Manifest, *, ours: bool) -> Manifest:
    """Make the manifest's files in `folder` the snapshot of its commit. Returns the manifest with their current times.

    `ours`: nobody writes in `folder` any more, so hard links are sufficient. Raises RankzeroError if a file changed
    meanwhile or there is no space, and OSError.
    """
    commit, files = manifest.commit, manifest.files
    missing = lacking(repository, files)
    needed = sum(file.size for file in missing)
    os.makedirs(repository.blobs, exist_ok=True)
    free = os.statvfs(repository.blobs)
    if needed > free.f_bavail * free.f_frsize:
        raise RankzeroError(
            f"path: {amount(needed)} are needed in {repository.home}, which has {free_space(repository.blobs)}. "
            "Make room there, or name another path."
        )
    for file in missing:
        _bring(os.path.join(folder, file.path), f"{repository.blobs}/{file.sha256}", file, ours=ours)
    sync_folder(repository.blobs)
    for file in files:
        _link(repository, commit, file)
    seen = [
        File(file.path, file.sha256, file.size, os.stat(f"{repository.blobs}/{file.sha256}").st_mtime_ns)
        for file in files
    ]
    installed = replace(manifest, files=tuple(sorted(seen, key=lambda file: file.path)))
    write_manifest(repository, installed)
    name(repository, commit)
    return installed


def _bring(source: str, blob: str, file: File, *, ours: bool) -> None:
    """Copy or link one file. It is read after writing, and gets the blob's name only if its content is right."""
    own = f"{blob}.{process_scope()}-{os.getpid()}-{time.time_ns()}.incomplete"
    try:
        if not (ours and _linked(source, own)):
            shutil.copyfile(source, own)
        if file_sha256(own) != file.sha256:
            raise RankzeroError(f"src: {file.path} changed while it was copied, or was damaged: run again")
        os.chmod(own, 0o644)
        with open(own, "rb") as stream:
            os.fsync(stream.fileno())
        os.replace(own, blob)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(own)


def _linked(source: str, own: str) -> bool:
    try:
        os.link(os.path.realpath(source), own)
    except OSError:  # hard links are unsupported here
        return False
    return True


def _link(repository: Repository, commit: str, file: File) -> None:
    link = f"{repository.snapshot(commit)}/{file.path}"
    target = os.path.relpath(f"{repository.blobs}/{file.sha256}", os.path.dirname(link))
    with contextlib.suppress(OSError):
        if os.readlink(link) == target:
            return
    os.makedirs(os.path.dirname(link), exist_ok=True)
    own = f"{link}.{process_scope()}-{os.getpid()}.incomplete"
    os.symlink(target, own)
    os.replace(own, link)


def write_manifest(repository: Repository, manifest: Manifest) -> None:
    """Write the manifest completely or not at all. Raises OSError."""
    write_durably(repository.manifest(manifest.commit), text(manifest))


def name(repository: Repository, commit: str) -> None:
    """Let the revision refer to the commit. Raises OSError."""
    if not COMMIT.fullmatch(repository.revision):
        write_durably(repository.ref, commit)


def uninstall(repository: Repository, manifest: Manifest) -> None:
    """Remove a snapshot, all revisions that refer to it, and contents that no other snapshot uses. Raises OSError."""
    refs, snapshots = os.path.join(repository.path, "refs"), os.path.join(repository.path, "snapshots")
    for path in _below(refs):
        stands_for = text_of(os.path.join(refs, path)).strip()
        if stands_for == manifest.commit:
            os.unlink(os.path.join(refs, path))
    remove(repository.snapshot(manifest.commit))
    links = (os.path.join(snapshots, path) for path in _below(snapshots))
    kept = {os.path.basename(os.readlink(link)) for link in links if os.path.islink(link)}
    for file in manifest.files:
        if file.sha256 not in kept:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{repository.blobs}/{file.sha256}")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(repository.manifest(manifest.commit))


def _below(folder: str) -> list[str]:
    return list(walk(folder)) if os.path.isdir(folder) else []
