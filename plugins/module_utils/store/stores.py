# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stores of a user: the user's own, which is written, and stores of trusted owners, which are searched first.

An entry of a store is trusted by its owner and mode, a code tree also by its digest. Folders of the user's own store
that are open to a group are closed here. Entries that others put there meanwhile are refused, not repaired.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core import ownership
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Trust, Untrusted
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import STORED, InputKind
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import open_folders, remove, root_of, trouble
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import digest, read_tree, walk
from ansible_collections.rankzero.slurm.plugins.module_utils.store.uses import PLACES, STATE_ROOTS, USED
from ansible_collections.rankzero.slurm.plugins.module_utils.store.verified import Memory

# Folders that all members of a group write in a shared store.
_SHARED = (
    *(kind.folder for kind in STORED),
    *(f"{USED}/{place}" for place in (*PLACES, STATE_ROOTS)),
    "datasets/by-name",
    "datasets/records",
    "images/names",
    "images/sha256",
    "locks",
    "tools",
)


@dataclass(frozen=True)
class Store:
    """A store. `own`: it is the one that is written. `owners`: names of the trusted owners of another store."""

    path: str
    trust: Trust
    own: bool
    owners: tuple[str, ...] = ()

    def path_of(self, kind: InputKind, key: str) -> str:
        """The path of an entry in this store, whether or not it exists."""
        return os.path.join(self.path, kind.folder, key)


@dataclass(frozen=True)
class Content:
    """How to judge the content of an entry in another user's store: `complaint` reads the files `names` of a path."""

    names: tuple[str, ...]
    complaint: Callable[[str], str]


def stores_of(options: Parameters) -> list[Store]:
    """The stores in search order, from `store_root`, `stores` and `store_group_writable`. Raises RankzeroError."""
    shared = bool(options.get("store_group_writable"))
    own = Store(root_of(str(options["store_root"])), Trust.own(group_writes=shared), True)
    return [*trusted_stores(options), own]


def trusted_stores(options: Parameters) -> list[Store]:
    """The stores of other owners, from `stores`. Raises RankzeroError."""
    stores = []
    for store in options.get("stores") or ():
        path, owners = str(store["path"]), tuple(str(name) for name in store["owners"])
        stores.append(
            Store(os.path.normpath(path), Trust(frozenset(_uid(name, path) for name in owners)), False, owners)
        )
    return stores


def _uid(name: str, path: str) -> int:
    if name.isdigit():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise RankzeroError(
            f"stores: {path} names the owner {name!r}, but this host has no such user. Name users of the "
            "cluster, or their user ids."
        ) from None


def keep_own(store: Store, *, check_mode: bool = False) -> None:
    """Make sure that nobody else can write the user's own store; its own folders are closed without a message.

    With `store_group_writable` they are opened to the group instead. Raises Untrusted and RankzeroError.
    """
    real = os.path.realpath(store.path)
    above = ownership.exposed_above(real)
    if above:
        raise Untrusted(
            f"store_root: everybody may write {above} ({ownership.described(above)}), and so put another folder in the "
            f"place of {store.path}. Have its owner set the sticky bit (chmod +t {above}), or name another store_root."
        )
    if not os.path.isdir(real):
        return
    status = os.stat(real)
    shared = store.trust.group_writes
    if shared and not status.st_mode & stat.S_IWGRP:
        raise RankzeroError(
            f"store_group_writable: {store.path} is not open to its group ({ownership.described(real)}). Open it once: "
            f"chgrp GROUP {store.path} && chmod 2775 {store.path}"
        )
    if not shared and status.st_uid != os.geteuid():
        raise _not_own(store, real)
    try:
        closed = (
            [entry for entry in _own_folders(real, 2) if ownership.tighten(entry)]
            if not shared and not check_mode
            else []
        )
        for folder in closed:
            # A downloaded Python keeps the modes from its archive.
            for entry in _own_folders(folder, 99) if folder == os.path.join(real, "tools", "python") else ():
                ownership.tighten(entry)
        for name in _SHARED if shared and not check_mode else ():
            _open_to_group(os.path.join(real, name), status.st_gid)
    except OSError as error:
        raise Untrusted(
            f"store_root: the modes below {store.path} cannot be set ({error.strerror}: {error.filename}), so others "
            f"may write there. Mend it: chmod -R go-w {store.path}"
        ) from error
    complaint = ownership.flaw(os.stat(real), store.trust) if not check_mode else ""
    if complaint:
        raise Untrusted(f"store_root: {store.path} {complaint}. Mend it: chmod go-w {store.path}")


def _not_own(store: Store, real: str) -> Untrusted:
    owner = ownership.user_name(os.stat(real).st_uid)
    return Untrusted(
        f"store_root: {store.path} is not yours ({ownership.described(real)}): {owner} could change anything that you "
        "launch from it. Name a folder of your own; read from this one in addition with launch_cluster.stores: [{path: "
        f"{store.path}, owners: [{owner.removeprefix('user ')}]}}]. If a group writes one store together, each "
        "member trusts all others; allow it with launch_cluster.store_group_writable: true."
    )


def _own_folders(path: str, levels: int) -> Iterator[str]:
    """The folders of a store that this user owns: the store itself, its places, and their entries."""
    with contextlib.suppress(FileNotFoundError, PermissionError):
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode) or (status.st_uid != os.geteuid() and levels < 2):
            return
        if status.st_uid == os.geteuid():
            yield path
        if levels:
            for name in os.listdir(path):
                yield from _own_folders(os.path.join(path, name), levels - 1)


def _open_to_group(folder: str, gid: int) -> None:
    open_folders(folder)
    status = os.lstat(folder)
    if status.st_uid == os.geteuid() and (status.st_gid, stat.S_IMODE(status.st_mode)) != (gid, 0o2775):
        os.chown(folder, -1, gid)
        os.chmod(folder, 0o2775)


def ready(options: Parameters, *, check_mode: bool = False) -> list[Store]:
    """The stores from a producer's options; the user's own store is last and checked. Raises RankzeroError."""
    stores = stores_of(options)
    keep_own(stores[-1], check_mode=check_mode)
    return stores


def borrowed(
    stores: Sequence[Store], kind: InputKind, key: str, complete: Callable[[str], bool], warnings: list[str]
) -> str | None:
    """The path of an entry in a trusted store, so that a producer need not make it; None if there is none.

    Raises Untrusted if another user has put something at its path in the user's own store.
    """
    match = locate(stores[:-1], kind, key, complete, note=warnings.append)
    if match:
        return match[1]
    path = stores[-1].path_of(kind, key)
    if os.path.lexists(path):
        try:
            check(stores[-1], path, Memory(None), deep=False)
        except Untrusted as error:
            raise _planted(kind, path, error.message) from error
        except FileNotFoundError:  # another process is replacing it
            pass
    return None


def check(
    store: Store, path: str, memory: Memory, *, deep: bool = True, content: Content | None = None, tree: bool = False
) -> None:
    """Check that an entry and the folders above it belong to trusted owners, and that nobody else can write them.

    A `tree` must also match the digest in its name, and in another user's store `content` must have no complaint.
    Without `deep`, only the entry's folder is checked. Raises Untrusted and OSError.
    """
    real = os.path.realpath(store.path)
    above = "" if store.own else ownership.exposed_above(real)
    if above:
        raise Untrusted(f"everybody may write {above} ({ownership.described(above)})")
    for place in (store.path, os.path.dirname(path)):
        complaint = ownership.flaw(os.lstat(place), store.trust) or ownership.flaw(os.stat(place), store.trust)
        if complaint:
            raise Untrusted(f"{place} {complaint}")
    if stat.S_ISLNK(os.lstat(path).st_mode):
        raise Untrusted(f"{path} is a link, to {os.path.realpath(path)}")
    complaint = ownership.flaw(os.lstat(path), store.trust)
    if complaint:
        raise Untrusted(f"{path} {complaint}")
    if not deep:
        return
    content = None if store.own else content
    read = walk(path) if tree else content.names if content else ()
    identity = memory.identity(path, read) if not store.trust.group_writes else ""
    if identity and memory.knows(path, identity):
        return
    complaint = ownership.tree_flaw(path, store.trust, links=not store.own and not tree)
    if complaint:
        raise Untrusted(complaint)
    if tree:
        actual = digest(read_tree(path))
        if actual != os.path.basename(path):
            raise Untrusted(f"{path} has other content than its name states: its digest is {actual[:16]}")
    complaint = content.complaint(path) if content else ""
    if complaint:
        raise Untrusted(complaint)
    if identity:
        memory.learn(path, identity)


def checked_key(kind: InputKind, key: str) -> str:
    """The option `key` of a module that removes an entry. Raises RankzeroError."""
    if not re.fullmatch(r"[0-9a-f]{32}", key):
        raise RankzeroError(f"key: {key!r} is not a key of kind {kind.name}; expected 32 hexadecimal digits (ref.key)")
    return key


def take_away(kind: InputKind, key: str, path: str, *, there: bool, check_mode: bool) -> ModuleResult:
    """Make an entry absent; returns `changed` and `ref`. `there`: whether it seems to be. Raises RankzeroError."""
    if not check_mode:
        try:
            there = remove(path)
        except OSError as error:
            raise trouble(error, path) from error
    return {"changed": there, "ref": kind.entry(key, path, None)}


def locate(
    stores: Sequence[Store],
    kind: InputKind,
    key: str,
    complete: Callable[[str], bool],
    *,
    memory: Memory | None = None,
    content: Content | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> tuple[Store, str] | None:
    """The first store with a trusted entry, and its path there; None without one. Raises Untrusted and RankzeroError.

    An untrusted entry in another user's store is reported by `note` and skipped; in the user's own store it is an
    error. `whole`: whether the entry at a path is complete.
    """
    for store in stores:
        path = store.path_of(kind, key)
        try:
            if not os.path.lexists(path):
                continue
            check(store, path, memory or Memory(None), content=content, tree=kind.tree)
            if complete(path):
                return store, path
        except FileNotFoundError:  # another process is making or removing it
            continue
        except (Untrusted, OSError) as error:
            why = error.message if isinstance(error, Untrusted) else f"{error.filename}: {error.strerror}"
            if store.own:
                raise _planted(kind, path, why) from error
            note(f"stores: {kind.name} {key[:12]} in {store.path} is not used: {why}")
    return None


def _planted(kind: InputKind, path: str, why: str) -> Untrusted:
    return Untrusted(
        f"store_root: {why}. It is not used. Find out who changed it, then remove it (chmod -R u+w "
        f"{path}; rm -rf {path}) and run this again: {kind.name} {os.path.basename(path)[:12]} is made again."
    )
