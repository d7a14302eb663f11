# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The origin of code and specs: the repository, and uncommitted changes, refused or saved as a diff (`code.dirty`)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.checkout import Checkout, checkout_of
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import Snapshot

# The name of the diff in the run directory. The snapshot has the files themselves, so a long diff is truncated.
DIFF_FILE = "code.diff"
MOST_BYTES = 1_000_000
_NAMED = 20


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
    if snapshot.checkout is None or snapshot.commit is None or not snapshot.changed:
        return ""
    text = snapshot.checkout.diff(snapshot.changed, MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        text = text[:MOST_BYTES] + b"\n(cut here: the snapshot holds the files)\n"
    return text.decode("utf-8", "replace")


@dataclass(frozen=True)
class Origin:
    """Where a folder is from. `repository`: the address of origin, without user and token; `folder`: its path in it."""

    repository: str | None = None
    commit: str | None = None
    branch: str | None = None
    dirty: bool = False
    folder: str | None = None


def repository(folder: str) -> Origin:
    """The git repository of a folder. Outside of one, all values are None and `dirty` is false."""
    checkout = checkout_of(folder) if os.path.isdir(folder) else None
    if checkout is None:
        return Origin()
    place = os.path.relpath(checkout.root, checkout.tree.top)
    return Origin(origin(checkout), checkout.commit, checkout.branch, bool(checkout.changed), place)


def origin(checkout: Checkout | None) -> str | None:
    """The address of the remote `origin` of a repository, without credentials."""
    return (_public(checkout.origin) or None) if checkout else None


def _public(address: str) -> str:
    """A repository's address without user, password and query. The user of `git@host:path` is kept."""
    return re.sub(r"^([a-z][a-z0-9+.-]*://)[^/@]*@", r"\1", address.partition("?")[0], flags=re.IGNORECASE)
