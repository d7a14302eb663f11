# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the fault matrix on one lab: how often each fault runs, several at a time, and their results."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab
from benchmarks.faults.ground import Broken, Ground, Verdict
from benchmarks.faults.matrix import FAULTS, Fault
from benchmarks.faults.surroundings import linking_badly

#: Faults with many possible places get this many times the runs of the others; slow ones get fewer.
MORE = {"killed before an operation of the submission": 5, "killed at a line of the submission": 5}
SLOW = 0.2
#: Set by an interrupt: the current runs end, and the labs are removed.
STOP = threading.Event()


@dataclass(frozen=True)
class Run:
    """One run of one fault. `broken` says why it proves nothing; there is then no verdict."""

    fault: str
    lab: str
    verdict: Verdict | None = None
    broken: str = ""

    @property
    def good(self) -> bool:
        return self.verdict is not None and not self.verdict.lost and not self.verdict.doubled


def shares(faults: Sequence[Fault], count: int) -> dict[str, int]:
    """How many of `count` runs each fault gets: at least one."""
    weights = {fault.name: MORE.get(fault.name, SLOW if fault.slow else 1.0) for fault in faults}
    total = sum(weights.values())
    return {name: max(1, round(count * weight / total)) for name, weight in weights.items()}


def run_matrix(
    lab: Lab, label: str, scratch: Path, count: int, *, workers: int = 4, chosen: Collection[str] | None = None
) -> list[Run]:
    """About `count` runs on a running lab, at least one of each of its faults (or of those `chosen` by name)."""
    ground = Ground(lab, scratch)
    faults = [fault for fault in FAULTS if fault.fits(ground) and (chosen is None or fault.name in chosen)]
    each = shares(faults, count)
    runs: list[Run] = []

    def inject(fault: Fault, number: int) -> Run:
        begun = time.monotonic()
        if STOP.is_set():
            return Run(fault.name, label, broken="interrupted")
        try:
            run = Run(fault.name, label, fault.inject(ground, number, each[fault.name]))
        except Broken as error:
            run = Run(fault.name, label, broken=str(error))
        runs.append(run)
        word = run.broken or ("good" if run.good else f"BAD {run.verdict}")
        print(f"[faults] {label}: {fault.name}: {word} ({time.monotonic() - begun:.0f} s)", file=sys.stderr, flush=True)
        return run

    wanted = [(fault, number) for fault in faults for number in range(each[fault.name])]
    together = [one_of for one_of in wanted if not one_of[0].alone]
    # Run different faults at the same time, in varying combinations.
    random.Random(count).shuffle(together)
    together.sort(key=lambda one_of: not one_of[0].slow)
    with linking_badly(ground), ThreadPoolExecutor(workers) as pool:
        for future in [pool.submit(inject, *one_of) for one_of in together]:
            future.result()
    for one_of in wanted:
        if one_of[0].alone:
            inject(*one_of)
    return runs
