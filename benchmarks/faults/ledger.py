# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide whether a launch ran once, from what its programs wrote. Pure.

A program records when it begins, and repeatedly that it is alive. A job may be started again after its node died, which
is the purpose of requeues. A launch is doubled if a run began after another run was proven, or while another was alive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

#: All times are from one machine's clock; a file's time may be slightly coarser than the program's.
SLACK = 0.05


@dataclass(frozen=True)
class Run:
    """One run of a launch's program, in epoch seconds. `alive`: when it was last known to be alive."""

    job: str
    attempt: str
    begun: float
    alive: float


def parse(files: Mapping[str, float]) -> list[Run]:
    """The runs in a ledger, from the names and modification times of its files; see `ground.timed`."""
    runs_of: dict[tuple[str, ...], Run] = {}
    seen: dict[tuple[str, ...], float] = {}
    for name, written in files.items():
        words = name.split(".")
        if len(words) != 8 or words[0] != "run":
            continue
        job, attempt, token, seconds, fraction, _rank, event = words[1:]
        time = float(f"{seconds}.{fraction}")
        # Where nothing could be written at the start, the name of a later file has it.
        if event == "begun" or (event == "alive" and (job, attempt, token) not in runs_of):
            runs_of[job, attempt, token] = Run(job, attempt, time, time)
        if event != "begun":
            last = time if event == "ended" else written
            seen[job, attempt, token] = max(last, seen.get((job, attempt, token), 0.0))
    runs = [replace(run, alive=max(run.begun, seen.get(of, 0.0))) for of, run in runs_of.items()]
    return sorted(runs, key=lambda run: run.begun)


def doubled(runs: Sequence[Run], proofs: Sequence[float]) -> str:
    """Describe what is wrong with these runs; "" if nothing is. `proofs`: when each proof of the launch was written."""
    first = min(proofs, default=None)
    for run in runs:
        what = f"job {run.job} attempt {run.attempt}"
        if first is not None and run.begun > first + SLACK:
            return f"{what} ran {run.begun - first:.1f} s after the proof"
        for other in runs:
            if other is not run and other.begun <= run.begun < other.alive - SLACK:
                return f"{what} ran beside job {other.job} attempt {other.attempt}"
    return ""
