# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a project that our commands write, or that their output is redirected to. They are never code.

What a command has written is recorded next to it (`RECORD`; output/writer.py writes it), so a later launch from the
same folder knows it, also on another machine. What a command is still writing is found by the open files of the
processes that belong to it: `> train.log` and `| tee train.log` are opened by the shell and by tee, before us.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import MOST_BYTES, Beneath

#: The folder next to what we have written, and the file in it that names it, one name a line.
FOLDER, RECORD = ".rankzero", "outputs"
#: What has been fetched of a launch, NAME/KEY/GENERATION, and the tables of a sweep, NAME/sweep-KEY, in any folder.
FETCHED = re.compile(r"(?:.*/)?[^/]+/(?:[0-9a-f]{16}/[1-9][0-9]*|sweep-[0-9a-f]{16})/")
_STANDARD = ("1", "2")
_PROC = "/proc"


def outputs(root: str, untracked: Iterable[str]) -> frozenset[str]:
    """Those of the paths below `root` that a command of ours has written.

    `untracked`: the paths that git does not track. Somebody has decided to track the others.
    """
    names: dict[str, frozenset[str]] = {}
    ours = set()
    for path in untracked:
        folder, name = os.path.split(path)
        if folder not in names:
            names[folder] = _recorded(os.path.join(root, folder))
        if name in names[folder] or FETCHED.match(path):
            ours.add(path)
    return frozenset(ours)


def _recorded(folder: str) -> frozenset[str]:
    try:
        content = Beneath(folder).content(f"{FOLDER}/{RECORD}", MOST_BYTES)
    except (OSError, RankzeroError):
        return frozenset()
    return frozenset(os.fsdecode(content).splitlines())


def being_written(root: str, paths: Iterable[str]) -> frozenset[str]:
    """Those of the paths below `root` that this command has open for writing, or what its output is piped to.

    Where there is no /proc, none is found but by the command's own standard output and error.
    """
    files = _open_files()
    if not files:
        return frozenset()
    written = set()
    for path in paths:
        with contextlib.suppress(OSError):
            status = os.lstat(os.path.join(root, path))
            if (status.st_dev, status.st_ino) in files:
                written.add(path)
    return frozenset(written)


@dataclass(frozen=True)
class _Process:
    pid: str
    parent: str
    group: str


def _open_files() -> set[tuple[int, int]]:
    """(device, inode) of the regular files that the processes of this command have open for writing."""
    callers = list(_callers())
    if not callers:
        return {(status.st_dev, status.st_ino) for status in map(os.fstat, (1, 2)) if stat.S_ISREG(status.st_mode)}
    processes = {process.pid for process in callers}
    if any(_is_piped(process.pid) for process in callers):
        groups = {process.group for process in callers}
        others = (_process(name) for name in os.listdir(_PROC) if name.isdecimal())
        processes.update(process.pid for process in others if process and process.group in groups)
    return {file for pid in processes for file in _written(pid)}


def _callers() -> Iterator[_Process]:
    """This process and those that have started it: Ansible's, the command's, the shell's or script's."""
    process = _process(str(os.getpid()))
    while process:
        yield process
        process = _process(process.parent)


def _process(pid: str) -> _Process | None:
    try:
        with open(os.path.join(_PROC, pid, "stat"), "rb") as stream:
            # The program's name is in parentheses and may contain anything.
            _state, parent, group = stream.read().rpartition(b")")[2].split()[:3]
    except (OSError, ValueError):
        return None
    return _Process(pid, parent.decode("ascii"), group.decode("ascii"))


def _is_piped(pid: str) -> bool:
    for number in _STANDARD:
        with contextlib.suppress(OSError):
            if stat.S_ISFIFO(os.stat(os.path.join(_PROC, pid, "fd", number)).st_mode):
                return True
    return False


def _written(pid: str) -> Iterator[tuple[int, int]]:
    """The regular files that a process writes: its output, and what it has open for writing only.

    What is open for reading as well, such as a database, may be the program's data.
    """
    folder = os.path.join(_PROC, pid, "fd")
    try:
        numbers = os.listdir(folder)
    except OSError:  # it has ended, or is somebody else's
        return
    for number in numbers:
        with contextlib.suppress(OSError):
            status = os.stat(os.path.join(folder, number))
            if stat.S_ISREG(status.st_mode) and _mode(pid, number) in _modes(number):
                yield status.st_dev, status.st_ino


def _modes(number: str) -> tuple[int, ...]:
    return (os.O_WRONLY, os.O_RDWR) if number in _STANDARD else (os.O_WRONLY,)


def _mode(pid: str, number: str) -> int:
    with open(os.path.join(_PROC, pid, "fdinfo", number), encoding="ascii") as stream:
        flags = re.search(r"^flags:\s*([0-7]+)", stream.read(), re.MULTILINE)
    return int(flags[1], 8) & os.O_ACCMODE if flags else os.O_RDONLY
