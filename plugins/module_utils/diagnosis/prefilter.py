# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the parts of large logs that may matter: a few fixed strings, searched by ripgrep, grep or Python in one pass.

The strings are few and begin with rare bytes. grep finds them at one to two gigabytes a second, but the three hundred
strings of all families at a seventh of a gigabyte. The text near them and both ends of the file are read completely
(`windows`).
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import tempfile
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Opener, unlinked
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import lines
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import Signature

# Every report of a failure in the middle of a log has at least one of these on its line or within a few lines of it.
# grep searches for their first bytes, so each of these is rare in logs. A string that begins with a space doubles
# grep's time; ripgrep drops to a tenth of its speed at somewhat more than two dozen strings. Messages of the shell at
# the start of a script are in the first lines, which are read anyway.
ANCHORS = (
    b"Traceback (most",
    b"rror: ",
    b"ERROR",
    b"Exception",
    b"CANCELLED AT",
    b"Killed",
    b"killed",
    b"NCCL WARN",
    b"Watchdog caught",
    b"No space left",
    b"No module",
    b"quota exceeded",
    b"Out of memory",
    b"Fatal",
    b"FATAL",
    b"Segmentation",
    b"SIG",
    b"Bus error",
    b"Aborted",
    b"Failed",
    b"Permission denied",
    b"xitcode: -",
    b"Xid (",
    b"zero] job",
)
# The memory limit of grep (bytes): it would hold all of a file without line ends.
GREP_MEMORY = 160 << 20
# Of similar hits, this many are kept from the beginning; of all hits, this many from the end.
ALIKE = 24
FIRST = 4000
LAST = 400
# After this many hits, they are no longer compared.
ASKED = 50_000
SHAPE = 48
# The tool searches so many files at a time: they are open, and a process has a thousand at most.
FILES = 200
# A line longer than this (bytes) is not searched: its beginning and its end are read anyway.
ENDLESS = 16 << 20
_DIGITS = bytes.maketrans(b"0123456789", b"##########")

BEFORE = 512
AFTER = 2 << 10
TRACEBACK = 16 << 10
HEAD = 2 << 10
TAIL = 5 << 10


@dataclass
class Hits:
    """The lines of one file that contain an anchor: their numbers and offsets, limited in number, in order.

    `counted`: an offset up to which line ends were counted, behind the number of the line there.
    """

    first: list[tuple[int, int, bool]] = field(default_factory=list)
    last: deque[tuple[int, int, bool]] = field(default_factory=lambda: deque(maxlen=LAST))
    seen: int = 0
    shapes: Counter[bytes] = field(default_factory=Counter)
    newest: int = -1
    counted: tuple[int, int] = (1, 0)

    def add(self, number: int, offset: int, text: bytes) -> None:
        """Count a line; keep it if its shape is new or it comes late. `number` counts from 1; 0: unknown."""
        self.seen += 1
        self.newest = offset
        hit = (number, offset, ANCHORS[0] in text)
        if self.seen <= ASKED and len(self.first) < FIRST:
            shape = text[:SHAPE].translate(_DIGITS)
            self.shapes[shape] += 1
            if self.shapes[shape] <= ALIKE:
                self.first.append(hit)
                return
        self.last.append(hit)

    def all(self) -> list[tuple[int, int, bool]]:
        """The kept lines in order: (line number, offset in bytes, whether a traceback begins there)."""
        return sorted([*self.first, *self.last])


def tool() -> list[str] | None:
    """The command that searches fixed strings in many files: ripgrep, else grep, else None."""
    program = shutil.which("rg")
    if program:
        plain = ["--no-config", "--no-messages", "--color=never", "--no-heading", "--no-mmap", "--null"]
        return [program, *plain, "-a", "-b", "-n", "-H", "-F"]
    program = shutil.which("grep")
    return [program, "-a", "-b", "-n", "-H", "-Z", "-F"] if program else None


def strings(signatures: Sequence[Signature], known: Sequence[Signature]) -> tuple[bytes, ...]:
    """The fixed strings of a site's own families: there may be no anchor near them."""
    own = [signature for signature in signatures if signature not in known]
    return tuple(needle.encode() for signature in own for match in signature.matches for needle in match.needles)


def find(
    paths: Sequence[str], command: Sequence[str] | None, own: Sequence[bytes] = (), opener: Opener = unlinked
) -> dict[str, Hits]:
    """The anchors' lines in these files. Python searches what the tool could not: lines of gigabytes."""
    anchors = (*ANCHORS, *own)
    hits: dict[str, Hits] = {}
    for start in range(0, len(paths), FILES):
        hits.update(_found(paths[start : start + FILES], command, anchors, opener))
    return hits


def _found(
    paths: Sequence[str], command: Sequence[str] | None, anchors: Sequence[bytes], opener: Opener
) -> dict[str, Hits]:
    hits = {path: Hits() for path in paths}
    if command is not None and _by_tool(hits, command, anchors, opener):
        return hits
    for path in paths:
        # One file at a time, so that a problem with one file does not affect the others.
        hits[path] = Hits()
        if command is None or len(paths) == 1 or not _by_tool({path: hits[path]}, command, anchors, opener):
            # What cannot be read by now is found out where it is read (scan.py).
            with contextlib.suppress(OSError):
                hits[path] = in_python(path, anchors, opener)
    return hits


def _by_tool(hits_of: dict[str, Hits], command: Sequence[str], anchors: Sequence[bytes], opener: Opener) -> bool:
    """Search in open files, which the tool gets by their numbers: it would follow a link in the place of one."""
    with contextlib.ExitStack() as stack:
        wanted = stack.enter_context(tempfile.NamedTemporaryFile("wb", prefix="rankzero-anchors-"))
        try:
            numbers = {stack.enter_context(opener(path)).fileno(): hits for path, hits in hits_of.items()}
        except OSError:
            return False
        by_name = {b"/proc/self/fd/%d" % number: hits for number, hits in numbers.items()}
        wanted.write(b"\n".join(anchors) + b"\n")
        wanted.flush()
        # pylint: disable-next=ansible-bad-function
        with subprocess.Popen(
            [*command, "-f", wanted.name, "--", *by_name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
            pass_fds=list(numbers),
            preexec_fn=_limit_memory,  # noqa: PLW1509 - one thread
        ) as process:
            for line in lines.raw_lines(process.stdout) if process.stdout else ():
                name, _nul, rest = line.partition(b"\0")
                number, _colon, rest = rest.partition(b":")
                offset, _colon, text = rest.partition(b":")
                if name in by_name and number.isdigit() and offset.isdigit():
                    by_name[name].add(int(number), int(offset), text)
        return process.returncode <= 1


def _limit_memory() -> None:
    _soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (GREP_MEMORY, hard))


def in_python(path: str, anchors: Sequence[bytes] = ANCHORS, opener: Opener = unlinked) -> Hits:
    """The same search without a tool. Memory is limited to a few blocks for any length of line."""
    hits = Hits()
    number = 1
    position = 0
    line_start = 0
    keep = max(map(len, anchors)) - 1
    carried = b""
    with opener(path) as stream:
        while True:
            fresh = stream.read(4 * lines.BLOCK)
            if not fresh:
                break
            block = carried + fresh
            base = position - len(carried)
            if base - line_start > ENDLESS and b"\n" not in fresh:
                position += len(fresh)
                continue
            places = sorted({at for anchor in anchors for at in _places(block, anchor)})
            done = 0
            for at in places:
                begin = block.rfind(b"\n", 0, at) + 1
                ends = block.count(b"\n", done, begin)
                number += ends
                done = max(done, begin)
                if ends:
                    line_start = base + begin
                if hits.newest != line_start:
                    hits.add(number, line_start, block[begin : begin + lines.LONGEST])
            rest = block.count(b"\n", done)
            number += rest
            if rest:
                line_start = base + block.rfind(b"\n") + 1
            position += len(fresh)
            # An anchor may cross two blocks; a line end in the carried part was already counted.
            carried = block[max(block.rfind(b"\n") + 1, len(block) - keep) :]
    hits.counted = (number, position)
    return hits


def _places(block: bytes, anchor: bytes) -> Iterator[int]:
    """The positions of the anchor, once a line."""
    at = block.find(anchor)
    while at >= 0:
        yield at
        end = block.find(b"\n", at)
        at = block.find(anchor, end) if end >= 0 else -1


def windows(size: int, hits: Iterable[tuple[int, int, bool]]) -> list[tuple[int, int, int, int]]:
    """The parts of a file to read: (begin, end, a line's number, that line's offset), in order, without overlap.

    The number is 0 where it is unknown: at the end of a file, far from any anchor.
    """
    parts = [(0, min(size, HEAD), 1, 0)]
    for number, offset, traceback in hits:
        begin, end = max(0, offset - BEFORE), min(size, offset + (TRACEBACK if traceback else AFTER))
        before = parts[-1]
        if begin <= before[1]:
            parts[-1] = (before[0], max(before[1], end), before[2], before[3])
        else:
            parts.append((begin, end, number, offset))
    tail = max(0, size - TAIL)
    before = parts[-1]
    if tail <= before[1]:
        parts[-1] = (before[0], size, before[2], before[3])
    else:
        parts.append((tail, size, 0, tail))
    return parts
