# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn files into events: find the logs and read each, small ones completely and large ones through the prefilter."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from typing import IO, NamedTuple

from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Opener, bounded_walk, unlinked
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import lines, prefilter
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.event import FileEvents
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.events import Reader
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import Signature
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.registry import SIGNATURES

# Up to MUCH bytes in total, logs below HUGE are read completely; above that, the smallest ones below BIG, together up
# to MUCH. All sizes in bytes.
MUCH = 24 << 20
BIG = 64 << 10
HUGE = 8 << 20
# From this many bytes on, several processes are used.
SHARED = 4 << 20
# Added to line numbers while the number of lines before them is unknown.
UNNUMBERED = 1 << 62


@dataclass
class Scan:
    """The result of reading. `unreadable`: file -> reason; all other files are still analysed."""

    logs: list[FileEvents] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    bytes: int = 0
    signatures: Sequence[Signature] = SIGNATURES


#: Makes of an open log the same log as it may be shown.
Cleaner = Callable[[IO[bytes]], IO[bytes]]


class _Share(NamedTuple):
    """Files for one process: read completely, or in parts around the anchors."""

    in_parts: bool
    paths: list[str]
    signatures: Sequence[Signature]
    cleaner: Cleaner
    opener: Opener


def find_logs(path: str) -> list[str]:
    """The file itself, or all regular files below a folder that may be logs, sorted by path."""
    if not os.path.isdir(path):
        return [path]
    logs = []
    for folder, folders, names in bounded_walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        logs += [os.path.join(folder, name) for name in sorted(names) if _may_be_a_log(name)]
    return logs


def _may_be_a_log(name: str) -> bool:
    stem = name[: -len(".gz")] if name.endswith(".gz") else name[: -len(".zst")] if name.endswith(".zst") else name
    if name.startswith("."):
        return False
    return "." not in stem or stem.endswith((".log", ".out", ".err", ".txt", ".stdout", ".stderr")) or ".log." in stem


def as_it_is(stream: IO[bytes]) -> IO[bytes]:
    """The cleaner of logs that may be shown as they are."""
    return stream


def scan(
    paths: Sequence[str],
    processes: int = 1,
    signatures: Sequence[Signature] = SIGNATURES,
    cleaner: Cleaner = as_it_is,
    opener: Opener = unlinked,
) -> Scan:
    """Read all logs, in several processes if they are large. Unreadable files are listed in the result.

    `cleaner`: can be pickled, and changes neither lengths nor lines. What it leaves out is in no event, however that
    event is cut or quoted later. `opener`: opens each log, and can be pickled.
    """
    result = Scan(signatures=signatures)
    sizes = {path: _size(path) for path in paths}
    result.bytes = sum(sizes.values())
    longest = _longest(sizes.values())
    short_logs = [path for path in paths if sizes[path] < longest]
    parts = [path for path in paths if sizes[path] >= longest]
    shares = processes if processes > 1 and result.bytes >= SHARED else 1
    jobs = [_Share(False, share, signatures, cleaner, opener) for share in _shares(short_logs, sizes, shares * 4)]
    jobs += [_Share(True, share, signatures, cleaner, opener) for share in _shares(parts, sizes, shares * 2)]
    if shares > 1 and len(jobs) > 1:
        # Forked: a new interpreter would not have the archive that a shipped module runs from.
        with ProcessPoolExecutor(shares, mp_context=multiprocessing.get_context("fork")) as pool:
            done = [log_read for answer in pool.map(_read_all, jobs) for log_read in answer]
    else:
        done = [log_read for job in jobs for log_read in _read_all(job)]
    by_path = {path: (log, problem) for path, log, problem in done}
    for path in dict.fromkeys(paths):
        log, problem = by_path[path]
        if log is None:
            result.unreadable[path] = problem
        else:
            result.logs.append(log)
    return result


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _longest(sizes: Iterable[int]) -> int:
    """Logs below this many bytes are read completely."""
    total = 0
    for size in sorted(sizes):
        total += size
        if total > MUCH:
            return min(size, BIG)
    return HUGE


def _shares(paths: Sequence[str], sizes: dict[str, int], count: int) -> list[list[str]]:
    """Split the files into at most `count` groups of about the same size."""
    heaps: list[tuple[int, list[str]]] = [(0, []) for _number in range(min(count, len(paths)))]
    for path in sorted(paths, key=lambda path: -sizes[path]):
        place = min(range(len(heaps)), key=lambda number: heaps[number][0])
        heaps[place][1].append(path)
        heaps[place] = (heaps[place][0] + sizes[path] + BIG, heaps[place][1])
    return [heap for _total, heap in heaps]


def _read_all(share: _Share) -> list[tuple[str, FileEvents | None, str]]:
    """For each file of a share: its events, or the reason why there are none."""
    reader, cleaner, opener = Reader(share.signatures), share.cleaner, share.opener
    answers: list[tuple[str, FileEvents | None, str]] = []
    searched: list[str] = []
    for path in share.paths:
        problem = _problem(path, opener)
        if problem:
            answers.append((path, None, problem))
        elif share.in_parts and not lines.packed(path, opener):
            searched.append(path)
        else:
            answers.append(_attempt(reader, path, None, cleaner, opener))
    own = () if share.signatures is SIGNATURES else prefilter.strings(share.signatures, SIGNATURES)
    hits = prefilter.find(searched, prefilter.tool(), own, opener) if searched else {}
    return answers + [_attempt(reader, path, hits[path], cleaner, opener) for path in searched]


def _problem(path: str, opener: Opener) -> str:
    try:
        with opener(path):
            return ""
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return error.strerror or str(error)


def _attempt(
    reader: Reader, path: str, hits: prefilter.Hits | None, cleaner: Cleaner, opener: Opener
) -> tuple[str, FileEvents | None, str]:
    try:
        if hits is not None:
            return path, _read_parts(reader, path, hits, cleaner, opener), ""
        with lines.opened(path, opener) as stream:
            return path, reader.read(path, lines.parse(lines.raw_lines(cleaner(stream)))), ""
    except EOFError as error:
        return path, None, f"is cut short: {error}"
    except OSError as error:
        return path, None, error.strerror or str(error)
    except Exception as error:
        # One file that the rules cannot read does not hide what the others say.
        return path, None, f"cannot be read ({type(error).__name__}: {error})"


def _read_parts(reader: Reader, path: str, hits: prefilter.Hits, cleaner: Cleaner, opener: Opener) -> FileEvents:
    """The events near the hits and at both ends of the file."""
    with opener(path) as plain:
        stream = cleaner(plain)
        stream.seek(0, os.SEEK_END)
        parts = Parts(stream, prefilter.windows(stream.tell(), hits.all()), hits.counted)
        events = reader.read(path, parts.lines())
        # Line ends are counted in the file itself: the cleaner changes none, and takes a hundred times as long.
        before = parts.before(plain)
        events.lines, events.done, events.last_step = (
            number - UNNUMBERED + before if number >= UNNUMBERED else number
            for number in (events.lines, events.done, events.last_step)
        )
        events.events = [
            replace(event, line=event.line - UNNUMBERED + before) if event.line >= UNNUMBERED else event
            for event in events.events
        ]
    return events


class Parts:
    """The lines of some parts of a file. Lines far from any hit are numbered only on request.

    `windows`: as of prefilter.py; `counted`: as in its Hits.
    """

    def __init__(
        self, stream: IO[bytes], windows: Sequence[tuple[int, int, int, int]], counted: tuple[int, int]
    ) -> None:
        self._stream = stream
        self._windows = windows
        self._counted = counted
        # A line number with its offset, and the offset of the lines without number.
        self._known = (1, 0)
        self._unnumbered_from = 0

    def lines(self) -> Iterator[lines.Line]:
        """The lines of all parts in file order, with GAP before each part that does not begin the file."""
        for begin, end, number, offset in self._windows:
            if begin:
                yield lines.GAP
            start, first = self._start(begin, number, offset)
            count = 0
            for count, raw in enumerate(lines.raw_lines(lines.UpTo(self._stream, start, end)), 1):
                yield from lines.parse_lines(first + count - 1, raw)
            if first < UNNUMBERED:
                self._known = (first, start)

    def _start(self, begin: int, number: int, offset: int) -> tuple[int, int]:
        """The offset of the first complete line of a part, and its number."""
        if not begin:
            return 0, 1
        self._stream.seek(begin)
        if number:
            before = self._stream.read(offset - begin)
            start = begin + before.find(b"\n") + 1 if b"\n" in before else offset
            return start, number - before.count(b"\n", start - begin)
        end = self._stream.read(lines.LONGEST).find(b"\n")
        self._unnumbered_from = begin + end + 1
        return self._unnumbered_from, UNNUMBERED

    def before(self, plain: IO[bytes]) -> int:
        """What takes the place of UNNUMBERED in the numbers of this file's lines. `plain`: the file itself."""
        number, position = self._counted
        if 0 < self._unnumbered_from <= position:
            # The search has read all of it.
            plain.seek(self._unnumbered_from)
            return number - plain.read(position - self._unnumbered_from).count(b"\n")
        number, position = self._known
        plain.seek(position)
        while position < self._unnumbered_from:
            block = plain.read(min(lines.BLOCK, self._unnumbered_from - position))
            if not block:
                break
            # To look for one takes a tenth of the time of a count: a line may have gigabytes.
            number += block.count(b"\n") if b"\n" in block else 0
            position += len(block)
        return number
