# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read log files of any size and content as lines. Each line has its number, the rank and node of its prefix, its time.

Memory is bounded: a file is read in blocks, and only the beginning and the end of a line longer than LONGEST are kept.
"""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import IO

from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Opener, unlinked
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import LINE_CHARACTERS

BLOCK = 1 << 20
LONGEST = LINE_CHARACTERS
# A packed log cannot be read in parts: one with more bytes than this is refused.
MOST_UNPACKED = 512 << 20

_NAME_WITH_RETURN = re.compile(r"\r(?=[)'\"]|: )")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]")
# Prefixes that launchers put before a line. Several may follow each other: `node07: [rank3]: `, `3: [rank3]:[rank3]: `.
_PREFIX = re.compile(
    r"""\s*(?:
      \[(?:rank|default|Rank\ )(?P<rank>\d{1,7})\]:\ ?            # torch; torchrun --redirects
    | \[\d+,(?P<mpi>\d{1,7})\](?:<std(?:out|err)>)?:?\ ?          # mpirun --tag-output
    | \((?:[^()\n]{1,60}\ )?pid=(?P<pid>\d+)(?:,\ ip=(?P<ip>[\d.]+))?\)\ ?  # ray, vLLM
    | (?P<level>[A-Z]{4,8})(?::\ {4,5}                             # uvicorn, vLLM
        |\ (?:\d{4}-)?\d\d-\d\d\ \d\d:\d\d:\d\d\ \[?\w+\.py:\d+\]\ )
        (?=Traceback|\ \ |[\w.]*(?:Error|Exception|Failed)\b)
    | \[[\d\- :.,]{19,26}\]\ [\w.]+:\ (?:\[[\w/]+\]\ )*?\[(?P<named>[A-Z]{4,8})\]\ # torch 2.0 to 2.2
        (?=Traceback|\ \ |[\w.]*(?:Error|Exception|Failed)\b)
    | (?P<letter>[WIE])\d{4}\ [\d:.]{8,15}\ \d+\ [\w./-]+\.py:\d+\]\ (?:\[[\w/]+\]\ )* # torch from 2.3 on
        (?=Traceback|\ \ |[\w.]*(?:Error|Exception|Failed)\b)
    | (?P<task>\d{1,7}):\ ?(?=\D|$)                               # srun --label, mpirun
    | (?P<stamp>(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|\ ?[+-]\d\d:?\d\d)?
                  |[A-Z][a-z]{2}\ [ \d]\d\ \d\d:\d\d:\d\d)
        (?:\ std(?:out|err)\ [FP])?)\ (?=Traceback|\ \ |\[rank\d|\[default\d
            |\w*(?:Error|Exception|Interrupt|Iteration|Exit)\b|(?:\w+\.)+\w+:\ )
    | (?!\d)[\w./-]{1,80}[/_-]\d+\ (?:                            # docker compose, which writes two blanks or more
        (?P<bar>\ {1,40}\|\ )|(?=\[(?:rank|default)\d))          # nemo-run: role/replica
    | (?P<node>(?:\d{1,3}(?:\.\d{1,3}){3})|localhost|[A-Za-z](?=[\w.-]*\d)[\w.-]{0,62}):\ (?!error:)
    )""",
    re.VERBOSE,
)
# The margin in which Python draws a group of exceptions as a tree, and the lines between them.
_MARGIN = re.compile(r" +(?:\| ?|\+ (?=Exception Group Traceback)|\+-\+?-[- \d.]*$)")
# A progress bar that something else was written behind. What follows `]` is no part of the bar, except its losses.
_BAR = re.compile(
    r"(?:[^%|]{0,200}%\||\s*\d{1,12}it ).{0,600}?\[[^\[\]]{0,200}(?:[A-Za-z]/s|s/[A-Za-z]\w{0,20})[^\[\]]{0,200}\]"
    r"\s*(?=\S)(?!.*\b[Ll]oss\b)"
)
# A progress bar of steps, not of loading or downloading, after the first step.
STEP_BAR = re.compile(r"(?!.*\b0%\|[^|]*\| *0/)(?:(?:[Ee]poch|[Tt]rain|[Ss]tep|[Ii]ter)[^|%]{0,40})?\s*\d+%\|")
# A bar with this was written behind a message, or before it.
_FAILED = re.compile("rror|Killed|CANCELLED|xception")
# Of one line with many carriage returns, this many messages are kept from the end.
MESSAGES = 20
# `cv2.error: ` and `n1.Error2: ` are exceptions, not nodes, and `EI0006: ` is the number of an error of Ascend's.
_EXCEPTION_NAME = re.compile(r"(?:[Ee]rror|Exception|Warning|Interrupt|Exit)\d*$|^E[A-Z]{0,2}\d{4,5}$")

# `global_step-100  | ` counts what a program does, and is no service of docker compose.
_COUNTS = re.compile("epoch|step|iter|batch", re.I)
# Nor is `layer_1  | ` before the cells of a table: a number alone, or a cell that is filled up with blanks.
_CELLS = re.compile(r"\s*[-+]?(?:[\d.,]*\d(?:e[-+]?\d+)?|nan|inf)\ ?[%\w]?\ *(?:\||$)|[^|\s][^|]{0,60}\ \ \|", re.I)

_ISO = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")
# glog, as PyTorch's C++ and torchrun write it: level, month, day, time; PyTorch omits the month's leading zero.
_GLOG = re.compile(r"(?<![\w.])[IWEF](\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
# glog gives no year, so the year is ignored in all formats: one file may contain both.
_YEAR = 2000
YEAR = 366 * 86400.0


@dataclass(frozen=True)
class Line:
    """One line. `text` has no prefixes and no colours; `rank`, `node` and `stamp` come from the prefixes.

    `process`: the number of the process, where a prefix has it; `level`: that of a traceback that a logger wrote.
    `steps`, `length`: of the progress bars that the line also contains, their number and their total length.
    """

    number: int
    text: str
    rank: int | None = None
    node: str | None = None
    stamp: str = ""
    steps: int = 0
    length: int = 0
    process: str = ""
    level: str = ""

    @property
    def stream(self) -> tuple[int | None, str | None, str]:
        """The stream of the line. Lines of one stream belong together, even with other lines between them."""
        return self.rank, self.node, self.process


def parse_lines(number: int, raw: bytes) -> list[Line]:
    """Parse one line without its newline into the messages that it shows, all with the same number.

    Carriage returns separate messages. Progress bars among them count once, as the last part of the line.
    """
    if b"\r" not in raw and b"%|" not in raw and b"/it]" not in raw and b"it/s]" not in raw:
        return [_message(number, raw.decode("utf-8", "replace"))]
    text = raw.decode("utf-8", "replace").rstrip("\r")
    if "\r" in text:
        # A script with Windows line ends: the carriage return belongs to the name of what was not found.
        text = _NAME_WITH_RETURN.sub("^M", text)
    shown = text.split("\r")
    parts = [part for part in map(_behind_bar, shown) if part.strip()]
    if not parts:
        return [_message(number, "")]
    messages = [part for part in parts[:-1] if "%|" not in part or _FAILED.search(part)][-MESSAGES:]
    if not messages or "%|" not in parts[-1]:
        messages.append(parts[-1])
    bars = [part for part in shown if "%|" in part and STEP_BAR.match(part)]
    first = replace(_message(number, messages[0]), steps=len(bars), length=sum(map(len, bars)))
    return [first, *(_message(number, part) for part in messages[1:])]


def _behind_bar(text: str) -> str:
    """What was written behind a progress bar on the same line, else the text."""
    progress = _BAR.match(text) if "%|" in text or "it]" in text or "it/s]" in text else None
    return text[progress.end() :] if progress else text


def parse_line(number: int, raw: bytes) -> Line:
    """Parse one line without its newline. Of text that carriage returns separate, only the last message is returned."""
    return parse_lines(number, raw)[-1]


def _message(number: int, text: str) -> Line:
    """Parse one message: its prefixes, and its text without colours."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    text = text.replace("\x00", "")
    rank: int | None = None
    node: str | None = None
    stamp = process = level = ""
    position = 0
    for _prefix in range(4):
        prefix = _PREFIX.match(text, position)
        if not prefix:
            break
        name = prefix["node"]
        service = text[position : prefix.start("bar")].strip() if prefix["bar"] else ""
        if name and _EXCEPTION_NAME.search(name):
            break
        if service and (_COUNTS.search(service) or _CELLS.match(text, prefix.end())):
            break
        number_of = prefix["rank"] or prefix["mpi"] or (prefix["task"] if rank is None else None)
        rank = int(number_of) if number_of else rank
        node = name or prefix["ip"] or node
        stamp = prefix["stamp"] or stamp
        process = prefix["pid"] or service or process
        position = prefix.end()
        level = prefix["level"] or prefix["named"] or prefix["letter"] or level
    margin = _MARGIN.match(text, position) if text.startswith("  ", position) else None
    position = margin.end() if margin else position
    return Line(number, text[position:].rstrip(), rank, node, stamp, process=process, level=level)


def time_of(text: str) -> float | None:
    """Seconds since a fixed moment, from the first time stamp in the beginning of the line; None without one."""
    head = text[:200]
    match = _ISO.search(head) or _GLOG.search(head)
    if not match:
        return None
    month, day, hour, minute, second, fraction = match.groups()[-6:]
    try:
        moment = datetime(_YEAR, int(month), int(day), int(hour), int(minute), int(second), tzinfo=timezone.utc)
    except ValueError:
        return None
    return moment.timestamp() + (float(f"0.{fraction}") if fraction else 0.0)


# Marks a part of a file that was not read.
GAP = Line(0, "")


# Behind the end of a part, at most so many bytes of its last line are read: a line may be as long as the file.
FURTHER = 128 << 10


class UpTo:
    """A part of a stream for `raw_lines`: from `begin` to the end of the line that contains `end`, or FURTHER."""

    def __init__(self, stream: IO[bytes], begin: int, end: int) -> None:
        stream.seek(begin)
        self._stream = stream
        self._left = end - begin
        self._further = FURTHER
        self._ended = False

    def read(self, size: int) -> bytes:
        """At most `size` bytes; empty after the line with the last byte of the part."""
        if self._ended:
            return b""
        if self._left > 0:
            block = self._stream.read(min(size, self._left))
            self._left -= len(block)
            self._ended = not block or (self._left <= 0 and block.endswith(b"\n"))
            return block
        block = self._stream.read(min(size, self._further))
        self._further -= len(block)
        end = block.find(b"\n")
        self._ended = end >= 0 or not block
        return block[: end + 1] if end >= 0 else block


def raw_lines(stream: IO[bytes] | UpTo) -> Iterator[bytes]:
    """The lines of a stream without newlines; of a line longer than LONGEST, its beginning and its end."""
    kept = b""
    while True:
        block = stream.read(BLOCK)
        if not block:
            break
        pieces = (kept + block).split(b"\n")
        kept = pieces.pop()
        for piece in pieces:
            yield _cut(piece)
        kept = _cut(kept)
    if kept:
        yield kept


def _cut(line: bytes) -> bytes:
    half = LONGEST // 2
    return line if len(line) <= LONGEST else line[:half] + b" ... " + line[-half + 5 :]


def parse(lines: Iterable[bytes]) -> Iterator[Line]:
    """Number the lines of a complete file from 1 and parse each."""
    for number, raw in enumerate(lines, 1):
        yield from parse_lines(number, raw)


class _Unpacked:
    """What a packed log holds, up to MOST_UNPACKED. A few kilobytes of it may be gigabytes."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._left = MOST_UNPACKED

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes. Raises OSError behind MOST_UNPACKED."""
        block = self._stream.read(size)
        self._left -= len(block)
        if self._left < 0:
            raise OSError(f"has more than {MOST_UNPACKED >> 20} MB once it is unpacked: unpack it, and give that file")
        return block


@contextmanager
def opened(path: str, opener: Opener = unlinked) -> Iterator[IO[bytes]]:
    """Open a log for reading; decompress it if its first bytes identify gzip or zstd.

    Raises `OSError` where it cannot be read, `EOFError` where zstd cannot decompress all of it.
    """
    magic = _magic(path, opener)
    # Opened again: a child process reads from the descriptor's position, not from that of Python's buffer.
    with opener(path) as plain:
        if magic[:2] == b"\x1f\x8b":
            with gzip.open(plain) as unpacked:
                yield _Unpacked(unpacked)  # type: ignore[misc, arg-type]
        elif magic == b"\x28\xb5\x2f\xfd":
            tool = shutil.which("zstd") or shutil.which("unzstd")
            if tool is None:
                raise OSError("is compressed with zstd, and this host has no zstd to unpack it")
            # pylint: disable-next=ansible-bad-function
            with subprocess.Popen(
                [tool, "-dcq"], stdin=plain, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            ) as process:
                if process.stdout is not None:  # always true with PIPE
                    yield _Unpacked(process.stdout)  # type: ignore[misc]
            if process.returncode:
                raise EOFError("zstd could not unpack all of it")
        else:
            yield plain


def _magic(path: str, opener: Opener) -> bytes:
    with opener(path) as stream:
        return stream.read(4)


def packed(path: str, opener: Opener = unlinked) -> bool:
    """Whether a file is compressed with gzip or zstd, by its first bytes. Raises OSError."""
    magic = _magic(path, opener)
    return magic[:2] == b"\x1f\x8b" or magic == b"\x28\xb5\x2f\xfd"
