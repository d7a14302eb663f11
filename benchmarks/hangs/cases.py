# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is provoked: launches of four ranks, and the cases that each of them plays one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

#: Kind -> (what is provoked, the kind of verdict that is right).
KINDS = {
    "sleep": ("a sleep between two steps", "behind"),
    "lock": ("a deadlock of two threads", "behind"),
    "pipe": ("a read from a pipe that nobody writes to", "behind"),
    "disk": ("a process in state D, as on a dead mount", "behind"),
    "loop": ("a busy loop", "behind"),
    "stop": ("a stopped process (SIGSTOP)", "behind"),
    "loader": ("a DataLoader worker that hangs", "behind"),
    "node": ("all ranks of a node compute for long", "behind"),
    "mismatch": ("another collective", "mismatch"),
    "batches": ("fewer batches, then a barrier", "mismatch"),
    "link": ("a slow link of a node", "same"),
    "gone": ("a node without power", "gone"),
    "slow": ("a rank that makes each step late", "slow"),
}


@dataclass(frozen=True)
class Case:
    """`ranks`: those that are at fault."""

    kind: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Launch:
    """A launch of four ranks on `nodes` nodes, rank after rank."""

    nodes: int
    cases: tuple[Case, ...]

    def node_of(self, rank: int, names: Sequence[str]) -> str:
        return names[rank * self.nodes // 4]

    def documents(self) -> list[dict[str, object]]:
        """The cases as the program reads them."""
        return [asdict(case) for case in self.cases]


def _launch(nodes: int, text: str) -> Launch:
    """`text`: KIND and the digits of its ranks, for each case."""
    words = [word.split(":") for word in text.split()]
    return Launch(nodes, tuple(Case(kind, tuple(int(digit) for digit in ranks)) for kind, ranks in words))


#: Only the last two of a launch may leave something behind: a group with a wrong collective, a node without power.
LAUNCHES = (
    _launch(2, "sleep:0 lock:1 pipe:2 disk:3 loop:0 stop:1 loader:2 mismatch:3 gone:23"),
    _launch(2, "lock:3 pipe:0 disk:1 loop:2 stop:3 loader:0 node:23 batches:1 gone:23"),
    _launch(2, "pipe:1 disk:2 loop:3 stop:0 loader:1 sleep:2 node:01 mismatch:2 gone:23"),
    _launch(2, "disk:0 loop:1 stop:2 loader:3 sleep:1 lock:2 node:23 batches:3 gone:23"),
    _launch(4, "loop:2 stop:3 sleep:3 lock:0 pipe:3 link:2 link:1 mismatch:0 gone:3"),
    _launch(4, "stop:0 loader:3 sleep:1 disk:1 link:3 link:0 batches:2 gone:1"),
    _launch(2, "slow:3 slow:0 slow:2"),
)
