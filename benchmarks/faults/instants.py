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
from dataclasses import dataclass, replace

from benchmarks.faults.kinds import HANDOVER, HEAL, KINDS, LOSE_RANKS, MODULE, PAIR, SERVER, Hits, Kind

PER_BATCH_OF_LAUNCHES = 60
#: Number of launches per playbook.
OF_ONE_PLAYBOOK = 2
#: Share of the launches in a batch of a shared fault that a playbook makes and waits for; and of those with a fault of
#: their own, of which a batch has several times as many.
WAITED, WAITED_ALONE = 0.5, 0.25
#: Share of the launches, of those that may be one, that are a job array, and its elements; and that have a spare node.
ARRAYS, ELEMENTS, SPARES = 0.15, 3, 0.15
#: Share of the launches, of those that are no array, with roles, and the ways of these (`with_roles.WAYS`).
ROLES, WAYS = 0.35, ("restart", "fail", "share")
#: Share of the launches of one program that are submitted several times (resources.any_of).
SEVERAL = 0.3
#: What a launch may be.
SHAPES = ("plain", "several", "array", *WAYS)
#: Share of the launches whose Python is in a sealed environment.
SEALED = 0.5
#: A node that is lost under ranks with a spare one is lost in this first part of their program, which runs so many
#: seconds longer, and is gone for at least as long: rank 0 needs 6 s to miss its neighbour, the job then up to 30 s to
#: ask its nodes which of them is gone. A node that is back by then, and ranks that have ended, need no healing.
EARLY, LONGER, GONE = 0.25, 25.0, 45.0


@dataclass(frozen=True)
class Scale:
    """The extent of a batch, in seconds: the period in which its launches begin, the period of its shared faults, and
    how long a program runs. `launches`: the number of launches in a batch of a shared fault. `gone`: the part of the
    usual time for which something is gone.
    """

    launches: int = 12
    begin: float = 20.0
    window: float = 60.0
    program: tuple[float, float] = (0.5, 45.0)
    gone: float = 1.0


#: For the tests: as short as possible.
QUICK = Scale(launches=4, begin=2.0, window=3.0, program=(0.5, 2.0), gone=0.2)


@dataclass(frozen=True)
class Job:
    """One launch: when it is made, how long its program runs, on how many nodes, and whether its artifact ends it.

    `waited`: a playbook makes it, and waits for it. `elements`: more than one is a job array. `sealed`: its Python is
    in a sealed environment. `healing`: its ranks fail together, as in a collective. `way`: of its roles; "" if it has
    none. `servers`: how many processes its other role has. `several`: it has several jobs, of which one is to run.
    """

    start: float
    seconds: float
    nodes: int
    then_end: bool
    waited: bool = False
    elements: int = 1
    spares: int = 0
    sealed: bool = False
    healing: bool = False
    way: str = ""
    servers: int = 1
    several: bool = False

    @property
    def shape(self) -> str:
        """The kind of launch that it is: a part of its name."""
        return self.way or ("array" if self.elements > 1 else "several" if self.several else "plain")


@dataclass(frozen=True)
class Injection:
    """One fault. `at`: from 0 to 1, see the module's docstring. `launches`: those that it hits; empty for a shared
    fault. `gone`: for how long something is gone, or by how much a clock is ahead.

    `node` counts from 0. A pair has its two faults in `halves`; what ranks must be healed of is the only one.
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
    each = shares(count, {name: kind.weight for name, kind in KINDS.items() if name not in without})
    launched = [name for name, number in each.items() if KINDS[name].own for _number in range(number)]
    plan.chance.shuffle(launched)
    rows = [launched[first : first + PER_BATCH_OF_LAUNCHES] for first in range(0, len(launched), PER_BATCH_OF_LAUNCHES)]
    for name, number in each.items():
        # As many as make each about full: a batch takes as long with one injection.
        parts = max(1, round(number / KINDS[name].most)) if KINDS[name].most else 0
        rows += [[name] * (number // parts + (part < number % parts)) for part in range(parts)]
    plan.chance.shuffle(rows)
    # Each kind once, then all that is left, evenly: a run that is ended early has seen all of them, in their shares.
    seen: Counter[str] = Counter()
    names = ["launches" if KINDS[kinds[0]].own else kinds[0] for kinds in rows]
    total, turns = Counter(names), []
    for name in names:
        turns.append((seen[name] > 0, seen[name] / total[name]))
        seen[name] += 1
    rows = [rows[index] for index in sorted(range(len(rows)), key=lambda index: turns[index])]
    return [plan.batch(number, kinds) for number, kinds in enumerate(rows)]


@dataclass(frozen=True)
class _Plan:
    """All random choices."""

    chance: random.Random
    nodes: int
    without: frozenset[str]
    scale: Scale

    def batch(self, number: int, names: list[str]) -> Batch:
        kinds = [KINDS[name] for name in names]
        sizes = [OF_ONE_PLAYBOOK if kind.hits is Hits.PLAYBOOK else 1 for kind in kinds]
        hit: list[Kind | None] = [kind for kind, size in zip(kinds, sizes) for _number in range(size)]
        if not kinds[0].own:
            # Where ranks are healed, each launch that is hit needs three nodes of the lab.
            healing = hit if kinds[0].hits is Hits.RANKS else []
            hit = [*healing, *[None] * (self.scale.launches - len(healing))]
        jobs = tuple(self.job(kind) for kind in hit)
        free = iter(range(len(jobs)))
        if kinds[0].own:
            injections = [self.single(kind, [next(free) for _each in range(size)]) for kind, size in zip(kinds, sizes)]
        else:
            of = {PAIR: self.pair, HEAL: self.heal}
            injections = [of[kind.name](free) if kind.name in of else self.single(kind) for kind in kinds]
        return Batch(number, "launches" if kinds[0].own else names[0], jobs, tuple(injections), self.scale.window)

    def job(self, kind: Kind | None) -> Job:
        """A launch. `kind`: of the fault that hits it alone; None where the fault is shared."""
        seconds = round(self.chance.uniform(*self.scale.program), 2)
        nodes = 2 if self.chance.random() < 0.3 else 1
        start, then_end = round(self.chance.uniform(0, self.scale.begin), 2), self.chance.random() < 0.5
        # Where a playbook is killed, its waits are killed with it.
        killed = kind is not None and kind.hits is Hits.PLAYBOOK
        waited = self.chance.random() < (WAITED_ALONE if kind and kind.own else WAITED) and not killed
        alone = waited or killed or (kind is not None and kind.name in (HANDOVER, HEAL))
        elements = ELEMENTS if self.chance.random() < ARRAYS and not alone else 1
        named = kind is not None and kind.name == SERVER
        way = self.chance.choice(WAYS) if named or (elements == 1 and self.chance.random() < ROLES) else ""
        servers, elements = 2 if self.chance.random() < 0.3 else 1, 1 if way else elements
        spares = 1 if self.chance.random() < SPARES and (not kind or kind.name != HANDOVER) else 0
        sealed = self.chance.random() < SEALED
        if kind and kind.name == HEAL:
            # The fault needs time to hit, and the job time to see it.
            # With roles, its second node is the other role's.
            nodes, way = (1, WAYS[1]) if way else (2, "")
            return Job(start, seconds + LONGER, nodes, then_end, waited, 1, 1, sealed, True, way)
        several = self.chance.random() < SEVERAL and elements == 1 and not way
        shape = (elements, spares, sealed, False, way, servers, several)
        return Job(start, seconds, 1 if way else nodes, then_end, waited, *shape)

    def single(self, kind: Kind, launches: Sequence[int] = ()) -> Injection:
        gone = round(self.chance.uniform(*kind.gone) * (self.scale.gone if kind.breaks else 1.0), 2)
        return Injection(kind.name, self.chance.random(), gone, self.chance.randrange(self.nodes), tuple(launches))

    def pair(self, free: Iterator[int]) -> Injection:
        """Two faults of different kinds, at least one of them shared, each with its own time."""
        kinds = [kind for kind in KINDS.values() if kind.name not in self.without]
        shared = [kind for kind in kinds if kind.breaks]
        first = self.chance.choice(shared)
        alone = [kind for kind in kinds if kind.name == MODULE or kind.hits is Hits.TWICE]
        second = self.chance.choice([kind for kind in (*alone, *shared) if kind != first])
        halves = [self.single(kind, [next(free)] if kind.own else ()) for kind in (first, second)]
        return Injection(PAIR, 0.0, halves=tuple(halves))

    def heal(self, free: Iterator[int]) -> Injection:
        """A fault of the second node of a launch, at a time after its ranks have begun."""
        half = self.single(KINDS[self.chance.choice(LOSE_RANKS)], [next(free)])
        half = replace(half, at=half.at * EARLY, gone=max(half.gone, GONE) if half.gone else 0.0)
        return Injection(HEAL, 0.0, halves=(half,))
