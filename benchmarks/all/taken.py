# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the rows of `benchmarks/run all` in turns, and set what they took beside each other."""

from __future__ import annotations

import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.budget.__main__ import Ground
from benchmarks.launch.table import markdown

NOW = "now"


@dataclass(frozen=True)
class Row:
    """`run` takes the ground of a version and the number of the round. `floor`: the row that it is a multiple of."""

    name: str
    floor: str
    run: Callable[[Ground, int], object]


@dataclass(frozen=True)
class Beside:
    """The other commit, and the floor of each row."""

    ref: str
    floors: Mapping[str, str]


@dataclass(frozen=True)
class Taken:
    """Seconds of the clock, CPU seconds of all processes, and the machine's load before."""

    seconds: float
    cpu: float
    load: float


#: Row -> version -> one for each round.
Measured = dict[str, dict[str, list[Taken]]]


def measure(rows: Sequence[Row], grounds: Mapping[str, Ground], rounds: int) -> Measured:
    """Run each row once a round with each version; the one that begins changes from round to round."""
    measured: Measured = {row.name: {version: [] for version in grounds} for row in rows}
    for number in range(rounds):
        order = sorted(grounds, reverse=bool(number % 2))
        for row in rows:
            for version in order:
                load, begun, used = os.getloadavg()[0], time.monotonic(), _cpu()
                row.run(grounds[version], number)
                taken = Taken(time.monotonic() - begun, _cpu() - used, load)
                measured[row.name][version].append(taken)
                said = f"{row.name}, {version}: {taken.cpu:.2f} CPU s, load {load:.1f}"
                print(f"[all] round {number + 1} of {rounds}: {said}", file=sys.stderr, flush=True)
    return measured


def table(measured: Measured, beside: Beside) -> str:
    """A line for each row: both versions, and the ratios to the floor and to the other commit."""
    head = ["", "floor", "CPU s (clock)", "x floor", beside.ref, "x floor", f"x {beside.ref}"]
    lines = []
    for name, versions in measured.items():
        now, then, floor = versions[NOW], versions[beside.ref], beside.floors[name]
        ratios = ["-", "-"]
        if floor:
            ratios = [_ratio(versions[version], measured[floor][version]) for version in (NOW, beside.ref)]
        lines.append([name, floor or "-", _both(now), ratios[0], _both(then), ratios[1], _ratio(now, then)])
    return markdown(head, lines)


def _both(takens: Sequence[Taken]) -> str:
    cpu, seconds = (statistics.median(values) for values in zip(*((taken.cpu, taken.seconds) for taken in takens)))
    return f"{cpu:.2f} ({seconds:.2f})"


def _ratio(takens: Sequence[Taken], bases: Sequence[Taken]) -> str:
    return f"{statistics.median(taken.cpu / max(base.cpu, 0.001) for taken, base in zip(takens, bases)):.2f}"


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
