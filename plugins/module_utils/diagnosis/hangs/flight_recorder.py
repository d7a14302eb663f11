# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What torch's flight recorder says of the collectives of a rank: its dump as JSON, or as the pickle that NCCL writes.

A dump is data of the program, and a pickle may contain any program: it is never unpickled. `plain` knows only the
opcodes that make numbers, texts, lists, tuples and dictionaries, and refuses all others. Pure.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable

# Limits of a dump: its size in bytes, its opcodes, the digits of a number in bytes. A recorder of 512 collectives
# writes less than a tenth of it.
MOST_BYTES, MOST_OPCODES, NUMBER_BYTES = 4_000_000, 1_000_000, 16
# The process groups of a rank that are kept, the newest collectives of each, and the longest name.
GROUPS, RECENT, WIDTH = 64, 64, 60
_PUSHED = frozenset({"BINUNICODE", "SHORT_BINUNICODE", "BININT", "BININT1", "BININT2", "BINFLOAT", "LONG1"})
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_MADE: dict[str, Callable[[], object]] = {"EMPTY_LIST": list, "EMPTY_DICT": dict}
_MARK = object()


class Refused(ValueError):
    """A dump that is not plain data, or is too large."""


@dataclass(frozen=True)
class Group:
    """One collective of a process group of a rank.

    `name`: the group's number; `sequence`: the collective's number in the group; `operation`: such as all_reduce;
    `shape`: the sizes of its tensors, and their type; `active`: whether it has not ended; `place`: the program's line,
    if recorded.
    """

    name: str
    sequence: int
    operation: str
    shape: str = ""
    active: bool = False
    place: str = ""


def plain(dump: bytes) -> object:
    """The value of a pickle of plain data. Raises `Refused` where it holds anything else."""
    if len(dump) > MOST_BYTES:
        raise Refused(f"larger than {MOST_BYTES} bytes")
    machine = _Machine()
    try:
        for count, (opcode, argument, _position) in enumerate(pickletools.genops(io.BytesIO(dump))):
            if count > MOST_OPCODES:
                raise Refused(f"more than {MOST_OPCODES} opcodes")
            if opcode.name == "STOP":
                return machine.pop()
            machine.step(opcode.name, argument)
    except Refused:
        raise
    # A damaged or hostile dump: an empty stack, a list as a key, a text that is no UTF-8, an unknown memo.
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, MemoryError) as error:
        raise Refused(f"not readable: {type(error).__name__}") from error
    raise Refused("incomplete")


class _Machine:
    """The stack of the opcodes that make plain data."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is _MARK:
            raise Refused("a mark in the place of a value")
        return value

    def since_mark(self) -> list[Any]:
        """Take all values above the newest mark, and the mark."""
        place = len(self.stack) - 1
        while self.stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise Refused("no mark")
        values = self.stack[place + 1 :]
        del self.stack[place:]
        return values

    def step(self, name: str, argument: Any) -> None:
        """Carry out one opcode."""
        if name in _PUSHED:
            if name == "LONG1" and abs(argument) >> (8 * NUMBER_BYTES):
                raise Refused("a number of too many digits")
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _MADE:
            self.stack.append(_MADE[name]())
        elif name == "MARK":
            self.stack.append(_MARK)
        elif name in _TUPLES:
            values = [self.pop() for _value in range(_TUPLES[name])]
            self.stack.append(tuple(reversed(values)))
        elif name == "TUPLE":
            self.stack.append(tuple(self.since_mark()))
        elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self.memo[len(self.memo) if name == "MEMOIZE" else argument] = self.stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[argument])
        elif name in ("APPEND", "APPENDS", "SETITEM", "SETITEMS"):
            self._fill(name)
        elif name not in ("PROTO", "FRAME"):
            raise Refused(f"the opcode {name} is not for plain data")

    def _fill(self, name: str) -> None:
        """Put values into the list or dictionary below them."""
        if name == "APPEND":
            values = [self.pop()]
        elif name == "SETITEM":
            values = [self.pop(), self.pop()][::-1]
        else:
            values = self.since_mark()
        target = self.stack[-1]
        if name.startswith("APPEND") and isinstance(target, list):
            target.extend(values)
        elif name.startswith("SETITEM") and isinstance(target, dict) and len(values) % 2 == 0:
            target.update(zip(values[::2], values[1::2]))
        else:
            raise Refused(f"{name} into another kind of value")


def collectives_of(document: object) -> tuple[Group, ...]:
    """The newest collectives of each process group in a dump, in their order. Values of another type than expected are
    skipped.
    """
    entries = document.get("entries") if isinstance(document, Mapping) else None
    newest: dict[str, dict[int, Group]] = {}
    for entry in entries if isinstance(entries, list) else []:
        group = _group_of(entry) if isinstance(entry, Mapping) else None
        if group is None or (group.name not in newest and len(newest) >= GROUPS):
            continue
        kept = newest.setdefault(group.name, {})
        kept[group.sequence] = group
        if len(kept) > RECENT:
            del kept[min(kept)]
    return tuple(newest[name][number] for name in sorted(newest) for number in sorted(newest[name]))


def _group_of(entry: Mapping[Any, object]) -> Group | None:
    # Point-to-point operations have numbers of their own for each pair of ranks, which cannot be compared.
    name, sequence = entry.get("process_group"), _integer(entry.get("collective_seq_id"))
    if not isinstance(name, (list, tuple)) or not name or sequence is None or entry.get("is_p2p") is True:
        return None
    operation = str(entry.get("profiling_name"))[: 2 * WIDTH].rpartition(":")[2]
    sizes = entry.get("input_sizes")
    shape = str(sizes)[:WIDTH] if _is_shape(sizes) else ""
    types = entry.get("input_dtypes")
    if shape and isinstance(types, (list, tuple)) and types and isinstance(types[0], str):
        shape = printable(f"{shape} {types[0][:WIDTH]}", 2 * WIDTH)
    # Gloo does not write the end of an operation into `state`, but into `retired`.
    active = entry.get("retired") is not True and entry.get("state") != "completed"
    frames, place = entry.get("frames"), entry.get("place")
    if isinstance(frames, (list, tuple)):
        place = _place(frames)
    return Group(
        printable(str(name[0])[:WIDTH], WIDTH), sequence, printable(operation, WIDTH), shape, active,
        printable(place, 3 * WIDTH) if isinstance(place, str) else "",
    )  # fmt: skip


def _integer(value: object) -> int | None:
    """A whole number; None for a value of another type. Python counts a bool among the numbers."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _is_shape(sizes: object) -> bool:
    """Whether a value is a list of a few lists of a few numbers. A list may contain itself."""
    return (
        isinstance(sizes, (list, tuple)) and len(sizes) <= 8
        and all(isinstance(size, (list, tuple)) and len(size) <= 8 for size in sizes)
        and all(_integer(number) is not None for size in sizes for number in size)
    )  # fmt: skip


def _place(frames: list[Any] | tuple[Any, ...]) -> str:
    """The innermost line of the program itself."""
    for frame in frames[:200]:
        file = frame.get("filename") if isinstance(frame, Mapping) else None
        if not isinstance(file, str) or _integer(frame.get("line")) is None:
            continue
        if "/site-packages/" not in file and "/dist-packages/" not in file and "/lib/python3" not in file:
            return printable(f"{file[-WIDTH:]}:{frame['line']}, in {str(frame.get('name'))[:WIDTH]}", 3 * WIDTH)
    return ""
