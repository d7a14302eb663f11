# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find a repository in the cache of a trusted owner's store.

It is copied, not linked: a job finds it by name in its own HF_HOME, and a container mounts that folder, not the store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Untrusted
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.layout import Repository
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.manifest import Manifest, current, read, verify
from ansible_collections.rankzero.slurm.plugins.module_utils.store.stores import Store, check
from ansible_collections.rankzero.slurm.plugins.module_utils.store.verified import Memory

#: The folder of a store that serves as HF_HOME.
FOLDER = "huggingface"


def borrowed(
    stores: Sequence[Store],
    where: Repository,
    commit: str | None,
    fits: Callable[[Manifest], bool],
    notes: list[str],
) -> tuple[Repository, Manifest] | None:
    """The first trusted store with the complete repository, as a repository in that store; None without one.

    `commit`: None selects the commit that the revision refers to in that store. `fits`: whether a manifest has the
    wanted files.
    """
    for store in stores:
        there = replace(where, home=os.path.join(store.path, FOLDER))
        if there.home == where.home:  # the store's owner fills it
            continue
        try:
            _check(store, there)
            their_commit = commit or current(there)
            manifest = read(there, their_commit) if their_commit else None
            if manifest is None or not fits(manifest):
                continue
            _manifest, wrong = verify(there, manifest, thorough=False)
        except FileNotFoundError:
            continue
        except (Untrusted, OSError) as error:
            why = error.message if isinstance(error, Untrusted) else f"{error.filename}: {error.strerror}"
        else:
            if not wrong:
                return there, manifest
            why = "; ".join(f"{name} {text}" for name, text in sorted(wrong.items()))
        notes.append(not_taken(there, why))
    return None


def _check(store: Store, there: Repository) -> None:
    """Raise Untrusted if others could have written what is read. Raises OSError."""
    check(store, there.home, Memory(None), deep=False)
    for folder in (there.ours, there.path):
        check(store, folder, Memory(None))


def not_taken(there: Repository, why: str) -> str:
    """The warning about a store whose copy of the repository cannot be used."""
    return f"stores: {there.name} is not taken from {there.home}: {why}"
