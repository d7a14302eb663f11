# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Code snapshots in the store by digest: present or absent."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import CODE
from ansible_collections.rankzero.slurm.plugins.module_utils.store import uses
from ansible_collections.rankzero.slurm.plugins.module_utils.store.archive import contents, unpack
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import remove, root_of, trouble
from ansible_collections.rankzero.slurm.plugins.module_utils.store.snapshot_request import Row
from ansible_collections.rankzero.slurm.plugins.module_utils.store.stores import borrowed, ready
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import Entry


def snapshot_path(store_root: str, digest: str) -> str:
    """The path of the snapshot with this digest."""
    return f"{store_root.rstrip('/')}/code/{digest}"


def newest_base(store_root: str) -> str | None:
    """The key of this user's newest snapshot, whose unchanged files the next one can use. None without one."""
    folder = os.path.dirname(snapshot_path(store_root, ""))
    snapshots = []
    with contextlib.suppress(OSError), os.scandir(folder) as items:
        for item in items:
            if re.fullmatch(r"[0-9a-f]{64}", item.name) and item.is_dir(follow_symlinks=False):
                status = item.stat(follow_symlinks=False)
                if status.st_uid == os.geteuid():
                    snapshots.append((status.st_mtime, item.name))
    return max(snapshots)[1] if snapshots else None


def lacking(store_root: str, base: str, tree: Sequence[Row]) -> list[int]:
    """Indices of the entries of `tree` whose content the snapshot `base` does not contain."""
    path = snapshot_path(root_of(store_root), base)
    try:
        uses.use(path)  # prevents a prune from removing it before it is used
        there = contents(path)
    except OSError:
        there = {}
    return [number for number, (kind, sha256, _path) in enumerate(tree) if (kind, sha256) not in there]


def ensure_snapshot(
    where: str | Parameters,
    digest: str,
    archive: str | None = None,
    *,
    base: str | None = None,
    kept: Sequence[Entry] = (),
    absent: bool = False,
    check_mode: bool = False,
) -> ModuleResult:
    """Make one snapshot present or absent; returns `changed` and `ref`. Raises RankzeroError.

    `where` is the store, or a map of store_root, stores and store_group_writable. `kept` are the entries that are not
    in the archive but come from the snapshot `base`. Without `archive`, a missing snapshot stays missing (see
    `ref.present`), and `changed` tells whether it would have to be sent.
    """
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise RankzeroError(f"key: {digest!r} is not a sha256 in hex. Give ref.key of a snapshot, or src.")
    options = {"store_root": where} if isinstance(where, str) else where
    warnings: list[str] = []
    stores = ready(options, check_mode=check_mode)
    root = stores[-1].path
    other = None if absent else borrowed(stores, CODE, digest, os.path.isdir, warnings)
    if other:
        return {
            "changed": False,
            "ref": CODE.entry(digest, other, digest),
            **({"warnings": warnings} if warnings else {}),
        }
    path = snapshot_path(root, digest)
    there = os.path.isdir(path)
    changed = there if absent else not there
    if there and not absent and not check_mode:
        there = _use(path)
        changed = not there
    if changed and not check_mode:
        if absent:
            try:
                remove(path)
            except OSError as error:
                raise trouble(error, path) from error
            there = False
        elif archive is not None:
            older = base and snapshot_path(root, base)
            changed = unpack(archive, path, digest, older, kept)
            there = _use(path)
    return {
        "changed": changed,
        "ref": CODE.entry(digest, path, digest, present=there),
        **({"warnings": warnings} if warnings else {}),
    }


def _use(path: str) -> bool:
    """Mark the snapshot as used. Returns whether it exists: a prune may have removed it before the mark."""
    uses.mark(path)
    return os.path.isdir(path)
