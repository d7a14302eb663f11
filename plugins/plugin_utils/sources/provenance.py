# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The origin of code and specs: the repository, and uncommitted changes, refused or saved as a diff (`code.dirty`)."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import read_entry
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.checkout import (
    SUBMODULE,
    address,
    committed_blobs,
    contents,
    head,
    listing,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import Snapshot
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.git import find, opened

# The name of the diff in the run directory. The snapshot has the files themselves, so a long diff is truncated.
DIFF_FILE = "code.diff"
MOST_BYTES = 1_000_000
_NAMED = 20
# Largest size in bytes of one file in the diff, and of all of them.
_LARGEST, _MOST_COPIED = 1_000_000, 16_000_000
_TOO_LARGE = b"\0too large"
_STYLE = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--no-prefix")


def refuse_changes(snapshot: Snapshot) -> None:
    """Raise SpecError if the snapshot, or a file that belongs to launching, is not exactly a commit's."""
    if snapshot.commit is None:
        raise SpecError(
            [
                (
                    f"code.dirty: refuse, but {snapshot.src} is at no commit of a git work tree. Commit it, or set "
                    "code.dirty to allow."
                )
            ]
        )
    changed = sorted((*snapshot.changed, *snapshot.left_out_changed))
    if changed:
        count = len(changed)
        more = f" and {count - _NAMED} more" if count > _NAMED else ""
        raise SpecError(
            [
                (
                    f"code.dirty: refuse, and {count} {'file differs' if count == 1 else 'files differ'} in "
                    f"{snapshot.src} from commit {snapshot.commit[:10]}: {', '.join(changed[:_NAMED])}{more}. "
                    "Commit or stash the changes, list files that are not part of the program in code.exclude, or set "
                    "code.dirty to allow."
                )
            ]
        )


def diff(snapshot: Snapshot) -> str:
    """The uncommitted changes as text, including submodules and new files; "" if there are none, or without git.

    Bytes that are not UTF-8 are replaced, because the diff is meant for people.
    """
    tree = find(snapshot.src)
    if snapshot.commit is None or not snapshot.changed or tree is None:
        return ""
    with opened(tree) as git, tempfile.TemporaryDirectory(prefix="rankzero-") as work:
        left_out = _both_sides(snapshot, work)
        # Run outside any repository, on copies only.
        total = git.ask(work, "diff", "--no-index", *_STYLE, "a", "b", allowed=(0, 1)) + left_out
    if len(total) > MOST_BYTES:
        total = total[:MOST_BYTES] + b"\n(cut here: the snapshot holds the files)\n"
    return total.decode("utf-8", "replace")


def _both_sides(snapshot: Snapshot, work: str) -> bytes:
    """Write the changed files to `work`: as committed to a, as they are now to b. Returns lines on too large files."""
    by_repository: dict[str, list[str]] = {}
    for path in snapshot.changed:
        by_repository.setdefault(_repository(snapshot.src, path), []).append(path)
    for side in ("a", "b"):
        os.mkdir(os.path.join(work, side))
    left_out = b""
    room = _MOST_COPIED
    for inner, paths in sorted(by_repository.items()):
        before = _committed(os.path.join(snapshot.src, inner), [path[len(inner) :] for path in paths])
        for path in paths:
            old, new = before.get(path[len(inner) :]), _present(snapshot.src, path)
            room -= len(old or b"") + len(new or b"")
            if room < 0 or _TOO_LARGE in (old, new):
                left_out += b"(not shown for its size: " + os.fsencode(path) + b")\n"
                continue
            for side, content in (("a", old), ("b", new)):
                if content is not None:
                    _write(os.path.join(work, side, path), content)
    return left_out


def _committed(root: str, paths: list[str]) -> dict[str, bytes]:
    """The committed contents of those files, without new files; empty for a repository without a commit."""
    tree = find(root)
    if tree is None:
        return {}
    with opened(tree) as git:
        commit, _branch = head(git)
        held = committed_blobs(git, os.path.realpath(root)) if commit else {}
        blobs = {path: held[path][1] for path in paths if path in held and held[path][0] != SUBMODULE}
        texts = contents(git, blobs.values(), _LARGEST)
    return {path: texts.get(blob, _TOO_LARGE) for path, blob in blobs.items()}


def _present(src: str, path: str) -> bytes | None:
    """The content of a file in the work tree; None if it is gone or not a regular file."""
    full = os.path.join(src, path)
    try:
        if read_entry(src, path) is None:
            return None
        if os.path.islink(full):
            return os.fsencode(os.readlink(full))
        if os.path.getsize(full) > _LARGEST:
            return _TOO_LARGE
        with open(full, "rb") as stream:
            return stream.read(_LARGEST)
    except OSError:
        return None


def _write(path: str, content: bytes) -> None:
    # A name that is a file on one side and a folder on the other cannot exist here twice.
    with contextlib.suppress(FileExistsError, NotADirectoryError, IsADirectoryError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(content)


def _repository(src: str, path: str) -> str:
    """The folder below `src`, with a slash, of the repository that tracks `path`; "" for that of `src` itself."""
    folder = os.path.dirname(path)
    while folder:
        if os.path.lexists(os.path.join(src, folder, ".git")):
            return f"{folder}/"
        folder = os.path.dirname(folder)
    return ""


def repository(folder: str) -> dict[str, object]:
    """The git repository of a folder: {"repository": address of origin, "commit", "branch", "dirty", "folder"}.

    User and token are removed from the address. Outside a repository, all values are null and `dirty` is false.
    """
    nothing: dict[str, object] = {
        "repository": None,
        "commit": None,
        "branch": None,
        "dirty": False,
        "folder": None,
    }
    tree = find(folder) if os.path.isdir(folder) else None
    known = listing(folder) if tree else None
    if tree is None or known is None:
        return nothing
    return {
        "repository": origin(folder),
        "commit": known.commit,
        "branch": known.branch,
        "dirty": bool(known.changed),
        "folder": os.path.relpath(os.path.realpath(folder), tree.top),
    }


def origin(folder: str) -> str | None:
    """The address of the remote `origin` of a folder's repository, without credentials."""
    tree = find(folder)
    if tree is None:
        return None
    with opened(tree) as git:
        return _public(address(git)) or None


def _public(address: str) -> str:
    """A repository's address without user, password and query. The user of `git@host:path` is kept."""
    return re.sub(r"^([a-z][a-z0-9+.-]*://)[^/@]*@", r"\1", address.partition("?")[0], flags=re.IGNORECASE)
