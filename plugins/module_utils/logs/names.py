# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How ranks and nodes share files: the names of logs, whose lines they hold, and texts of all nodes in one file.

The log of a rank is a file of its own, or it is among the lines of a file that the ranks of a node share. There each
line begins with its rank, as srun --label writes it: `12: loss 2.3`.

srun writes what the tasks of all nodes print to one file, and passes on lines of up to 1,024 bytes whole. So a text is
compressed, and printed as lines of base64: `[KIND NODE N/M] BASE64`. With --label, srun writes the number of the task
before each. Pure. The job runtime uses this file as well.
"""

from __future__ import annotations

import binascii
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator

# A folder has at most a thousand logs. Of more ranks they are in folders beside the log of the one that is followed.
_FOLDER = re.compile(r"[0-9]{3}")
_RANK_LOG = re.compile(r"rank-([0-9]{1,7})\.log|.+\.[0-9]{1,12}\.[^/.][^/]{0,254}\.([0-9]{1,7})\.out")
_NODE_LOG = re.compile(r"(.+)\.ranks-([0-9]+(?:[-,][0-9]+)*)\.log")
# A node has fewer ranks than this: a name in a folder of another user must not cost much memory.
_MOST_RANKS = 4096
# Names may claim any ranks: those of one folder of logs hold at most so many.
_ALL_RANKS = 1 << 16

# Characters of base64 in a line, beside which the names have room; the largest text (bytes).
WIDTH, MOST_BYTES = 720, 16 << 20
# So many texts at most are begun and not whole.
_MOST_NODES = 16384
_TEXT_LINE = re.compile(rb"(?:[P\d ]{1,32}: )?\[([\w.]+) (\S+) (\d{1,6})/(\d{1,6})\] ([A-Za-z0-9+/=]+)\s*")


def rank_of(path: str) -> int | None:
    """The rank of a log by its name (rank-0003.log or job.123.node01.3.out); None for other files."""
    match = _RANK_LOG.fullmatch(path.rpartition("/")[2])
    return int(match.group(1) or match.group(2)) if match else None


def of_node(node: str, ranks: Iterable[int]) -> str:
    """The name of a log that the ranks of a node share: node01.ranks-8-15.log."""
    spans: list[list[int]] = []
    for rank in sorted(ranks):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    words = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
    return f"{node}.ranks-{words}.log"


def node_of(path: str) -> str | None:
    """The node whose ranks share a log; None for other files."""
    match = _NODE_LOG.fullmatch(path.rpartition("/")[2])
    return match[1] if match else None


def ranks_of(path: str) -> tuple[int, ...]:
    """The ranks of a log by its name: one, or those that share it; empty for other files."""
    rank = rank_of(path)
    if rank is not None:
        return (rank,)
    match = _NODE_LOG.fullmatch(path.rpartition("/")[2])
    ranks: list[int] = []
    for word in match[2].split(",") if match else ():
        first, _dash, last = word.partition("-")
        if len(first) < 8 and len(last) < 8 and len(ranks) < _MOST_RANKS:
            ranks += range(int(first), min(int(last or first), int(first) + _MOST_RANKS) + 1)
    return tuple(ranks[:_MOST_RANKS])


def log_names(names_in: Callable[[str], list[str]]) -> list[str]:
    """The names in the folder of an attempt, and in the folders in it that hold further logs, relative to it.

    `names_in`: lists a folder below that of the attempt, as `Beneath.names` does.
    """
    names = names_in("")
    further = [f"{folder}/{name}" for folder in names if _FOLDER.fullmatch(folder) for name in names_in(folder)]
    return [name for name in names if not _FOLDER.fullmatch(name)] + further


def by_rank(names: Iterable[str]) -> dict[int, str]:
    """Rank -> name of the file with its log, ordered by rank. A file of its own counts more than a shared one."""
    name_of: dict[int, str] = {}
    for name in sorted(names, key=lambda name: node_of(name) is None):
        if len(name_of) < _ALL_RANKS:
            name_of.update(dict.fromkeys(ranks_of(name), name))
    return dict(sorted(name_of.items()))


def mark_of(path: str, rank: int) -> bytes:
    """What the lines of a rank begin with in a file; empty in a file of its own."""
    return b"%d: " % rank if node_of(path) is not None else b""


def divided(line: bytes) -> tuple[int | None, bytes]:
    """The rank and the text of a line in a shared file; None for a line without a mark."""
    mark, colon, text = line.partition(b": ")
    return (int(mark), text) if colon and len(mark) < 8 and mark.isdigit() else (None, line)


def of_ranks(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(rank, its lines) of a part of a shared file, whose first line may be cut."""
    lines: dict[int, list[bytes]] = {}
    for line in data.split(b"\n"):
        rank, text = divided(line)
        if rank is not None:
            lines.setdefault(rank, []).append(text)
    for rank, own in lines.items():
        yield rank, b"\n".join(own) + b"\n"


def text_lines(kind: str, node: str, text: str) -> str:
    """The lines that carry a text of a node. `kind`: one word."""
    packed = binascii.b2a_base64(zlib.compress(text.encode("utf-8", "surrogateescape")), newline=False).decode("ascii")
    parts = [packed[start : start + WIDTH] for start in range(0, len(packed), WIDTH)]
    return "".join(f"[{kind} {node} {number}/{len(parts)}] {part}\n" for number, part in enumerate(parts, 1))


def node_texts(
    stream: Iterable[bytes], kinds: Collection[str], nodes: Collection[str] | None = None
) -> Iterator[tuple[str, str, str]]:
    """(kind, node, text) of each text that is whole, in the order of their ends. A node may print one again.

    `stream`: the lines of the file. `nodes`: those that are wanted; None is all.
    """
    begun: dict[tuple[str, str], list[bytes]] = {}
    for line in stream:
        if len(line) > 2 * WIDTH:
            continue
        match = _TEXT_LINE.fullmatch(line)
        if not match:
            continue
        kind, node = match[1].decode("ascii", "replace"), match[2].decode("utf-8", "replace")
        if kind not in kinds or (nodes is not None and node not in nodes):
            continue
        number, count = int(match[3]), int(match[4])
        if number == 1:
            begun[kind, node] = []
        parts = begun.get((kind, node))
        if parts is None or number != len(parts) + 1:
            begun.pop((kind, node), None)
            continue
        if len(parts) * WIDTH > MOST_BYTES or len(begun) > _MOST_NODES:
            begun.pop((kind, node), None)
            continue
        parts.append(match[5])
        if number == count:
            text = _unpacked(b"".join(begun.pop((kind, node))))
            if text is not None:
                yield kind, node, text


def _unpacked(packed: bytes) -> str | None:
    try:
        return zlib.decompressobj().decompress(binascii.a2b_base64(packed), MOST_BYTES).decode("utf-8", "replace")
    except (zlib.error, binascii.Error, ValueError):
        return None
