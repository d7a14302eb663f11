# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Publish a small set of text files as one directory that appears complete or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import time
from collections.abc import Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.core.clearing import remove_tree
from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import replace_file
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import is_own
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import difference
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import MOST_LIST_BYTES, text_of
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import (
    delete,
    folders_as_above,
    group_writes,
    open_folders,
    open_mode,
    set_aside,
)

# No file of a bundle is as large (bytes): larger files are not ours and are not read.
_LARGEST = 1 << 20


def bundle_key(files: Mapping[str, str]) -> str:
    """The name of a folder of text files, computed from its content, as a job's script computes it.

    It is sha256sum(1) over the output of sha256sum(1) for all files in the order of their names. Names may be
    FOLDER/FILE; then a listing of the folder and its folders comes first, and every file has a dot in its name.
    """
    inner = sorted(name for name in files if "/" in name)
    outer = sorted(name for name in files if "/" not in name)
    listed = [*sorted({*outer, *(name.partition("/")[0] for name in inner)}), *inner] if inner else []
    lines = [f"{name}\n" for name in listed]
    lines += [f"{hashlib.sha256(files[name].encode()).hexdigest()}  {name}\n" for name in (*outer, *inner)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:32]


def read_bundle(directory: str, inner: str = "") -> dict[str, str]:
    """The files of a folder made by `publish_files`, and any other entries in it. Raises OSError.

    `inner`: the prefix for the names of the files when a subfolder is read.
    """
    texts = {}
    with os.scandir(directory) as items:
        for item in items:
            if not inner and item.is_dir(follow_symlinks=False) and is_own(item.path):
                inside = read_bundle(item.path, f"{item.name}/")
                texts.update(inside or {item.name: ""})
                continue
            texts[inner + item.name] = ""
            if item.is_file(follow_symlinks=False) and item.stat(follow_symlinks=False).st_size < _LARGEST:
                texts[inner + item.name] = text_of(item.path, _LARGEST, "replace")
    return texts


def _holds(directory: str, files: Mapping[str, str]) -> bool:
    """Whether the folder is this user's own and contains exactly these files; False if it cannot be read."""
    with contextlib.suppress(OSError):
        return is_own(directory) and read_bundle(directory) == files
    return False


def publish_files(directory: str, files: Mapping[str, str]) -> bool:
    """Make `directory` contain exactly `files` (name or folder/name -> text).

    Folders get mode 0755 and files 0644, for any umask. Returns False if it already does. Raises RankzeroError.
    """
    temporary = f"{directory}.{socket.gethostname()}-{os.getpid()}-{time.time_ns()}.tmp"
    try:
        if os.path.isdir(directory):
            if _holds(directory, files):
                return False
            # A folder of another user cannot be deleted, but it can be renamed.
            aside = set_aside(directory)
            with contextlib.suppress(OSError):
                delete(aside or "")
        open_folders(os.path.dirname(directory))
        os.mkdir(temporary, 0o700)
        for folder in sorted({os.path.dirname(name) for name in files} - {""}):
            os.mkdir(os.path.join(temporary, folder), 0o700)
        for name, text in files.items():
            with open(os.path.join(temporary, name), "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fchmod(stream.fileno(), 0o644)
                os.fsync(stream.fileno())
        for folder in sorted({os.path.dirname(name) for name in files} - {""}):
            os.chmod(os.path.join(temporary, folder), open_mode(temporary))
        os.chmod(temporary, open_mode(temporary))
        os.rename(temporary, directory)
    except OSError as error:
        with contextlib.suppress(OSError):
            remove_tree(temporary)
        # Another process was first: over sftp, a rename onto a folder fails with a permission error.
        if _holds(directory, files):
            return False
        raise RankzeroError(
            f"state_root: cannot write {directory}: {error.strerror or error}. Name a folder on shared storage that "
            "this user may write (launch_cluster.state_root)."
        ) from error
    return True


def write_text(path: str, text: str, *, check_mode: bool = False) -> dict[str, object]:
    """Make the file `path` contain `text`, by rename; nobody else may write it. Returns changed, path and diff.

    Raises RankzeroError.
    """
    try:
        before = text_of(path, MOST_LIST_BYTES)
    except FileNotFoundError:
        before = ""
    except OSError as error:
        raise RankzeroError(f"path: {path} cannot be read: {error.strerror}") from error
    changed = before != text
    if changed and not check_mode:
        try:
            replace_file(path, text, mode=0o644)
        except OSError as error:
            raise RankzeroError(f"path: {path} cannot be written: {error.strerror}; its folder must exist") from error
    return {"changed": changed, "path": path, "diff": difference(path, before, text) if changed else {}}


def write_durably(path: str, content: str) -> None:
    """Write `content` to the file `path` so that it survives a crash, by rename; makes its folder. Raises OSError."""
    folder = os.path.dirname(path)
    folders_as_above(folder)
    replace_file(path, content, permissions=0o644 | group_writes(folder), durably=True)
