# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide whose files are trusted: those of known owners that nobody else can write.

The decision uses the owner and the mode in the file system, never the content of this file or another. A file that
another user could have written is neither run nor read as a result.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError

_GROUP, _OTHERS = 0o020, 0o002
# Attributes that hold access control lists. With a list, the group's write permission may apply to other users.
_ACLS = ("system.posix_acl_access", "system.nfs4_acl")


class Untrusted(RankzeroError):
    """A path that another user could have written was found where only trusted files are allowed."""


@dataclass(frozen=True)
class Trust:
    """Who is trusted.

    `owners`: the users, besides root, whose files are trusted. `group_writes`: also trust everyone who can write
    through a group's write permission, because the user has asked for that.
    """

    owners: frozenset[int]
    group_writes: bool = False

    @classmethod
    def own(cls, *, group_writes: bool = False) -> Trust:
        """Trust this user only; with `group_writes` also everyone who can write through the group."""
        return cls(frozenset({os.geteuid()}), group_writes)


def flaw(status: os.stat_result, trust: Trust) -> str:
    """Return why a file is not trusted, as the end of a sentence; empty if it is trusted."""
    if status.st_uid not in trust.owners | {0} and not trust.group_writes:
        return f"belongs to {user_name(status.st_uid)}"
    if stat.S_ISLNK(status.st_mode):
        return ""  # the mode of a link has no meaning
    if status.st_mode & _OTHERS:
        return f"can be written by everybody (mode {stat.S_IMODE(status.st_mode):04o})"
    if status.st_mode & _GROUP and not trust.group_writes:
        return f"can be written by the group {group_name(status.st_gid)} (mode {stat.S_IMODE(status.st_mode):04o})"
    return ""


def weakness(descriptor: int, owner: int) -> str:
    """Return why somebody other than `owner` and root could have written an open file or folder; empty if nobody could.

    The reason is the end of a sentence.
    """
    status = os.fstat(descriptor)
    if status.st_uid in (0, owner) and not status.st_mode & (_GROUP | _OTHERS):
        return ""
    why = flaw(status, Trust(frozenset({owner})))
    # On systems that give each user a private group the usual umask is 002, and that group's write permission applies
    # to the owner only.
    if not why or status.st_uid != owner or status.st_mode & stat.S_IWOTH:
        return why
    return "" if is_private_group(owner, status.st_gid) and not _has_list(descriptor) else why


def remedy(root: str, why: str, owner: int) -> str:
    """Return what the owner of the folder `root` should do about such a file, as a sentence."""
    if why.startswith("belongs"):
        return f"Find out where it came from, and remove it. List what is not yours: find {root} ! -user {owner}"
    return (
        f"If you trust everything in {root} (check: find {root} ! -user {owner}), remove the others' write permission: "
        f"chmod -R go-w {root}"
    )


def is_private_group(uid: int, gid: int) -> bool:
    """Return whether a group is a user's private group.

    It has the user's name, is the user's primary group, and has no other members.
    """
    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and not set(group.gr_mem) - {user.pw_name}


def _has_list(descriptor: int) -> bool:
    """Return whether an access control list may give the group's permissions on a file to others."""
    with contextlib.suppress(OSError):
        return any(name in _ACLS for name in os.listxattr(descriptor))
    return False


def tree_flaw(root: str, trust: Trust, *, links: bool = False) -> str:
    """Return the first untrusted path in the folder (or file) `root` and the reason; empty if there is none.

    `links`: links may lead out of `root` only to paths that nobody but the trusted owners or root can write. Raises
    OSError.
    """
    inside = f"{os.path.realpath(root)}/"
    for path, status in _everything(root):
        problem = flaw(status, trust)
        kind = status.st_mode
        if not problem and not (stat.S_ISREG(kind) or stat.S_ISDIR(kind) or stat.S_ISLNK(kind)):
            problem = "is neither a file, nor a folder, nor a link"
        if not problem and links and stat.S_ISLNK(kind):
            target = os.path.realpath(path)
            there = "" if f"{target}/".startswith(inside) else path_flaw(target, trust)
            problem = there and f"leads out, and {there}"
        if problem:
            return f"{path} {problem}"
    return ""


def path_flaw(path: str, trust: Trust) -> str:
    """Return why an absolute path without links, or a folder above it, is not trusted; empty if all are.

    A sticky folder of root passes, because nobody can replace another user's entries in it. This does not cover an
    entry that does not exist yet.
    """
    place = "/"
    for name in ["", *path.strip("/").split("/")]:
        above, place = place, os.path.join(place, name)
        try:
            status = os.lstat(place)
        except OSError:
            return f"{place} does not exist, and {above} lets others make it" if _open(above) else ""
        sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX and status.st_uid == 0
        problem = "" if sticky else flaw(status, trust)
        if problem:
            return f"{place} {problem}"
    return ""


def exposed_above(path: str) -> str:
    """Return the folder above an absolute path in which every user could replace entries; empty if there is none.

    `path` contains no links.
    """
    place = os.path.dirname(path)
    while place != os.path.dirname(place):
        if os.path.isdir(place) and _open(place) and not os.stat(place).st_mode & stat.S_ISVTX:
            return place
        place = os.path.dirname(place)
    return ""


def described(path: str) -> str:
    """Return the owner, group and mode of a path as text for people. Raises OSError."""
    status = os.lstat(path)
    return (
        f"owner {user_name(status.st_uid)}, group {group_name(status.st_gid)}, mode {stat.S_IMODE(status.st_mode):04o}"
    )


def is_own(path: str) -> bool:
    """Return whether this user, and nobody else, can write the path. Raises OSError."""
    return not flaw(os.lstat(path), Trust.own()) and os.lstat(path).st_uid == os.geteuid()


def is_own_below(root: str, path: str) -> bool:
    """Return whether every path from below the folder `root` down to `path` is this user's (or root's) and closed to
    others.
    """
    while path.startswith(f"{root.rstrip('/')}/"):
        try:
            if flaw(os.lstat(path), Trust.own()):
                return False
        except OSError:
            return False
        path = os.path.dirname(path)
    return True


def tighten(path: str) -> bool:
    """Remove write permission for group and others if the path belongs to this user; return whether that was needed."""
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
    """Return `user NAME` for messages, or `user UID` if the UID has no name."""
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


def group_name(gid: int) -> str:
    """Return the group's name, or its number if it has none."""
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
        with os.scandir(pending.pop()) as entries:
            for item in entries:
                status = os.lstat(item.path)  # the status cached in a DirEntry may be older
                yield item.path, status
                if stat.S_ISDIR(status.st_mode):
                    pending.append(item.path)
