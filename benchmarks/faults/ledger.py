# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a launch ran once, from what its programs wrote down: pure.

A run of a program is begun, and ended where it came so far. A job of a node that died may be started again: that is
what requeues are for. Doubled is a launch of which a run began after another one was proven, or beside one that lived.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

#: The clock is that of one machine; a file's time may be a little coarser than the program's.
SLACK = 0.05


@dataclass(frozen=True)
class Run:
    """One run of a launch's program: epoch seconds. `ended` is None where it was killed before its end."""

    job: str
    attempt: str
    begun: float
    ended: float | None = None


def parse(names: Iterable[str]) -> list[Run]:
    """The runs that the names of a ledger's files tell: as the program of `ground.timed` gives them."""
    found: dict[tuple[str, str, str], Run] = {}
    ends: dict[tuple[str, str, str], float] = {}
    for name in sorted(names):
        words = name.split(".")
        if len(words) != 8 or words[0] != "run":
            continue
        _run, job, attempt, token, *_rest = words
        time, end = float(f"{words[4]}.{words[5]}"), words[7] == "ended"
        if end:
            ends[job, attempt, token] = time
        else:
            found[job, attempt, token] = Run(job, attempt, time)
    runs = [replace(run, ended=ends.get(of)) for of, run in found.items()]
    return sorted(runs, key=lambda run: run.begun)


def doubled(runs: Sequence[Run], proofs: Sequence[float]) -> str:
    """What is wrong with these runs in words, or nothing. `proofs`: when each proof of the launch was written down."""
    first = min(proofs, default=None)
    for run in runs:
        what = f"job {run.job} attempt {run.attempt}"
        if first is not None and run.begun > first + SLACK:
            return f"{what} ran {run.begun - first:.1f} s after the proof"
        for other in runs:
            if other is not run and other.ended and other.begun <= run.begun < other.ended - SLACK:
                return f"{what} ran beside job {other.job} attempt {other.attempt}"
    return ""
