# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose files are believed: those of known owners, where nobody else can write.

A file counts by what the file system says of it (owner and mode), never by what is written in it or beside it. What
another user could have written is neither run nor read as a result.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError

_GROUP, _OTHERS = 0o020, 0o002


class Untrusted(RankzeroError):
    """Something that another user could have written lies where only trusted files may."""


@dataclass(frozen=True)
class Trust:
    """`owners`: the users whose files are believed, besides root's. `group_writes`: so are those of everybody whom a
    group's right to write lets in, because the user has asked for that.
    """

    owners: frozenset[int]
    group_writes: bool = False

    @classmethod
    def own(cls, *, group_writes: bool = False) -> Trust:
        """Trust this user only; with `group_writes` also what the group may write."""
        return cls(frozenset({os.geteuid()}), group_writes)


def flaw(status: os.stat_result, trust: Trust) -> str:
    """Why a file is not believed, as the end of a sentence; empty where it is."""
    if status.st_uid not in trust.owners | {0} and not trust.group_writes:
        return f"belongs to {user_name(status.st_uid)}"
    if stat.S_ISLNK(status.st_mode):
        return ""  # its mode means nothing
    if status.st_mode & _OTHERS:
        return f"can be written by everybody (mode {stat.S_IMODE(status.st_mode):04o})"
    if status.st_mode & _GROUP and not trust.group_writes:
        return f"can be written by the group {group_name(status.st_gid)} (mode {stat.S_IMODE(status.st_mode):04o})"
    return ""


def tree_flaw(root: str, trust: Trust, *, links: bool = False) -> str:
    """What is wrong with anything in the folder (or file) `root`, with its path; empty where nothing is. `links`: they
    may lead out only to what the same owners or root alone can write. Raises OSError.
    """
    inside = f"{os.path.realpath(root)}/"
    for path, status in _everything(root):
        found = flaw(status, trust)
        kind = status.st_mode
        if not found and not (stat.S_ISREG(kind) or stat.S_ISDIR(kind) or stat.S_ISLNK(kind)):
            found = "is neither a file, nor a folder, nor a link"
        if not found and links and stat.S_ISLNK(kind):
            target = os.path.realpath(path)
            there = "" if f"{target}/".startswith(inside) else path_flaw(target, trust)
            found = there and f"leads out, and {there}"
        if found:
            return f"{path} {found}"
    return ""


def path_flaw(path: str, trust: Trust) -> str:
    """What is wrong with an absolute path without links, or with a folder above it. Of a folder with the sticky bit
    nobody can take what is another's; where nothing is there yet, that does not help.
    """
    place = "/"
    for name in ["", *path.strip("/").split("/")]:
        above, place = place, os.path.join(place, name)
        try:
            status = os.lstat(place)
        except OSError:
            return f"{place} does not exist, and {above} lets others make it" if _open(above) else ""
        sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX and status.st_uid == 0
        found = "" if sticky else flaw(status, trust)
        if found:
            return f"{place} {found}"
    return ""


def exposed_above(path: str) -> str:
    """The folder above an absolute path in which everybody could put another one in its place; empty where there is
    none. `path` has no links.
    """
    place = os.path.dirname(path)
    while place != os.path.dirname(place):
        if os.path.isdir(place) and _open(place) and not os.stat(place).st_mode & stat.S_ISVTX:
            return place
        place = os.path.dirname(place)
    return ""


def described(path: str) -> str:
    """Owner, group and mode of a path for people."""
    status = os.lstat(path)
    return (
        f"owner {user_name(status.st_uid)}, group {group_name(status.st_gid)}, mode {stat.S_IMODE(status.st_mode):04o}"
    )


def is_own(path: str) -> bool:
    """Whether this user, and nobody else, may write what the path names. Raises OSError."""
    return not flaw(os.lstat(path), Trust.own()) and os.lstat(path).st_uid == os.geteuid()


def is_own_below(root: str, path: str) -> bool:
    """Whether all from the folder `root` down to `path` is this user's (or root's), and nobody else can write it."""
    while path.startswith(f"{root.rstrip('/')}/"):
        try:
            if flaw(os.lstat(path), Trust.own()):
                return False
        except OSError:
            return False
        path = os.path.dirname(path)
    return True


def tighten(path: str) -> bool:
    """Take the right to write from group and others where the path is this user's own; whether that was needed.

    Raises OSError.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or not status.st_mode & (_GROUP | _OTHERS):
            return False
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~(_GROUP | _OTHERS))
    finally:
        os.close(descriptor)
    return True


def user_name(uid: int) -> str:
    """For messages: `user NAME`, or `user UID` if the UID has no name."""
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


def group_name(gid: int) -> str:
    """The group's name, or its number if it has none."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _open(folder: str) -> bool:
    return bool(os.stat(folder).st_mode & _OTHERS)


def _everything(root: str) -> Iterator[tuple[str, os.stat_result]]:
    status = os.lstat(root)
    yield root, status
    pending = [root] if stat.S_ISDIR(status.st_mode) else []
    while pending:
        with os.scandir(pending.pop()) as found:
            for item in found:
                status = os.lstat(item.path)  # a DirEntry's own may be older
                yield item.path, status
                if stat.S_ISDIR(status.st_mode):
                    pending.append(item.path)
