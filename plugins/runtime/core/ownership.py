# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders in places where everybody may make one (/tmp): only one's own are used, opened, or cleared away.

Their names can be guessed, so that another user may have made one first, or a link of that name. What counts is what is
open: its owner is asked of the descriptor, and everything in it is reached from there. Standard library only; imported
by node/disk.py.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat

_KINDS = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFREG: "a file"}
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Foreign(Exception):
    """Why a folder or its place is not used: the text names the path and whose it is."""


def name_of(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} ({uid})"
    except KeyError:
        return f"user {uid}"


def check_place(place: str) -> None:
    """Raises Foreign where another user could put something else in the place of a folder that we make there."""
    path = os.path.realpath(place)
    # Within a user namespace the owner of / is not called root.
    trusted = {0, os.getuid(), os.stat("/").st_uid}
    while True:
        status = os.stat(path)
        if status.st_uid not in trusted:
            raise Foreign(f"{path} belongs to {name_of(status.st_uid)}, who could replace what is made there")
        others = status.st_mode & 0o002 or (status.st_mode & 0o020 and shared(status))
        if others and not status.st_mode & stat.S_ISVTX:
            raise Foreign(
                f"{path} may be written by others and has no sticky bit (mode {stat.S_IMODE(status.st_mode):o}): they "
                "could replace what is made there (chmod +t)"
            )
        if path == "/":
            return
        path = os.path.dirname(path)


def shared(status: os.stat_result) -> bool:
    """Whether a group has others in it than this user: many systems give everybody a group of the same name."""
    if status.st_gid == 0:
        return False
    try:
        return grp.getgrgid(status.st_gid).gr_name != pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return True


def opened(path: str) -> int:
    """A descriptor of a folder that is this user's, and from now on nobody else's to enter. Raises Foreign, OSError."""
    try:
        folder = os.open(path, DIRECTORY)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.EACCES, errno.EPERM):
            raise
        status = os.lstat(path)
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "a special file")
        raise Foreign(f"{path} is {kind} of {name_of(status.st_uid)}") from error
    status = os.fstat(folder)
    if status.st_uid != os.getuid():
        os.close(folder)
        raise Foreign(f"{path} is a folder of {name_of(status.st_uid)}")
    if stat.S_IMODE(status.st_mode) != 0o700:
        os.fchmod(folder, 0o700)
    return folder
