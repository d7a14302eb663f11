# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Merge the logs of all ranks by time, each line prefixed with its rank, and follow new lines as they arrive."""

from __future__ import annotations

import contextlib
import functools
import heapq
import os
from collections.abc import Iterator, Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import amount
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.lines import time_of
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.names import (
    divided,
    log_names,
    node_of,
    rank_of,
    ranks_of,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.log_facts import newest

MERGED = "merged.log"
# Longer lines are split: a binary dump may contain no line ends at all.
LONGEST = 65536
# Bytes of a log that are read at a time. All logs together hold MOST_HELD of blocks and of lines, or SMALLEST each.
BLOCK, MOST_HELD, SMALLEST = 256 * 1024, 32 * 1024 * 1024, 2048
# How much of each existing log is shown when following begins.
LAST_LINES = 5
LAST_BYTES = 16 * 1024
# Following: of what is new in all logs since the last look, so many bytes and lines are shown, those at the ends.
MOST_NEW, MOST_LINES = 8 * 1024 * 1024, 10_000
# Bytes of a line without an end that are kept for the next look. Less is shown of a line.
TORN = 4096


def titled(path: str, line: bytes) -> tuple[str, bytes]:
    """What is shown before a line of a log, and the line: `rank 3`, `job`, or the file's own name."""
    rank, text = divided(line) if node_of(path) is not None else (rank_of(path), line)
    if rank is not None:
        return f"rank {rank}", text
    return _title(path), line


def _title(path: str) -> str:
    name = os.path.basename(path)
    return "job" if name.startswith("job.") else name.removesuffix(".log")


def newest_logs(logs: Beneath) -> list[str]:
    """The logs of the newest attempt, ordered by rank, and those of the batch script."""
    paths = []
    for folder in newest(logs):
        paths += [os.path.join(folder.path, name) for name in log_names(folder.names) if not name.startswith(".")]

    def order(path: str) -> tuple[int, str]:
        return (min(ranks_of(path), default=-1), path)

    return sorted(filter(functools.partial(_is_file, logs), paths), key=order)


def _is_file(logs: Beneath, path: str) -> bool:
    with contextlib.suppress(OSError), logs.at(path):
        return True
    return False


def _lines(logs: Beneath, path: str, share: int) -> Iterator[bytes]:
    """The lines of a log. It is open only while a block of it is read: there may be more logs than open files.

    `share`: bytes that may be held of a block, and of a line.
    """
    block, longest = min(BLOCK, share), min(LONGEST, share)
    held, begin, at = b"", 0, 0
    while True:
        end = held.find(b"\n", begin, begin + longest) + 1 or begin + longest
        if end <= len(held):
            yield held[begin:end]
            begin = end
            continue
        with logs.at(path) as stream:
            stream.seek(at)
            data = stream.read(block)
        at += len(data)
        held, begin = held[begin:] + data, 0
        if not data:
            break
    if held:
        yield held


def _timed(logs: Beneath, path: str, place: int, share: int) -> Iterator[tuple[float, int, int, bytes]]:
    """(time, index of the file, line number, line) of every line. Times never decrease, and are 0 at first."""
    moment = 0.0
    for number, line in enumerate(_lines(logs, path, share)):
        stated = time_of(titled(path, line)[1][:200].decode("utf-8", "replace"))
        if stated is not None:
            moment = max(moment, stated)
        yield moment, place, number, line


def merge(logs_dir: str) -> str:
    """Merge all lines of the newest attempt by their timestamps into one file next to `logs_dir`. Returns its path."""
    with Place.of_logs(logs_dir).files() as logs:
        paths = newest_logs(logs)
        ranks = [f"rank {max(of)}" for path in paths if (of := ranks_of(path))]
        width = max(map(len, [*ranks, *(_title(path) for path in paths if not ranks_of(path))]), default=0)
        share = max(SMALLEST, MOST_HELD // max(1, len(paths)))
        timed = heapq.merge(*(_timed(logs, path, at, share) for at, path in enumerate(paths)))
        with Place.of_launch(logs_dir).opened() as folder, folder.fresh(MERGED) as stream:
            for _moment, place, _number, line in timed:
                title, text = titled(paths[place], line)
                stream.write(title.ljust(width).encode() + b" | " + text.rstrip(b"\r\n") + b"\n")
    return os.path.join(os.path.dirname(logs_dir), MERGED)


class Tail:
    """New lines of the files below a folder, as they arrive."""

    def __init__(self, logs_dir: str) -> None:
        self._dir = logs_dir
        self._seen: dict[str, int] = {}
        self._torn: dict[str, bytes] = {}

    def begin(self) -> list[str]:
        """The last lines of the existing files. Everything that arrives from now on is new."""
        lines = []
        with Place.of_logs(self._dir).files() as logs:
            for path in newest_logs(logs):
                with logs.at(path) as stream:
                    size = stream.seek(0, os.SEEK_END)
                    stream.seek(max(0, size - LAST_BYTES))
                    last = stream.read(LAST_BYTES).splitlines()[-LAST_LINES:]
                self._seen[path] = size
                lines += [self._shown(path, line) for line in last]
        return lines

    def news(self, restarted: Mapping[str, bool]) -> list[str]:
        """The complete lines that arrived in the files of `restarted`, merged by their timestamps.

        `restarted`: path below the folder -> whether the file was fetched again from its beginning. Of much that is
        new, the last lines are given, and for each log a line that says how much is left out.
        """
        with Place.of_logs(self._dir).files() as logs:
            return self._news(logs, restarted)

    def _news(self, logs: Beneath, restarted: Mapping[str, bool]) -> list[str]:
        timed = []
        for place, (name, again) in enumerate(sorted(restarted.items())):
            path = os.path.join(logs.path, *name.split("/"))
            if again:
                self._seen.pop(path, None)
                self._torn.pop(path, None)
            lines, skipped = self._new(logs, path, MOST_NEW // len(restarted), max(1, MOST_LINES // len(restarted)))
            moment = 0.0
            if skipped:
                note = f"{amount(skipped)} are not shown: the log grew fast. They are in {path}"
                timed.append((moment, place, -1, f"{titled(path, b'')[0]} | {printable(note, 400)}"))
            for number, line in enumerate(lines):
                moment = max(moment, time_of(titled(path, line)[1][:200].decode("utf-8", "replace")) or 0.0)
                timed.append((moment, place, number, self._shown(path, line)))
        return [line for *_order, line in sorted(timed)]

    def _new(self, logs: Beneath, path: str, most: int, count: int) -> tuple[list[bytes], int]:
        """The last complete new lines of a log, at most `count` in `most` bytes, and how many bytes are left out."""
        torn = self._torn.pop(path, b"")
        with logs.at(path) as stream:
            size = stream.seek(0, os.SEEK_END)
            seen = min(self._seen.get(path, 0), size)
            start = stream.seek(max(seen, size - most))
            data = stream.read(size - start)
        self._seen[path] = start + len(data)
        skipped = start - seen
        if skipped:
            # What is left of the first line is not shown as one, unless there is nothing else.
            first = data.find(b"\n") + 1 or max(0, len(data) - TORN)
            torn, data, skipped = b"", data[first:], skipped + len(torn) + first
        # Split from its end: a block of short lines would be millions.
        parts = (torn + data).rsplit(b"\n", count + 1)
        if len(parts) > count + 1:
            skipped += len(parts.pop(0))
        *lines, torn = parts
        if torn:
            self._torn[path] = torn[:TORN]
        return lines, skipped

    def rest(self) -> list[str]:
        """Final lines without a line end."""
        return [self._shown(path, torn) for path, torn in sorted(self._torn.items())]

    def _shown(self, path: str, line: bytes) -> str:
        title, text = titled(path, line)
        return f"{title} | {printable(text.decode('utf-8', 'replace'), 400)}"
