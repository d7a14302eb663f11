# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a hub repository on the controller: from a folder, an archive, or a download."""

from __future__ import annotations

import contextlib
import os
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core import extraction
from ansible_collections.rankzero.slurm.plugins.module_utils.core.clearing import remove_tree
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import user_cache
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.fetch import Hub
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.install import read_folder, require_files
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.layout import repository
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.manifest import HubRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.store.archive import said_of, unzip
from ansible_collections.rankzero.slurm.plugins.module_utils.store.manifest import File, selected

# Archives may contain anything; a hub repository consists of files only.
_FILES = extraction.Rules(links="skip", special="skip")


@dataclass(frozen=True)
class Found:
    """The files of `folder` to be sent. `commit` is None if they do not come from a commit of the hub."""

    folder: str
    files: tuple[File, ...]
    label: str
    commit: str | None = None

    def request(self, archive: str | None = None) -> JsonObject:
        """The description of the files for the host. `archive`: the archive there with the files that it lacked."""
        return HubRequest(self.files, self.label, self.commit, archive).arguments()


@dataclass(frozen=True)
class DownloadOptions:
    """The options of hub_cache that say what is downloaded, and how."""

    repo: str
    repo_type: str
    revision: str
    include: Sequence[str]
    exclude: Sequence[str]
    require: Sequence[str]
    python: str | None = None
    token_file: str | None = None


@contextlib.contextmanager
def opened(src: str, include: Sequence[str], exclude: Sequence[str]) -> Iterator[Found]:
    """The selected files of a folder or an archive (compressed or plain tar, zip). Raises RankzeroError."""
    path = os.path.abspath(os.path.expanduser(src))
    with contextlib.ExitStack() as stack:
        folder = path
        if not os.path.isdir(path):
            folder = _single(_unpacked(path, stack.enter_context(tempfile.TemporaryDirectory(prefix="rankzero-"))))
        files = {file.path: file for file in read_folder(folder)}
        chosen = tuple(files[name] for name in selected(sorted(files), include, exclude))
        if not chosen:
            raise RankzeroError(f"src: {path} has no file that matches include and exclude")
        yield Found(folder, chosen, path)


def _unpacked(archive: str, folder: str) -> str:
    if not os.path.exists(archive):
        raise RankzeroError(
            f"src: {archive} does not exist; expected a folder or an archive (tar, zip) on the controller"
        )
    try:
        with said_of(f"src: {archive}", "Copy it here again."):
            if zipfile.is_zipfile(archive):
                unzip(archive, folder)
            elif tarfile.is_tarfile(archive):
                extraction.untar(archive, folder, _FILES)
            else:
                raise RankzeroError(f"src: {archive} is neither a folder nor an archive (tar, zip)")
    except OSError as error:
        raise RankzeroError(f"src: {archive} cannot be unpacked: {error}") from error
    return folder


def _single(folder: str) -> str:
    """The single top folder of an unpacked archive, if there is one; otherwise the folder itself."""
    names = os.listdir(folder)
    inner = os.path.join(folder, names[0]) if len(names) == 1 else folder
    return inner if os.path.isdir(inner) else folder


def downloaded(wanted: DownloadOptions, commit: str | None) -> Found:
    """Download from the hub into a folder that a later run can continue with. Raises RankzeroError.

    `commit`: the one that the host wants; None means that of the revision.
    """
    where = repository("", wanted.repo, wanted.repo_type, commit or wanted.revision)
    hub = Hub(wanted.python or sys.executable, wanted.token_file)
    if commit is None:
        commit, names = hub.list_files(where)
        require_files(selected(names, wanted.include, wanted.exclude), wanted.require, where.name)
    folder = user_cache("hub", where.folder, commit)
    hub.download(where, commit, folder, wanted.include, wanted.exclude)
    files = sorted(read_folder(folder), key=lambda file: file.path)
    return Found(folder, tuple(files), "hub", commit)


def forget(download: Found) -> None:
    """Remove the download, once its files have arrived."""
    with contextlib.suppress(OSError):
        remove_tree(download.folder)


def pack(download: Found, names: Iterable[str], archive: str) -> None:
    """Write those files to an uncompressed tar, since weights do not compress. Raises RankzeroError."""
    wanted = set(names)
    try:
        with tarfile.open(archive, "w", dereference=True) as packed:
            for file in download.files:
                if file.path in wanted:
                    packed.add(os.path.realpath(os.path.join(download.folder, file.path)), arcname=file.path)
    except OSError as error:
        raise RankzeroError(f"src: {error.filename or download.folder} cannot be packed: {error.strerror}") from error
