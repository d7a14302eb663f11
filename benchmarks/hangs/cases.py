# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is provoked: launches of four ranks, and the cases that each of them plays one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

#: Kind -> (what is provoked, the function of train.py that a right verdict names; "" where it names something else;
#: the words that give the reason).
KINDS = {
    "before": ("a rank that never comes to init_process_group", "before_all", "sleeps"),
    "first": ("a first batch that blocks", "first_batch", "sleeps"),
    "sleep": ("a sleep between two steps", "in_sleep", "sleeps"),
    "lock": ("a deadlock of two threads", "in_lock", "waits for a lock or another thread"),
    "pipe": ("a read from a pipe that nobody writes to", "in_pipe", "waits"),
    "disk": ("a process in state D, as on a dead mount", "", "waits for a disk or a network file system"),
    "loop": ("a busy loop", "in_loop", "computes"),
    "stop": ("a stopped process (SIGSTOP)", "", "is stopped"),
    "loader": ("a DataLoader worker that hangs", "in_loader", "waits"),
    "node": ("all ranks of a node compute for long", "in_loop", "compute"),
    "mismatch": ("another collective", "", "different"),
    "batches": ("fewer batches, then a barrier", "", "different"),
    "link": ("a slow link of a node", "", "unsent data"),
    "gone": ("a node without power", "", "does not answer"),
    "slow": ("a rank that makes each step late", "late_data", "sleeps"),
    "after": (
        "a rank that waits for its uploader after the last step",
        "after_all",
        "waits for a lock or another thread",
    ),
}
#: How the ranks of a launch work together in a step.
WAYS = ("direct", "ddp", "fsdp", "pipeline")


@dataclass(frozen=True)
class Case:
    """`ranks`: those that are at fault; `factor`: how many times as long a step takes with a slow one."""

    kind: str
    ranks: tuple[int, ...]
    factor: float = 1.0


@dataclass(frozen=True)
class Launch:
    """A launch of four ranks on `nodes` nodes, rank after rank. `times`: whether its lines give the time of a step."""

    nodes: int
    how: str
    times: bool
    cases: tuple[Case, ...]

    def node_of(self, rank: int, names: Sequence[str]) -> str:
        return names[rank * self.nodes // 4]

    def document(self) -> dict[str, object]:
        """The launch as the program reads it."""
        return {"how": self.how, "times": self.times, "cases": [asdict(case) for case in self.cases]}


def _case(word: str) -> Case:
    kind, ranks, factor = (*word.split(":"), "1")[:3]
    return Case(kind, tuple(int(digit) for digit in ranks), float(factor))


def _launch(how: str, text: str, nodes: int = 2, *, times: bool = False) -> Launch:
    """`text`: KIND and the digits of its ranks, and the factor of a slow one, for each case."""
    return Launch(nodes, how, times, tuple(map(_case, text.split())))


#: `before` and `first` are the first cases of a launch. What the program cannot leave at once is its last: `after`, a
#: wrong collective, a node without power. Few each: a launch that breaks takes no more with it, and ends soon.
LAUNCHES = (
    _launch("ddp", "before:1 first:2 sleep:3"),
    _launch("ddp", "loop:0 lock:1 batches:2"),
    _launch("direct", "before:3 loader:2 pipe:0", times=True),
    _launch("direct", "stop:1 after:0", times=True),
    _launch("fsdp", "first:3 lock:2 node:23"),
    _launch("fsdp", "loop:1 sleep:0 after:2"),
    _launch("pipeline", "first:1 pipe:3", times=True),
    _launch("pipeline", "sleep:1 loader:2 after:3", times=True),
    _launch("direct", "disk:3 loop:2 mismatch:0", times=True),
    _launch("direct", "gone:23", times=True),
    _launch("ddp", "after:1"),
    _launch("direct", "sleep:3 link:2 link:1 batches:3", nodes=4),
    _launch("direct", "gone:3", nodes=4),
    _launch("ddp", "slow:2:1.5"),
    _launch("ddp", "slow:0:4"),
    _launch("direct", "slow:3:1.5", times=True),
    _launch("direct", "slow:1:8", times=True),
    _launch("fsdp", "slow:2:2"),
    _launch("pipeline", "slow:3:3"),
)
