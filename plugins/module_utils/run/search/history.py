# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The index of ended launches: STATE_ROOT/index/launches. A listing of thousands reads only what has changed since.

Each line holds the report on one launch, or in another file of this folder something else that is known of it for
good, and a stamp of its run directory:

    CHECKSUM STAMP NAME/KEY/GENERATION ARRAY@TIME@GENERATIONS {...}

ARRAY is the array of an element of a sweep, which shares the array's journal, and - for other launches. TIME is the
end of the launch in epoch seconds. GENERATIONS are those of its key, with a stamp of the key's folder: while it is
right, the folder need not be listed.

The run directory stays the truth. A line counts only while its checksum is right and the stamp is still that of the run
directory: inode, owner, mode, size and time of change (ctime) of the directory and of each file that says what became
of the launch. The stamp begins with the numbers of the files that exist. A file that is made or replaced changes the
directory, so `may_have` looks at this alone; whoever returns the line or acts on it asks `has`, which looks at each of
these files. The index is missing at first, and it may be deleted at any time. Lines are appended; the newest line of a
launch counts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import replace_file
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import sync
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import STATUS_FILES, RunDirectory, array_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import identity

FOLDER, FILE = "index", "launches"
# Fewer launches than this are read without the index.
WORTH_AN_INDEX = 32
# A launch is indexed this many seconds after its end: Slurm and the job write nothing about it any more.
SETTLED = 600.0
# Size limits in bytes: of the index, and of a line in it.
MOST = 256 << 20
LINE_BYTES = 64 << 10
NO_ARRAY = "-"
# A key's folder that has changed within this many seconds may change again without another time of change. So many,
# because the clock of the file system may be another one.
RACY = 60.0
# The generations of a key with more are listed each time.
MOST_GENERATIONS = 50
_GENERATIONS = re.compile(r"([0-9a-f]+:[1-9][0-9]{0,8}(,[1-9][0-9]{0,8})*)?")


@dataclass
class History:
    """The index of the launches in a state root. Without a readable index it is empty; it raises no errors.

    `worthwhile`: whether there are enough launches to use an index. `lines`: the newest line of each launch.
    `stamps`: the stamp of each run directory that has to be read, taken before that. `known`: the lines whose run
    directory has not changed, and `exact`: those of which no file has. `keys`: the newest line of each key; `folders`:
    the stamp of its folder, with its generations. `moved`: keys whose folder was listed. `arrays`: the stamps
    of the arrays of sweeps. `file`: its name in the folder of indexes.
    """

    state_root: str
    clock: Callable[[], float] = time.time
    worthwhile: bool = False
    lines: dict[str, bytes] = field(default_factory=dict)
    stamps: dict[str, str] = field(default_factory=dict)
    known: dict[str, _Line] = field(default_factory=dict)
    exact: set[str] = field(default_factory=set)
    keys: dict[str, str] = field(default_factory=dict)
    folders: dict[str, str] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    parsed: dict[str, _Line | None] = field(default_factory=dict)
    arrays: dict[str, str] = field(default_factory=dict)
    total: int = 0
    file: str = FILE

    @classmethod
    def of(cls, state_root: str, count: int, file: str = FILE) -> History:
        """Open the index for `count` launches of a state root. For a few launches it is not read."""
        history = cls(state_root, worthwhile=count >= WORTH_AN_INDEX, file=file)
        if history.worthwhile:
            history._load()
        return history

    def _load(self) -> None:
        try:
            content = state_files.of(self.state_root).content(os.path.join(FOLDER, self.file), MOST)
        except (OSError, RankzeroError):
            return
        for line in content.split(b"\n"):
            words = line.split(b" ", 3)
            if len(words) == 4 and len(line) < LINE_BYTES:
                place = words[2].decode("ascii", "replace")
                self.lines[place] = line
                self.keys[os.path.dirname(place)] = place
                self.total += 1

    def _line_of(self, place: str) -> _Line | None:
        """Return the line of NAME/KEY/GENERATION, parsed once; None if there is none, or a damaged one."""
        if place not in self.parsed:
            self.parsed[place] = _Line.of(self.lines.get(place, b""))
        return self.parsed[place]

    def generations(self, name: int, key: str) -> list[int] | None:
        """Return the generations of NAME/KEY if its folder is as it was when they were listed; else None.

        `name`: the open folder of the name. It must precede the listing, because the stamp says what was listed.
        """
        line = self._line_of(self.keys.get(key, ""))
        stamp = _folder_stamp(os.path.basename(key), name, self.clock())
        if line is not None and stamp and line.generations.startswith(f"{stamp}:"):
            self.folders[key] = line.generations
            return [int(number) for number in line.generations.partition(":")[2].split(",")]
        self.folders[key] = stamp
        return None

    def listed(self, key: str, numbers: Sequence[int]) -> None:
        """Take note of all generations of NAME/KEY, in order."""
        if self.folders.get(key) and 0 < len(numbers) <= MOST_GENERATIONS:
            self.folders[key] += f":{','.join(map(str, numbers))}"
            self.moved.add(key)

    def compare(self, run: RunDirectory, base: str = "", folder: int | None = None) -> None:
        """Compare the line of a launch with its run directory: `base` in the open `folder`, if there is one.

        It must precede the reading of the run directory, because the stamp says what was read.
        """
        place, base = _place(run), base or run.path
        line = self._line_of(place)
        if line is not None and _change(base, folder) == line.stamp.split(".")[1]:
            self.known[place] = line
        else:
            self.stamps[place] = _stamp(base, folder)

    def may_have(self, run: RunDirectory) -> bool:
        """Return whether the index knows the end of a launch, unless one of its files was changed in place."""
        place = _place(run)
        if self.worthwhile and place not in self.stamps and place not in self.known:
            self.compare(run)
        return place in self.known

    def has(self, run: RunDirectory) -> bool:
        """Return whether the index knows the end of a launch. If not, its run directory has to be read."""
        place = _place(run)
        if not self.may_have(run) or place in self.exact:
            return place in self.known
        line = self.known[place]
        if self._with_array(_stamp(run.path, None, line.files), run, line.array) == line.stamp:
            self.exact.add(place)
            return True
        del self.known[place]
        self.stamps[place] = _stamp(run.path)
        return False

    def mentions(self, run: RunDirectory, job_id: str) -> bool:
        """Return whether the report on a launch that the index has may contain the id of a job, or of a part of it."""
        return f'"{job_id}'.encode() in self.known[_place(run)].report

    def may_mention(self, run: RunDirectory, job_id: str) -> bool:
        """Return whether the index leaves it open that a launch had this job: its line contains the id or is missing.

        The line is not compared with the run directory.
        """
        line = self.lines.get(_place(run), b"")
        return f'"{job_id}'.encode() in line or _Line.of(line) is None

    def ended_at(self, run: RunDirectory) -> float:
        """Return when a launch that the index has ended, in epoch seconds; 0 if that is not known."""
        return self.known[_place(run)].ended_at

    def launch(self, run: RunDirectory) -> JsonObject:
        """Return what the index has of a launch: the report on it, as modules return it.

        What names the launch and its job is not taken from the index, or is checked: it may be another user's file.
        """
        kept, who = json.loads(self.known[_place(run)].report), identity(run.path)
        job_id = kept.get("job_id")
        own = {"name": who.name, "key": who.key, "generation": who.generation}
        own["job_id"] = job_id if state_files.is_job_id(job_id) else None
        kept.update({name: value for name, value in own.items() if name in kept})
        return {**kept, "run_dir": run.path, "logs_dir": run.file("logs")}

    def _with_array(self, stamp: str, run: RunDirectory, array: str) -> str:
        """Return the stamp of an element of a sweep together with that of its array."""
        if array == NO_ARRAY:
            return stamp
        folder = run.beside(array)
        if folder not in self.arrays:
            self.arrays[folder] = _stamp(folder)
        return f"{stamp}{_digest(self.arrays[folder].encode())}"

    def keep(self, reports: Iterable[LaunchReport], documents: Mapping[str, JsonObject] | None = None) -> None:
        """Add the launches that have ended. Whatever goes wrong, the index is only older than it could be.

        `documents`: what to keep of them by run directory, in place of the reports.
        """
        new = [
            line
            for report in reports
            if documents is None or report.run_dir in documents
            for line in self._line(report, report.as_dict() if documents is None else documents[report.run_dir])
        ]
        if documents is None:
            new += [line for key in self.moved for line in self._again(key)]
        self._write(new)

    def beside(self, index: History, run: RunDirectory) -> JsonObject | None:
        """Return what this file has of a launch that `index` has, another file of the same folder; None for nothing."""
        place = _place(run)
        line, other = _Line.of(self.lines.get(place, b"")), index.known.get(place)
        return json.loads(line.report) if line is not None and other is not None and line.stamp == other.stamp else None

    def keep_beside(self, index: History, documents: Mapping[str, JsonObject]) -> None:
        """Add documents, by run directory, of launches that `index` has."""
        new: list[str] = []
        for path, document in documents.items():
            place = _place(RunDirectory(path))
            line = index.known.get(place)
            if line is not None:
                new += _written(line.stamp, place, f"{line.array}@{line.ended_at!r}@", json.dumps(document))
        self._write(new)

    def _again(self, key: str) -> Sequence[str]:
        """Return the line of a launch with this key again, with the generations of today, or nothing."""
        generations = self.folders[key]
        for number in generations.partition(":")[2].split(","):
            line = self.known.get(f"{key}/{number}")
            if line is not None:
                array = f"{line.array}@{line.ended_at!r}@{generations}"
                return _written(line.stamp, f"{key}/{number}", array, line.report.decode("utf-8", "replace"))
        return []

    def _write(self, new: Sequence[str]) -> None:
        if not new or not self.worthwhile:
            return
        with contextlib.suppress(OSError, RankzeroError):
            folder = os.path.join(state_files.own(self.state_root).root, FOLDER)
            state_files.make_folder(folder)
            path = os.path.join(folder, self.file)
            if self.total > 2 * len(self.lines) + WORTH_AN_INDEX:
                # Most lines are superseded by newer ones.
                lines = [*(line.decode("utf-8", "replace") for line in self.lines.values()), *new]
                replace_file(path, "".join(f"{line}\n" for line in lines), mode=0o600)
                return
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            # Only the owner may read it, because a run directory may be private.
            descriptor = os.open(path, flags, 0o600)
            with os.fdopen(descriptor, "ab") as stream:
                # An incomplete line of a killed writer ends here.
                stream.write(("\n" + "".join(f"{line}\n" for line in new)).encode())

    def _line(self, report: LaunchReport, document: JsonObject) -> Sequence[str]:
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
        stamp = self._with_array(self.stamps[place], run, array)
        ended_at = float(report.finished_at or report.started_at or 0.0)
        generations = self.folders.get(os.path.dirname(place), "")
        generations = generations if ":" in generations else ""
        return _written(stamp, place, f"{array}@{ended_at!r}@{generations}", json.dumps(document))


@dataclass(frozen=True)
class _Line:
    """A line of the index whose checksum is right. `files`: the status files that the run directory had. `generations`:
    those of its key with a stamp of its folder, or "".
    """

    stamp: str
    array: str
    ended_at: float
    report: bytes
    files: tuple[str, ...]
    generations: str = ""

    @classmethod
    def of(cls, line: bytes) -> _Line | None:
        """Parse a line; None for anything else."""
        words = line.split(b" ", 4)
        if len(words) < 5 or words[0].decode("ascii", "replace") != _digest(line.partition(b" ")[2]):
            return None
        stamp, (array, *rest) = words[1].decode("ascii"), words[3].decode("ascii").split("@")
        if len(rest) != 2 or stamp.count(".") != 2 or not _GENERATIONS.fullmatch(rest[1]):
            # Written by an earlier version.
            return None
        present = stamp.partition(".")[0]
        files = tuple(name for number, name in enumerate(STATUS_FILES) if str(number) in present)
        return cls(stamp, array, float(rest[0]), words[4], files, rest[1])


def _place(run: RunDirectory) -> str:
    """NAME/KEY/GENERATION of a run directory."""
    return "/".join(run.path.rsplit(os.sep, 3)[1:])


def _digest(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=12).hexdigest()


def _written(stamp: str, place: str, array: str, document: str) -> Sequence[str]:
    """Return a line, or nothing where it would be too long."""
    content = f"{stamp} {place} {array} {document}"
    return [f"{_digest(content.encode())} {content}"] if len(content) < LINE_BYTES else []


def _stamp(base: str, folder: int | None = None, names: Sequence[str] = STATUS_FILES) -> str:
    """Return FILES.DIGEST.DIGEST: which files a run directory has, and digests of what changes when it, or one of these
    files, is changed or replaced.

    `base`: its path, or its name in the open `folder`.
    """
    files = [(number, _change(f"{base}/{name}", folder)) for number, name in enumerate(STATUS_FILES) if name in names]
    there = [file for file in files if file[1]]
    present = "".join(str(number) for number, _digest_of_it in there)
    return f"{present}.{_change(base, folder)}.{_digest(repr(there).encode())}"


def _change(path: str, folder: int | None = None) -> str:
    """Return a digest of what changes when a file or a folder is changed or replaced; "" if it is not there."""
    try:
        status = os.stat(path, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return ""
    parts = (status.st_ino, status.st_ctime_ns, status.st_size, status.st_mode, status.st_uid)
    return _digest(repr(parts).encode())


def _folder_stamp(path: str, folder: int, now: float) -> str:
    """Return `_change` of a folder, with its number of folders; "" if it has changed too lately to tell."""
    # Another host may have made a generation: the file system must not answer from what it remembers.
    sync(path, folder)
    try:
        status = os.stat(path, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return ""
    parts = (status.st_ino, status.st_ctime_ns, status.st_size, status.st_mode, status.st_uid, status.st_nlink)
    return _digest(repr(parts).encode()) if status.st_ctime < now - RACY else ""
