# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The index of ended launches: STATE_ROOT/index/launches. A listing of thousands reads only what has changed since.

Each line holds the report on one launch and a stamp of its run directory:

    CHECKSUM STAMP NAME/KEY/GENERATION ARRAY {...}

ARRAY is the array of an element of a sweep, which shares the array's journal, and - for other launches.

The run directory stays the truth. A line counts only while its checksum is right and the stamp is still that of the run
directory: inode, owner, mode, size and time of change (ctime) of the directory and of each file that says what became
of the launch. The index is missing at first, and it may be deleted at any time. Lines are appended; the newest line of
a launch counts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import STATUS_FILES, RunDirectory, array_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport

FOLDER, FILE = "index", "launches"
# Fewer launches than this are read without the index.
WORTH_AN_INDEX = 32
# A launch is indexed this many seconds after its end: Slurm and the job write nothing about it any more.
SETTLED = 600.0
# Size limits in bytes: of the index, and of a line in it.
MOST = 256 << 20
LINE_BYTES = 64 << 10
NO_ARRAY = "-"


@dataclass
class History:
    """The index of the launches in a state root. Without a readable index it is empty; it raises no errors.

    `stamps`: the stamp of each run directory that was looked up, taken before the run directory is read.
    """

    state_root: str
    clock: Callable[[], float] = time.time
    lines: dict[str, str] = field(default_factory=dict)
    stamps: dict[str, str] = field(default_factory=dict)
    total: int = 0

    @classmethod
    def of(cls, state_root: str, count: int) -> History:
        """Open the index for `count` launches of a state root. For a few launches it is not read."""
        history = cls(state_root)
        if count >= WORTH_AN_INDEX:
            history._load()
        return history

    def _load(self) -> None:
        try:
            text = state_files.text(state_files.of(self.state_root), os.path.join(FOLDER, FILE), MOST)
        except RankzeroError:
            return
        for line in text.splitlines():
            words = line.split(" ", 4)
            if len(words) == 5 and len(line) < LINE_BYTES:
                self.lines[words[2]] = line
                self.total += 1

    def has(self, run: RunDirectory) -> bool:
        """Return whether the index knows the end of a launch. If not, its run directory has to be read."""
        place = _place(run)
        self.stamps[place] = stamp = _stamp(run.path)
        line = self.lines.get(place)
        if line is None:
            return False
        checksum, known_stamp, _place_of_line, array, _text = line.split(" ", 4)
        return checksum == _digest(line.partition(" ")[2]) and known_stamp == _with_array(stamp, run, array)

    def mentions(self, run: RunDirectory, job_id: str) -> bool:
        """Return whether the report on a launch that the index has may contain the id of a job, or of a part of it."""
        return f'"{job_id}' in self.lines[_place(run)]

    def launch(self, run: RunDirectory) -> JsonObject:
        """Return the report on a launch that the index has, as modules return it."""
        report = json.loads(self.lines[_place(run)].split(" ", 4)[4])
        return {**report, "run_dir": run.path, "logs_dir": run.file("logs")}

    def keep(self, reports: Iterable[LaunchReport]) -> None:
        """Add the launches that have ended. Whatever goes wrong, the index is only older than it could be."""
        new = [line for report in reports for line in self._line(report)]
        if not new or len(self.stamps) < WORTH_AN_INDEX:
            return
        with contextlib.suppress(OSError, RankzeroError):
            folder = os.path.join(state_files.own(self.state_root).root, FOLDER)
            state_files.make_folder(folder)
            path = os.path.join(folder, FILE)
            if self.total > 2 * len(self.lines) + WORTH_AN_INDEX:
                # Most lines are superseded by newer ones.
                temporary = f"{path}.{os.getpid()}.tmp"
                state_files.create(temporary, "".join(f"{line}\n" for line in [*self.lines.values(), *new]), mode=0o600)
                os.replace(temporary, path)
                return
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            # Only the owner may read it, because a run directory may be private.
            descriptor = os.open(path, flags, 0o600)
            with os.fdopen(descriptor, "ab") as stream:
                # An incomplete line of a killed writer ends here.
                stream.write(("\n" + "".join(f"{line}\n" for line in new)).encode())

    def _line(self, report: LaunchReport) -> Sequence[str]:
        """Return the line of a launch that has ended, or nothing."""
        run = RunDirectory(report.run_dir)
        place = _place(run)
        times = [float(event["time"]) for event in report.journal] + [report.finished_at or 0.0]
        told = report.outcome is not None or report.source is not None
        if not (report.completed and told and place in self.stamps and max(times) < self.clock() - SETTLED):
            return []
        if report.active or report.drained:
            return []
        element = array_of(report.journal)
        array = element.array if element else NO_ARRAY
        content = f"{_with_array(self.stamps[place], run, array)} {place} {array} {json.dumps(report.as_dict())}"
        return [f"{_digest(content)} {content}"] if len(content) < LINE_BYTES else []


def _place(run: RunDirectory) -> str:
    """NAME/KEY/GENERATION of a run directory."""
    return "/".join(run.path.split(os.sep)[-3:])


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _stamp(folder: str, names: Sequence[str] = STATUS_FILES) -> str:
    """Return a digest of what changes when a folder or one of these files in it is changed or replaced."""
    parts: list[object] = []
    for name in ("", *names):
        try:
            status = os.lstat(f"{folder}/{name}" if name else folder)
        except OSError:
            parts.append(None)
        else:
            parts.append((status.st_ino, status.st_ctime_ns, status.st_size, status.st_mode, status.st_uid))
    return _digest(repr(parts))


def _with_array(stamp: str, run: RunDirectory, array: str) -> str:
    """Return the stamp of an element of a sweep together with that of its array."""
    return stamp if array == NO_ARRAY else _digest(stamp + _stamp(run.beside(array)))
