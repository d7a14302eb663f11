# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What --random injects, and when: batches of launches, each with its faults. Pure: everything depends on the seed.

Every time is uniformly distributed. The time of a shared fault (a daemon, a node) is in seconds from the start of the
batch. The time of a killed command is a share of the command's usual duration, which only the lab can measure.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

MODULE, TWO, CLOCKS, ANSIBLE, TREE, HANDOVER = "module", "two", "clocks", "ansible", "tree", "handover"
SLURMCTLD, SLURMDBD, NODE, REBOOT, PAIR = "slurmctld", "slurmdbd", "node", "reboot", "pair"
FROZEN, SLURMD, PARTITION, FLAP = "frozen", "slurmd", "partition", "flap"
SHARED, READ_ONLY, FULL = "shared", "read_only", "full"
#: One row of the table each.
KINDS = {
    MODULE: "the module is killed",
    TWO: "two launchers at once",
    CLOCKS: "two launchers, their clocks apart by -2 h to 1 day",
    ANSIBLE: "ansible-playbook is killed",
    TREE: "ansible-playbook and all its processes are killed",
    HANDOVER: "the early signal, where a successor must go on",
    SLURMCTLD: "slurmctld is killed and started again",
    SLURMDBD: "slurmdbd is killed and started again",
    NODE: "a node is off for 2 s to 60 s",
    REBOOT: "a node reboots within seconds",
    FROZEN: "slurmctld is frozen (SIGSTOP) for 2 s to 30 s",
    SLURMD: "a slurmd is frozen for 2 s to 25 s",
    PARTITION: "both networks of a node are down for 3 s to 40 s",
    FLAP: "both networks of a node come and go for 2 s to 15 s",
    SHARED: "/shared is gone on a node for 1 s to 20 s",
    READ_ONLY: "/shared is read-only on a node for 1 s to 20 s",
    FULL: "the disk of /shared is full for 1 s to 12 s",
    PAIR: "two of these",
}
#: Approximate number of each kind per 1,000 injections. Faults of a single launch are cheap and have many places.
WEIGHTS = {
    MODULE: 22, TWO: 9, CLOCKS: 9, ANSIBLE: 5, TREE: 5, HANDOVER: 6, SLURMCTLD: 9, SLURMDBD: 4, NODE: 4, REBOOT: 4,
    PAIR: 5, FROZEN: 3, SLURMD: 3, PARTITION: 4, FLAP: 4, SHARED: 4, READ_ONLY: 3, FULL: 3,
}  # fmt: skip
#: Faults that hit one launch, or one playbook's. A batch may mix them, because they do not affect other launches.
OF_A_LAUNCH = (MODULE, TWO, CLOCKS, ANSIBLE, TREE, HANDOVER)
#: Faults that are a second launcher of the same launch.
OF_TWO = (TWO, CLOCKS)
#: Faults of one node, which needs its own namespaces.
OF_A_NODE = (NODE, REBOOT, SLURMD, PARTITION, FLAP, SHARED, READ_ONLY)
OF_A_PLAYBOOK = (ANSIBLE, TREE)
#: Injections per batch. The other kinds affect shared components, so a batch has only one of them.
PER_BATCH = {
    SLURMCTLD: 12, SLURMDBD: 9, NODE: 5, REBOOT: 8, PAIR: 8,
    FROZEN: 2, SLURMD: 5, PARTITION: 5, FLAP: 6, SHARED: 6, READ_ONLY: 6, FULL: 4,
}  # fmt: skip
PER_BATCH_OF_LAUNCHES = 40
#: Number of launches per playbook.
OF_ONE_PLAYBOOK = 2
#: For how many seconds the affected component is gone: (least, most).
GONE = {
    SLURMCTLD: (0.0, 2.0), SLURMDBD: (0.0, 5.0), NODE: (2.0, 60.0), REBOOT: (0.0, 0.0),
    FROZEN: (2.0, 30.0), SLURMD: (2.0, 25.0), PARTITION: (3.0, 40.0), FLAP: (2.0, 15.0),
    SHARED: (1.0, 20.0), READ_ONLY: (1.0, 20.0), FULL: (1.0, 12.0),
}  # fmt: skip
#: By how many seconds the clock of a second launcher is ahead: (least, most).
APART = (-7200.0, 86400.0)
#: Share of the launches in a batch of a shared fault that a playbook makes and waits for.
WAITED = 0.5
#: Share of the launches, of those that may be one, that are a job array, and its elements; and that have a spare node.
ARRAYS, ELEMENTS, SPARES = 0.15, 3, 0.15


@dataclass(frozen=True)
class Scale:
    """The extent of a batch, in seconds: the period in which its launches begin, the period of its shared faults, and
    how long a program runs. `launches`: the number of launches in a batch of a shared fault.
    """

    launches: int = 10
    begin: float = 22.0
    window: float = 30.0
    program: tuple[float, float] = (0.5, 20.0)


#: For the tests: as short as possible.
QUICK = Scale(launches=4, begin=2.0, window=3.0, program=(0.5, 2.0))


@dataclass(frozen=True)
class Job:
    """One launch: when it is made, how long its program runs, on how many nodes, and whether its artifact ends it.

    `waited`: a playbook makes it, and waits for it. `elements`: more than one is a job array.
    """

    start: float
    seconds: float
    nodes: int
    then_end: bool
    waited: bool = False
    elements: int = 1
    spares: int = 0


@dataclass(frozen=True)
class Injection:
    """One fault. `at`: from 0 to 1, see the module's docstring. `launches`: those that it hits; empty for a shared
    fault. `gone`: for how long something is gone, or by how much a clock is ahead.

    `node` counts from 0. A pair has its two faults in `halves`.
    """

    kind: str
    at: float
    gone: float = 0.0
    node: int = 0
    launches: tuple[int, ...] = ()
    halves: tuple[Injection, ...] = ()

    @property
    def single(self) -> tuple[Injection, ...]:
        return self.halves or (self,)


@dataclass(frozen=True)
class Batch:
    """Launches that run together, and their faults."""

    number: int
    kind: str
    jobs: tuple[Job, ...]
    injections: tuple[Injection, ...]
    window: float


def shares(count: int, kinds: Mapping[str, int]) -> dict[str, int]:
    """The number of injections of each kind: exactly `count` together, and at least one of each."""
    total = sum(kinds.values())
    exact = {kind: count * weight / total for kind, weight in kinds.items()}
    numbers = {kind: max(1, int(value)) for kind, value in exact.items()}
    for kind in sorted(exact, key=lambda kind: int(exact[kind]) - exact[kind]):
        if sum(numbers.values()) < count:
            numbers[kind] += 1
    return numbers


def batches(
    seed: str, count: int, nodes: int, *, without: frozenset[str] = frozenset(), scale: Scale | None = None
) -> list[Batch]:
    """The batches for one lab with `nodes` nodes, in order."""
    plan = _Plan(random.Random(seed), nodes, without, scale or Scale())
    each = shares(count, {kind: weight for kind, weight in WEIGHTS.items() if kind not in without})
    launched = [kind for kind in OF_A_LAUNCH for _number in range(each.get(kind, 0))]
    plan.chance.shuffle(launched)
    rows = [launched[first : first + PER_BATCH_OF_LAUNCHES] for first in range(0, len(launched), PER_BATCH_OF_LAUNCHES)]
    for kind, most in PER_BATCH.items():
        left = each.get(kind, 0)
        rows += [[kind] * min(most, left - first) for first in range(0, left, most)]
    plan.chance.shuffle(rows)
    # Each kind once, then each kind that is left again: a run that is ended early has seen all of them.
    seen: Counter[str] = Counter()
    turns = []
    for kinds in rows:
        kind = "launches" if kinds[0] in OF_A_LAUNCH else kinds[0]
        turns.append(seen[kind])
        seen[kind] += 1
    rows = [rows[index] for index in sorted(range(len(rows)), key=lambda index: turns[index])]
    return [plan.batch(number, kinds) for number, kinds in enumerate(rows)]


@dataclass(frozen=True)
class _Plan:
    """All random choices."""

    chance: random.Random
    nodes: int
    without: frozenset[str]
    scale: Scale

    def batch(self, number: int, kinds: list[str]) -> Batch:
        own = kinds[0] in OF_A_LAUNCH
        sizes = [OF_ONE_PLAYBOOK if kind in OF_A_PLAYBOOK else 1 for kind in kinds]
        each = (
            [kind for kind, size in zip(kinds, sizes) for _number in range(size)] if own else [""] * self.scale.launches
        )
        jobs = tuple(self.job(kind) for kind in each)
        free = iter(range(len(jobs)))
        if own:
            hit = [self.single(kind, [next(free) for _each in range(size)]) for kind, size in zip(kinds, sizes)]
        else:
            hit = [self.pair(free) if kind == PAIR else self.single(kind) for kind in kinds]
        return Batch(number, "launches" if own else kinds[0], jobs, tuple(hit), self.scale.window)

    def job(self, kind: str) -> Job:
        """A launch. `kind`: of the fault that hits it alone; "" where the fault is shared."""
        seconds = round(self.chance.uniform(*self.scale.program), 2)
        nodes = 2 if self.chance.random() < 0.3 else 1
        start, then_end = round(self.chance.uniform(0, self.scale.begin), 2), self.chance.random() < 0.5
        waited = not kind and self.chance.random() < WAITED
        alone = waited or kind in (*OF_A_PLAYBOOK, HANDOVER)
        elements = ELEMENTS if self.chance.random() < ARRAYS and not alone else 1
        spares = 1 if self.chance.random() < SPARES and kind != HANDOVER else 0
        return Job(start, seconds, nodes, then_end, waited, elements, spares)

    def single(self, kind: str, launches: Sequence[int] = ()) -> Injection:
        gone = round(self.chance.uniform(*{**GONE, CLOCKS: APART}.get(kind, (0.0, 0.0))), 2)
        return Injection(kind, self.chance.random(), gone, self.chance.randrange(self.nodes), tuple(launches))

    def pair(self, free: Iterator[int]) -> Injection:
        """Two faults of different kinds, at least one of them shared, each with its own time."""
        shared = [kind for kind in GONE if kind not in self.without]
        first = self.chance.choice(shared)
        second = self.chance.choice([kind for kind in (MODULE, *OF_TWO, *shared) if kind != first])
        halves = [self.single(kind, [next(free)] if kind in OF_A_LAUNCH else ()) for kind in (first, second)]
        return Injection(PAIR, 0.0, halves=tuple(halves))
