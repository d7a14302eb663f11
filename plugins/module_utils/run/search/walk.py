# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the run directories of a state root. Each folder is opened through its parent, once for its run directories.

Even of a launch that has ended long ago a call or two ask whether it has changed. Where a file system takes its time
for them, as over a network, several wait at once.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory, numbers_in
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.history import History
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import KEY, KEY_LENGTH, NAME

TOP = "runs"
# Where a key waits for its file system for longer than this (seconds), so many parts of a few keys are read at once.
SLOW, AT_ONCE, A_FEW = 0.0005, 16, 32
# A name, and some of its keys.
_Part = tuple[str, Sequence[str]]


@dataclass(frozen=True)
class RunFilter:
    """Which run directories to list; None is any. `key` may be a prefix. `newest`: only the last generation of a key.

    Other folders than `select` expects count only with `strange`: they are listed to be reported, not to be used.
    `strict`: a folder that cannot be read is an error. Otherwise it counts as empty. `look`: compare each run directory
    with the index at once, while its folder is open.
    """

    names: Sequence[str] | None = None
    key: str | None = None
    generation: int | None = None
    newest: bool = False
    strict: bool = False
    look: bool = True
    strange: bool = False

    @property
    def ignored(self) -> tuple[type[OSError], ...]:
        """Errors after which a folder counts as empty. Folders may be removed during the walk."""
        return (FileNotFoundError, NotADirectoryError) if self.strict else (OSError,)

    def numbers(self, of_key: list[int]) -> list[int]:
        """Return the generations to list from all those of one key."""
        numbers = [number for number in of_key if self.generation in (None, number)]
        return numbers[-1:] if self.newest else numbers


def walk(state_root: str, wanted: RunFilter, *, indexed: bool = True) -> tuple[list[RunDirectory], History]:
    """Return the run directories, sorted by name, key and generation, and the index of ended launches.

    `indexed`: read the index as well. Raises `Untrusted`; with `strict` also OSError.
    """
    root = state_files.of(state_root)
    runs: list[RunDirectory] = []
    history = History(state_root)
    with contextlib.suppress(*wanted.ignored), root.folder(TOP) as top:
        keys = {name: _keys(root, top, name, wanted) for name in _names(root, top, wanted)}
        if indexed:
            history = History.of(state_root, sum(map(len, keys.values())))

        def read(part: _Part) -> list[RunDirectory]:
            name, of_name = part
            of_name_runs: list[RunDirectory] = []
            with contextlib.suppress(*wanted.ignored), root.inner(top, f"{TOP}/{name}") as folder:
                for key in of_name:
                    of_name_runs += _runs_of_key(root, folder, f"{TOP}/{name}/{key}", wanted, history)
            return of_name_runs

        for of_part in _mapped(read, _parts(keys)):
            runs += of_part
    return runs, history


def _parts(keys: Mapping[str, Sequence[str]]) -> list[_Part]:
    """The keys of each name in parts of a few."""
    return [(name, of[at : at + A_FEW]) for name, of in keys.items() for at in range(0, len(of), A_FEW)]


def _mapped(read: Callable[[_Part], list[RunDirectory]], parts: Sequence[_Part]) -> Iterator[list[RunDirectory]]:
    """What `read` returns of each part, in order: of several at once where the first have shown that each waits."""
    began, used, tried, count = time.monotonic(), time.thread_time(), 0, 0
    while count < len(parts) and tried < A_FEW:
        yield read(parts[count])
        tried, count = tried + len(parts[count][1]), count + 1
    waited = time.monotonic() - began - (time.thread_time() - used)
    if count < len(parts) and waited > SLOW * tried:
        # Most calls never come here.
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(AT_ONCE) as pool:
            yield from pool.map(read, parts[count:])
    else:
        yield from map(read, parts[count:])


def _names(root: Beneath, top: int, wanted: RunFilter) -> list[str]:
    if wanted.names is None:
        return [name for name in root.folders_in(top) if wanted.strange or NAME.fullmatch(name)]
    return [name for name in wanted.names if wanted.strange or NAME.fullmatch(name)]


def _keys(root: Beneath, top: int, name: str, wanted: RunFilter) -> list[str]:
    with contextlib.suppress(*wanted.ignored), root.inner(top, f"{TOP}/{name}") as folder:
        keys = [key for key in root.folders_in(folder) if wanted.strange or KEY.fullmatch(key)]
        return keys if wanted.key is None else [key for key in keys if key.startswith(wanted.key[:KEY_LENGTH])]
    return []


def _runs_of_key(root: Beneath, folder: int, place: str, wanted: RunFilter, history: History) -> list[RunDirectory]:
    runs = []
    key = os.path.basename(place)
    for number in wanted.numbers(_generations(root, folder, place, wanted, history)):
        run = RunDirectory.below(f"{history.state_root}/{place}/{number}", root, f"{place}/{number}")
        if history.worthwhile and wanted.look:
            history.compare(run, f"{key}/{number}", folder)
        runs.append(run)
    return runs


def _generations(root: Beneath, folder: int, place: str, wanted: RunFilter, history: History) -> list[int]:
    """Return all generations of a key, in order. `folder`: the open folder of its name."""
    key = place.partition("/")[2]
    known = history.generations(folder, key) if history.worthwhile else None
    if known is not None:
        return known
    numbers: list[int] = []
    with contextlib.suppress(*wanted.ignored), root.inner(folder, place) as descriptor:
        numbers = numbers_in(os.listdir(descriptor))
        if history.worthwhile:
            history.listed(key, numbers)
    return numbers
