# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rank of a stalled job the others wait for, from the stacks of all ranks (runtime/rank/stacks.py). Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable

# The ranks that a sentence names, and the longest name of a file, in characters.
NAMED, WIDTH = 4, 100
# From this part of a CPU on, a process computes.
BUSY = 0.5
_THREAD = re.compile(r"^(Current thread|Thread) .*$", re.MULTILINE)
_FRAME = re.compile(r'^ +(?:File "(?P<file>[^"\n]+)", line (?P<line>\d+) in (?P<name>\S+)'
                    r"|(?P<name2>\S.*) \((?P<file2>[^()\n]+):(?P<line2>\d+)\))$", re.MULTILINE)  # fmt: skip
# The functions of torch in which a rank waits for the others.
_COLLECTIVES = re.compile(r"torch/distributed/(?:distributed_c10d|_functional_collectives|nn/functional)\.py$")
_OPERATION = re.compile(
    r"_?(all_reduce|all_gather\w*|all_to_all\w*|reduce_scatter\w*|reduce|broadcast\w*|gather\w*|scatter\w*|"
    r"(?:monitored_)?barrier|send|recv|isend|irecv|batch_isend_irecv)"
)
# In the backward pass of DistributedDataParallel and FSDP, gradients are reduced below this function.
_BACKWARD = ("torch/autograd/graph.py", "_engine_run_backward")
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python3[^/]*/|^<")


@dataclass(frozen=True)
class Frame:
    """One function of a stack."""

    file: str
    line: int
    name: str


@dataclass(frozen=True)
class RankState:
    """What a rank does. `frames`: its main thread, the innermost function first; empty where it is not known.

    `state`: the letter of ps(1); `waits_in`: the function of the kernel; `cpu`: the part of a CPU that it uses.
    """

    rank: int
    node: str
    state: str = "S"
    waits_in: str = ""
    cpu: float = 0.0
    frames: tuple[Frame, ...] = ()

    @property
    def operation(self) -> str:
        """The operation in which it waits for other ranks, such as all_reduce; empty if in none."""
        for frame in self.frames:
            match = _OPERATION.fullmatch(frame.name)
            if match and _COLLECTIVES.search(frame.file):
                return match[1]
        backward = any(frame.file.endswith(_BACKWARD[0]) and frame.name == _BACKWARD[1] for frame in self.frames)
        return "backward" if backward and self.cpu < BUSY else ""

    @property
    def place(self) -> str:
        """The innermost line of the program itself, as `file.py:42, in function`; empty where it is not known."""
        own = next((frame for frame in self.frames if not _LIBRARY.search(frame.file)), None)
        frame = own or next(iter(self.frames), None)
        return printable(f"{frame.file}:{frame.line}, in {frame.name}", 2 * WIDTH) if frame else ""

    @property
    def activity(self) -> str:
        """What it does instead of waiting for the others, in words."""
        if self.state in ("T", "t"):
            return "is stopped by a signal or a debugger"
        if self.state == "D":
            return "waits for a disk or a network file system"
        if self.cpu >= BUSY:
            return "computes"
        waits = {"futex": "waits for a lock or another thread", "nanosleep": "sleeps"}
        return next((words for word, words in waits.items() if word in self.waits_in), "waits")


@dataclass(frozen=True)
class Verdict:
    """`kind`: behind, mismatch or same. `ranks`: those that hold the others up; empty if all wait in the same place."""

    kind: str
    ranks: tuple[RankState, ...]
    message: str

    def as_dict(self) -> JsonObject:
        """As modules return it."""
        rows = [
            {
                "rank": rank.rank,
                "node": rank.node,
                "place": rank.place,
                "operation": rank.operation,
                "state": rank.state,
            }
            for rank in self.ranks
        ]
        return {"kind": self.kind, "ranks": rows, "message": self.message}


def main_thread(text: str) -> tuple[Frame, ...]:
    """The frames of the main thread of a dump by faulthandler or py-spy."""
    heads = list(_THREAD.finditer(text))
    if not heads:
        return ()
    chosen = next((head for head in heads if head[1] == "Current thread" or '"MainThread"' in head[0]), heads[-1])
    after = [head.start() for head in heads if head.start() > chosen.start()]
    block = text[chosen.end() : after[0] if after else len(text)]
    return tuple(
        Frame(
            printable(match["file"] or match["file2"], WIDTH),
            int(match["line"] or match["line2"]),
            printable(match["name"] or match["name2"], WIDTH),
        )
        for match in _FRAME.finditer(block)
    )


def states_of(documents: Sequence[Mapping[str, object]]) -> list[RankState]:
    """One state for each rank of all nodes. Of several processes of a rank, one that waits for others, else the one
    with a stack that started first, counts. Values of another type than expected are skipped.
    """
    chosen: dict[int, RankState] = {}
    for document in documents:
        processes = document.get("processes")
        for row in processes if isinstance(processes, list) else []:
            state = _state_of(row, str(document.get("node", "")))
            if state is None:
                continue
            known = chosen.get(state.rank)
            stopped = known is not None and known.state in ("T", "t")
            if known is None or (not stopped and _weight(state) > _weight(known)):
                chosen[state.rank] = state
    return [chosen[rank] for rank in sorted(chosen)]


def _weight(state: RankState) -> int:
    return 2 if state.operation or state.state in ("T", "t") else 1 if state.frames else 0


def _state_of(row: object, node: str) -> RankState | None:
    if not isinstance(row, dict) or not isinstance(row.get("rank"), int):
        return None
    cpu = row.get("cpu")
    return RankState(
        row["rank"],
        printable(node, WIDTH),
        str(row.get("state", ""))[:1],
        printable(str(row.get("waits_in", "")), WIDTH),
        float(cpu) if isinstance(cpu, (int, float)) else 0.0,
        main_thread(str(row.get("stack", ""))),
    )


def verdict(states: Sequence[RankState]) -> Verdict | None:
    """Which ranks the others wait for; None where too few ranks are known to wait in an operation."""
    stopped = [rank for rank in states if rank.state in ("T", "t")]
    waiting = [rank for rank in states if rank.operation and rank not in stopped]
    others = stopped or [rank for rank in states if rank not in waiting and rank.frames]
    if others and (stopped or len(others) <= len(waiting)):
        return Verdict("behind", tuple(others), f"{_named(others)}; {_waiting(waiting)}")
    if len(waiting) < 2 or len(waiting) < len(states):
        return None
    groups = Counter((rank.operation, rank.place) for rank in waiting)
    usual, count = groups.most_common(1)[0]
    if len(groups) == 1:
        text = f"all {count} ranks wait in {usual[0]} ({usual[1]}): suspect the network between their nodes"
        return Verdict("same", (), text)
    odd = [rank for rank in waiting if (rank.operation, rank.place) != usual]
    text = (
        f"the ranks wait in different operations: {_named(odd)}, but {count} in {usual[0]} ({usual[1]}). They left "
        "a loop after different numbers of batches, or took different branches"
    )
    return Verdict("mismatch", tuple(odd), text)


def _named(states: Sequence[RankState]) -> str:
    words = [
        f"rank {rank.rank} on {rank.node} {f'waits in {rank.operation}' if rank.operation else rank.activity}"
        + (f" ({rank.place})" if rank.place else "")
        for rank in states[:NAMED]
    ]
    more = len(states) - NAMED
    return "; ".join(words) + (f"; and {more} more" if more > 0 else "")


def _waiting(states: Sequence[RankState]) -> str:
    if not states:
        return "nothing is known of the others"
    usual, count = Counter((rank.operation, rank.place) for rank in states).most_common(1)[0]
    return f"{count} other rank{'s wait' if count > 1 else ' waits'} in {usual[0]} ({usual[1]})"
