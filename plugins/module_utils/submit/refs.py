# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check whether the items that a launch refers to are on the cluster, and in which store. Each kind has its own check.

A launch is rendered as if all items were in the user's own store. If a trusted store has an item, the item's path
replaces the other path everywhere in the launch. Digests that are known only after an item was built are inserted in
the same way (core/placeholders.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import file_sha256
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import is_own
from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import PLAIN, digest_token, text_replaced
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import MOST_LIST_BYTES, json_of
from ansible_collections.rankzero.slurm.plugins.module_utils.image.files import damage
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import (
    BY_NAME,
    ENVIRONMENT,
    LISTED,
    NOTHING,
    RUNTIME,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.manifest import present
from ansible_collections.rankzero.slurm.plugins.module_utils.store import uses
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import bundle_key, read_bundle
from ansible_collections.rankzero.slurm.plugins.module_utils.store.stores import (
    Content,
    Store,
    check,
    keep_own,
    locate,
    stores_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.store.verified import Memory

T = TypeVar("T")


def _runtime_is_whole(ref: Ref) -> bool:
    try:
        return is_own(ref.path) and bundle_key(read_bundle(ref.path)) == ref.key
    except OSError:
        return False


# Items that do not get their final name only when they are complete.
_COMPLETE: dict[str, Callable[[Ref], bool]] = {
    ENVIRONMENT.name: lambda ref: present(ref.path) is not None,  # its Python must exist, too
    RUNTIME.name: _runtime_is_whole,
}


def is_present(ref: Ref) -> bool:
    """Return whether an item is present, and complete."""
    if ref.kind in _COMPLETE:
        return _COMPLETE[ref.kind](ref)
    if ref.file:  # a launch may need one file of an image, which may be built later than the others
        return os.path.isfile(os.path.join(ref.path, ref.file))
    return os.path.isdir(ref.path)


def resolve(
    request: T,
    refs: Sequence[Ref],
    asked: Parameters,
    state_root: str,
    note: Callable[[str], None],
    *,
    check_mode: bool = False,
) -> tuple[T, list[dict[str, str]]]:
    """Return the request with the actual path of each item, and the store of each item (kind, key, path, store).

    `asked`: store_root, stores and store_group_writable. Items that another user could have written are not used.
    Raises RankzeroError if such an item is in the user's own store.
    """
    stores = stores_of(asked)
    own = stores[-1]
    keep_own(own, check_mode=check_mode)
    memory = Memory(os.path.join(state_root, "cache", "stores"))
    texts: dict[str, str] = {}
    sources = []
    for ref in refs:
        kind = ref.declared
        if not kind.in_store:
            continue
        content = _content(ref)
        if ref.path != own.path_of(kind, ref.key):
            # The job file names a dataset: in one of the stores, or elsewhere, as the user chose.
            for store in stores[:-1]:
                if ref.path == store.path_of(kind, ref.key) and os.path.lexists(ref.path):
                    check(store, ref.path, memory, content=content, tree=kind.tree)
            texts[digest_token(ref.key)] = recorded_digest(ref.kind, ref.path)
            continue
        location = locate(
            stores,
            kind,
            ref.key,
            lambda path, ref=ref: is_present(replace(ref, path=path)),  # type: ignore[misc]
            memory=memory,
            content=content,
            note=note,
        )
        if location is None:
            continue
        store, path = location
        sources.append({"kind": ref.kind, "key": ref.key, "path": path, "store": store.path})
        if not store.own:
            _check_plain(own, path)
            texts[ref.path] = path
        texts[digest_token(ref.key)] = recorded_digest(ref.kind, path)
    return text_replaced(request, texts), sources


def _content(ref: Ref) -> Content | None:
    """Return the content to verify here: the file of an image has a digest that the nodes do not compare."""
    return Content((ref.file,), lambda path: damage(path, ref.file)) if ref.file else None


def _check_plain(own: Store, path: str) -> None:
    """Raise RankzeroError for a path that needs quoting, because only a plain path reads the same everywhere in a
    script.
    """
    for place in (own.path, path):
        if not re.fullmatch(PLAIN, place):
            raise RankzeroError(
                f"launch_cluster.stores: {place} contains characters other than letters, digits and . _ / + @ = -, so "
                "nothing can be taken from another store in its place. Name another path."
            )


def recorded_digest(kind: str, path: str) -> str:
    """Return the sha256 that the nodes compare with, as recorded when the item was built; "" if there is none."""
    declared = BY_NAME[kind]
    if declared.compared == NOTHING:
        return ""
    try:
        name = os.path.join(path, declared.record)
        if declared.compared == LISTED:
            return file_sha256(name)
        digest = str(json_of(name, MOST_LIST_BYTES)["sealed"]["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return digest if re.fullmatch(r"[0-9a-f]{64}", digest) else ""


def _markable(path: str) -> bool:
    """Return whether uses of an item can be recorded next to it: in the user's own store, or one shared by a group."""
    slot = uses.slot_of(path)
    if slot is None:
        return False
    status = os.stat(slot.root)
    return status.st_uid == os.geteuid() or bool(status.st_mode & 0o020 and os.access(slot.root, os.W_OK))


def absent(
    refs: Iterable[Ref],
    state_root: str | None,
    note: Callable[[str], None],
    *,
    check_mode: bool,
    whole: set[str] | None = None,
) -> list[Ref]:
    """Return the `refs` that are not on the cluster, whose digests are not known before they are made.

    The others are marked as used, which protects them from prune. `whole`: the folders of job runtimes all of whose
    files were read for this call already, to which this one adds its own.

    Check mode marks nothing, and nothing is marked in another user's store. Raises RankzeroError if a prune hangs.
    """
    missing, whole = [], set() if whole is None else whole
    for ref in refs:
        there = os.path.isdir(ref.path) if ref.path in whole else is_present(ref)
        if there and ref.kind == RUNTIME.name:
            whole.add(ref.path)
        if there and not check_mode and _markable(ref.path):
            try:
                uses.use(ref.path, state_root)
            except OSError as error:
                note(
                    f"{ref.kind}: the use of {ref.path} cannot be recorded there ({error.strerror}): a "
                    "prune of that store by another user does not know of this launch"
                )
            # A prune may have removed the item, as a whole, before it was marked. The runtime's files were just read.
            there = os.path.isdir(ref.path) if not ref.declared.in_store else is_present(ref)
        if not there:
            missing.append(replace(ref, sha256=""))
    return missing
