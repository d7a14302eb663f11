# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where code and specs come from: the repository, and uncommitted changes, refused or kept as a diff (`code.dirty`)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from ansible_collections.rankzero.slurm.plugins.module_utils.errors import RankzeroError, SpecError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.snapshot import Snapshot, git

# The file of the run directory. The snapshot holds the files themselves; a longer diff is cut.
DIFF_FILE = "code.diff"
MOST_BYTES = 1_000_000
_NAMED = 20
# Paths of one command line.
_BATCH = 500
_STYLE = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")


def refuse_changes(snapshot: Snapshot) -> None:
    """Raises SpecError where the snapshot is not exactly a commit."""
    if snapshot.commit is None:
        raise SpecError(
            [
                (
                    f"code.dirty: refuse, but {snapshot.src} is at no commit of a git work tree. Commit it, or set "
                    "code.dirty to allow."
                )
            ]
        )
    if snapshot.changed:
        count = len(snapshot.changed)
        more = f" and {count - _NAMED} more" if count > _NAMED else ""
        raise SpecError(
            [
                (
                    f"code.dirty: refuse, and {count} {'file differs' if count == 1 else 'files differ'} in "
                    f"{snapshot.src} from commit {snapshot.commit[:10]}: {', '.join(snapshot.changed[:_NAMED])}{more}. "
                    "Commit or stash the changes, name what is no part of the program in code.exclude, or set "
                    "code.dirty to allow."
                )
            ]
        )


def diff(snapshot: Snapshot) -> str:
    """The uncommitted changes as text, submodules and new files included; "" where there are none or there is no git.

    Bytes that are no UTF-8 are replaced: it is there to be read.
    """
    if snapshot.commit is None:
        return ""
    total = b""
    for part in _parts(snapshot):
        total += part
        if len(total) > MOST_BYTES:
            total = total[:MOST_BYTES] + b"\n(cut here: the snapshot holds the files)\n"
            break
    return total.decode("utf-8", "replace")


def _parts(snapshot: Snapshot) -> Iterator[bytes]:
    by_repository: dict[str, list[str]] = {}
    for path in snapshot.changed:
        by_repository.setdefault(_repository(snapshot.src, path), []).append(path)
    for inner, paths in sorted(by_repository.items()):
        root = os.path.join(snapshot.src, inner)
        below = [path[len(inner) :] for path in paths]
        shown = [f"--src-prefix=a/{inner}", f"--dst-prefix=b/{inner}"]
        listed = git(root, "ls-files", "-z", "--others", "--exclude-standard", "--", ".").split(b"\0")
        new = {os.fsdecode(name) for name in listed}
        tracked = [f":(literal){path}" for path in below if path not in new]
        for start in range(0, len(tracked), _BATCH):
            batch = tracked[start : start + _BATCH]
            # A repository inside ours may have no commit yet.
            success = (0, 128) if inner else (0,)
            yield git(root, "diff", "HEAD", "--relative", *_STYLE, *shown, "--", *batch, allowed=success)
        for path in below:
            if path in new and os.path.lexists(os.path.join(root, path)):
                yield git(root, "diff", "--no-index", *_STYLE, *shown, "--", "/dev/null", path, allowed=(0, 1))


def _repository(src: str, path: str) -> str:
    """The folder below `src`, with a slash, of the repository that tracks `path`; "" for that of `src` itself."""
    folder = os.path.dirname(path)
    while folder:
        if os.path.lexists(os.path.join(src, folder, ".git")):
            return f"{folder}/"
        folder = os.path.dirname(folder)
    return ""


def repository(folder: str) -> dict[str, object]:
    """Which git repository a folder is in: {"repository": address of origin, "commit", "branch", "dirty", "folder"}.

    An address may hold a user and a token: they stay out. All null, and `dirty` false, where git knows nothing of it.
    """
    nothing: dict[str, object] = {
        "repository": None,
        "commit": None,
        "branch": None,
        "dirty": False,
        "folder": None,
    }

    def said(*arguments: str) -> str:
        return os.fsdecode(git(folder, *arguments, allowed=(0, 1, 2, 128))).strip()

    try:
        if said("rev-parse", "--is-inside-work-tree") != "true":
            return nothing
    except (RankzeroError, OSError):
        return nothing
    return {
        "repository": _public(said("remote", "get-url", "origin")) or None,
        "commit": said("rev-parse", "--verify", "--quiet", "HEAD") or None,
        "branch": said("symbolic-ref", "--quiet", "--short", "HEAD") or None,
        "dirty": bool(said("status", "--porcelain", "--", ".")),
        "folder": said("rev-parse", "--show-prefix").rstrip("/") or ".",
    }


def _public(address: str) -> str:
    """A repository's address without user, password and query. `git@host:path` is how a host is written, and stays."""
    return re.sub(r"^([a-z][a-z0-9+.-]*://)[^/@]*@", r"\1", address.partition("?")[0], flags=re.IGNORECASE)
