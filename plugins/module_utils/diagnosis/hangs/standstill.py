# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rank of a stalled job the others wait for, from the stacks of all ranks (runtime/rank/stacks.py). Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.hangs.collectives import Parting, parting
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.hangs.flight_recorder import (
    Group,
    collectives_of,
)

# The ranks that a sentence names, and the longest name that it shows, in characters.
NAMED, WIDTH = 4, 100
# The longest path that is read. faulthandler writes 500 characters of one. What a frame does is told by the end of its
# path, and an environment has a long one: nothing is cut before it is compared.
PATH = 1000
# A node swaps from this many pages a second read back on, and a process is hit if so much of it (KiB) is swapped out.
SWAPPING, SWAPPED_KB = 50, 10_000
# From this part of a CPU on, a process computes.
BUSY, COMPUTES = 0.5, "computes"
# No rank waits for another.
WORK = "work"
# The states of a process that has ended.
ENDED = ("Z", "X")
_THREAD = re.compile(r"^(Current thread|Thread) .*$", re.MULTILINE)
_FRAME = re.compile(r'^ +(?:File "(?P<file>[^"\n]+)", line (?P<line>\d{1,9}) in (?P<name>\S+)'
                    r"|(?P<name2>\S.*) \((?P<file2>[^()\n]+):(?P<line2>\d{1,9})\))$", re.MULTILINE)  # fmt: skip
# The functions of torch in which a rank waits for the others to come.
_MEETING = ("init_process_group", "new_group", "split_group")
# Files of torch whose innermost function waits for the others, whatever its name: DDP and FSDP call C++ from there.
_DISTRIBUTED = re.compile(r"torch/(?:distributed/(?!checkpoint/|elastic/)|nn/parallel/distributed\.py$)")
# The functions of torch in which a rank waits for the others.
_COLLECTIVES = re.compile(r"torch/distributed/(?:distributed_c10d|_functional_collectives|nn/functional)\.py$")
_OPERATION = re.compile(
    r"_?(all_reduce|all_gather\w*|all_to_all\w*|reduce_scatter\w*|reduce|broadcast\w*|gather\w*|scatter\w*|"
    r"(?:monitored_)?barrier|send|recv|isend|irecv|batch_isend_irecv)"
)
# In the backward pass of DistributedDataParallel and FSDP, gradients are reduced below this function.
_BACKWARD = ("torch/autograd/graph.py", "_engine_run_backward")
_IMPORT = "<frozen importlib"
# The functions of a program that evaluate or save, by a word of their name: the others may wait for these for long.
_EVALUATES = re.compile(
    r"(?:\A|_)(?:eval|evaluat\w*|val|valid|validat\w*|test|predict\w*|generat\w*|save\w*|checkpoint\w*|ckpt)(?:_|\Z)"
)
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

    `state`: the letter of ps(1); `waits_in`: the function of the kernel; `cpu`: the part of a CPU that it uses;
    `recent`: the newest collectives of its process groups, where a flight recorder is on; `swaps`: a part of it is
    swapped out, and its node reads such memory back.
    """

    rank: int
    node: str
    state: str = "S"
    waits_in: str = ""
    cpu: float = 0.0
    frames: tuple[Frame, ...] = ()
    recent: tuple[Group, ...] = ()
    swaps: bool = False

    @property
    def active(self) -> Group | None:
        """The newest collective that it has begun and not ended."""
        return max((group for group in self.recent if group.active), key=lambda group: group.sequence, default=None)

    @property
    def label(self) -> str:
        """The operation for people, with its number where the flight recorder knows it, such as `all_reduce #812`."""
        active, name = self.active, self.operation
        same = active is not None and (active.operation.startswith(name) or name == "backward")
        return f"{name} #{active.sequence}" if active is not None and name and same else name

    @property
    def operation(self) -> str:
        """The operation in which it waits for other ranks, such as all_reduce; empty if in none."""
        called = [frame.name for frame in self.frames if _COLLECTIVES.search(frame.file)]
        meeting = next((name for name in called if name in _MEETING), "")
        match = next(filter(None, map(_OPERATION.fullmatch, called)), None)
        if meeting or match:
            return meeting or match[1]  # type: ignore[index]  # one of both is there
        if self.cpu >= BUSY or not self.frames:
            return ""
        if any(frame.file.endswith(_BACKWARD[0]) and frame.name == _BACKWARD[1] for frame in self.frames):
            return "backward"
        inner, active = self.frames[0], self.active
        if _DISTRIBUTED.search(inner.file):
            return inner.name
        # `wait()` of a collective that was begun before is in C++, below a line of the program.
        waits = active is not None and "futex" in self.waits_in and not _LIBRARY.search(inner.file)
        return active.operation if active is not None and waits else ""

    @property
    def place(self) -> str:
        """The innermost line of the program itself, as `file.py:42, in function`; empty where it is not known."""
        own = next((frame for frame in self.frames if not _LIBRARY.search(frame.file)), None)
        frame = own or next(iter(self.frames), None)
        if frame is None:
            return ""
        file = frame.file if len(frame.file) <= WIDTH else f"...{frame.file[3 - WIDTH :]}"
        return printable(f"{file}:{frame.line}, in {frame.name}", 3 * WIDTH)

    @property
    def evaluates(self) -> bool:
        """Whether it evaluates or saves, by the names of its functions, and is neither stopped nor blocked."""
        own = [frame.name.lower() for frame in self.frames if not _LIBRARY.search(frame.file)]
        return self.state not in ("T", "t", "D") and any(map(_EVALUATES.search, own))

    @property
    def imports(self) -> tuple[Frame, ...]:
        """Its stack, if it imports a module."""
        return self.frames if any(frame.file.startswith(_IMPORT) for frame in self.frames) else ()

    @property
    def activity(self) -> str:
        """What it does instead of waiting for the others, in words."""
        if self.state in ("T", "t"):
            return "is stopped by a signal or a debugger"
        if self.swaps:
            return "waits for memory that its node has swapped out"
        if self.state == "D":
            return "waits for a disk or a network file system"
        # On a node that is short of CPUs a process that wants to run may get little of one.
        if self.cpu >= BUSY or self.state == "R":
            return COMPUTES
        waits = {"futex": "waits for a lock or another thread", "nanosleep": "sleeps"}
        return next((words for word, words in waits.items() if word in self.waits_in), "waits")


@dataclass(frozen=True)
class Verdict:
    """`kind`: behind, gone, mismatch, alone, same, work, or slow (stragglers.py).

    `ranks`: those that hold the others up; empty if all wait in the same place, or if none waits for another (work).
    `frozen`: several looks have shown that they do nothing at all.
    """

    kind: str
    ranks: tuple[RankState, ...]
    message: str
    frozen: bool = False

    @property
    def at_work(self) -> bool:
        """Whether this may be an evaluation or a checkpoint: no rank waits for another, or for one that does so."""
        working = self.kind == WORK or (self.kind == "behind" and all(rank.evaluates for rank in self.ranks))
        return working and not self.frozen

    @property
    def remedy(self) -> str:
        """What to do about it, in a sentence."""
        nodes = ", ".join(sorted({rank.node for rank in self.ranks[:NAMED] if rank.node}))
        if self.kind in ("mismatch", "alone"):
            return "Let all ranks call the same collectives in the same order: equal batches, no branch by rank."
        if self.kind == "slow":
            again = f" `resources.exclude: [{nodes}]` shows whether it is the node." if nodes else ""
            return f"Look at that line and at the load, memory and clock of its node.{again}"
        if self.kind == WORK:
            return "Look at that line: an evaluation or a checkpoint may take long."
        if self.kind == "same":
            return "Measure the network between the nodes: playbook `rankzero.slurm.fabric`."
        again = f" If it happens again on {nodes}: `resources.exclude: [{nodes}]`." if nodes else ""
        return f"Look at the line that is named; the other ranks are not at fault.{again}"

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
        return {
            "kind": self.kind,
            "ranks": rows,
            "message": self.message,
            "remedy": self.remedy,
            "at_work": self.at_work,
        }


def main_thread(text: str) -> tuple[Frame, ...]:
    """The frames of the main thread of a dump by faulthandler or py-spy."""
    heads = list(_THREAD.finditer(text))
    if not heads:
        return ()
    # faulthandler writes the main thread last. Where it is cut off, the thread that took the signal is the best guess:
    # the kernel gives it to another one only while the main thread waits for a disk.
    whole = text.endswith("\n") and "\n...\n" not in text
    sought = '"MainThread"' if whole or '"MainThread"' in text else "Current thread"
    chosen = next((head for head in heads if sought in head[0]), heads[-1])
    after = [head.start() for head in heads if head.start() > chosen.start()]
    block = text[chosen.end() : after[0] if after else len(text)]
    return tuple(
        Frame(
            printable(match["file"] or match["file2"], PATH),
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
            pages = document.get("swapped_in")
            swapping = isinstance(pages, (int, float)) and pages >= SWAPPING
            state = _state_of(row, str(document.get("node", "")), swapping=swapping)
            if state is None:
                continue
            known = chosen.get(state.rank)
            stopped = known is not None and known.state in ("T", "t")
            if known is None or (not stopped and _weight(state) > _weight(known)):
                chosen[state.rank] = state
    return [chosen[rank] for rank in sorted(chosen)]


def _weight(state: RankState) -> int:
    return 2 if state.operation or state.state in ("T", "t") else 1 if state.frames else 0


def _state_of(row: object, node: str, *, swapping: bool) -> RankState | None:
    if not isinstance(row, dict) or not isinstance(row.get("rank"), int):
        return None
    cpu, swapped = row.get("cpu"), row.get("swap_kb")
    return RankState(
        row["rank"],
        printable(node, WIDTH),
        str(row.get("state", ""))[:1],
        printable(str(row.get("waits_in", "")), WIDTH),
        float(cpu) if isinstance(cpu, (int, float)) else 0.0,
        main_thread(str(row.get("stack", ""))),
        collectives_of(row.get("trace")),
        swapping and isinstance(swapped, int) and swapped >= SWAPPED_KB,
    )


def same(before: Sequence[RankState], now: Sequence[RankState]) -> bool:
    """Whether all ranks wait where they waited, none has called another collective, and none waits that did not. A rank
    that imports modules, as a program does when it starts, is where it was if it imports the same.
    """
    looks = [
        [
            (rank.rank, rank.operation, rank.place if rank.operation else rank.imports, rank.recent[-1:])
            for rank in states
        ]
        for states in (before, now)
    ]
    return bool(before) and looks[0] == looks[1]


def verdict(
    states: Sequence[RankState], world: int | None = None, silent: Sequence[str] = (), network: Sequence[str] = ()
) -> Verdict | None:
    """Which ranks the others wait for; None where too few ranks are known to wait in an operation.

    `world`: the number of ranks of the job; `silent`: nodes that did not answer; `network`: the nodes in whose
    connections data waits (links.py).
    """
    stopped = [rank for rank in states if rank.state in ("T", "t")]
    waiting = [rank for rank in states if rank.operation and rank not in stopped]
    # A rank that waits for a disk cannot write its stack.
    others = stopped or [rank for rank in states if rank not in waiting and (rank.frames or rank.state == "D")]
    if others and (stopped or len(others) <= len(waiting)):
        return Verdict("behind", tuple(others), f"{_named(others)}; {_waiting(waiting)}")
    missing = _missing(states, world)
    if others and missing and not waiting:
        return Verdict("behind", tuple(others), f"{_named(others)}; no process is seen of {_counted(missing)}")
    if missing and waiting and len(missing) <= len(waiting):
        where = f"{', '.join(silent[:NAMED])} does not answer" if silent else "it has ended or was killed"
        names = ", ".join(str(rank.rank) for rank in missing[:NAMED])
        subject = f"ranks {names} have" if len(missing) > 1 else f"rank {names} has"
        text = f"{subject} no process: {where}; {_waiting(waiting)}"
        return Verdict("gone", tuple(missing), text)
    if missing and waiting and not others and not silent:
        return Verdict("alone", tuple(waiting), f"{_named(waiting)}; no process is seen of {_counted(missing)}")
    if len(waiting) == 1 and not missing and all(rank.activity == COMPUTES for rank in others):
        place = Counter(rank.place for rank in others).most_common(1)[0][0]
        compute = f"{_counted(others)} {'compute' if len(others) > 1 else COMPUTES}"
        return Verdict("alone", tuple(waiting), f"{_named(waiting, alone=True)}; {compute} ({place})")
    known = len(others) == len(states) and all(rank.state != "D" for rank in states)
    if not waiting and not missing and world and known:
        (activity, place), count = Counter((rank.activity, rank.place) for rank in others).most_common(1)[0]
        text = f"no rank waits for another: {count} of {len(others)}: {activity} ({place})"
        return Verdict(WORK, (), text)
    if len(waiting) < 2 or len(waiting) < len(states):
        return None
    parted = parting({rank.rank: rank.recent for rank in waiting if rank.recent})
    # A slow link may hold a collective up that others have left.
    if parted is not None and not (network and parted.counted and abs(parted.more) == 1):
        return Verdict("mismatch", tuple(rank for rank in waiting if rank.rank in parted.odd), _apart(parted, waiting))
    groups = Counter((rank.operation, rank.place) for rank in waiting)
    usual, count = groups.most_common(1)[0]
    if len(groups) > 1:
        odd = [rank for rank in waiting if (rank.operation, rank.place) != usual]
        text = (
            f"the ranks wait in different operations: {_named(odd)}, but {count} in {usual[0]} ({usual[1]}). They left "
            "a loop after different numbers of batches, or took different branches"
        )
        return Verdict("mismatch", tuple(odd), text)
    suspect = f"{', '.join(network[:NAMED])}, whose connections have unsent data" if network else "the network"
    text = f"all {count} ranks wait in {waiting[0].label} ({usual[1]}): suspect {suspect}"
    return Verdict("same", (), text + ("" if network else " between their nodes"))


def _missing(states: Sequence[RankState], world: int | None) -> list[RankState]:
    """The ranks of the job of which no node has a process."""
    known = {rank.rank for rank in states if rank.state not in ENDED}
    return [RankState(number, "", "X") for number in range(min(world or 0, 1_000_000)) if number not in known]


def _apart(parted: Parting, states: Sequence[RankState]) -> str:
    """How collectives differ, in words: what the odd ranks called, and what the others called in its place."""
    node = {rank.rank: rank.node for rank in states}
    rows = [f"rank {rank} on {node[rank]} called {_called(parted.calls[rank])}" for rank in parted.odd[:NAMED]]
    rows += [f"and {len(parted.odd) - NAMED} more"] if len(parted.odd) > NAMED else []
    others = Counter(_called(group) for rank, group in parted.calls.items() if rank not in parted.odd)
    usual, count = others.most_common(1)[0]
    more = f", and {abs(parted.more)} {'more' if parted.more > 0 else 'fewer'} by now" if parted.more else ""
    text = f"{'; '.join(rows)}{'' if parted.counted else more}, where {count} other{'s' if count > 1 else ''} called"
    return f"the ranks call different collectives: {text} {usual}"


def _called(group: Group) -> str:
    words = f"{group.operation} #{group.sequence} {group.shape}".rstrip()
    return words + (f" ({group.place})" if group.place else "")


def _named(states: Sequence[RankState], *, alone: bool = False) -> str:
    waits = f"waits {'alone ' if alone else ''}in"
    words = [
        f"rank {rank.rank} on {rank.node} {f'{waits} {rank.label}' if rank.operation else rank.activity}"
        + (f" ({rank.place})" if rank.place else "")
        for rank in states[:NAMED]
    ]
    more = len(states) - NAMED
    return "; ".join(words) + (f"; and {more} more" if more > 0 else "")


def _counted(states: Sequence[RankState]) -> str:
    return f"{len(states)} other rank{'s' if len(states) > 1 else ''}"


def _waiting(states: Sequence[RankState]) -> str:
    if not states:
        return "nothing is known of the others"
    usual, count = Counter((rank.label, rank.place) for rank in states).most_common(1)[0]
    return f"{count} other rank{'s wait' if count > 1 else ' waits'} in {usual[0]} ({usual[1]})"
