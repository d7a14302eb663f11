# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared code of the faults: how one becomes a row of the matrix, and what replacements for sbatch do.

A fault that stops a daemon of the lab is `alone`: nothing else may run at the time. `slow` ones wait over a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.faults.ground import Broken, Case, Ground, Verdict

#: Slurm's output when slurmctld took too long to answer.
TIMED_OUT = 'echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2; exit 1'
REFUSED = 'echo "sbatch: error: Batch job submission failed: Requested node configuration is not available" >&2; exit 1'
SUBMITS_THEN_DIES = '"$real" "$@"; kill -9 "$PPID"'
HELD = {"sbatch": {"hold": True}}
GONE_SECONDS = 30


@dataclass(frozen=True)
class Fault:
    """One row of the matrix. `inject` gets the ground, the number of this run, and the number of runs of this fault."""

    name: str
    inject: Callable[[Ground, int, int], Verdict]
    alone: bool = False
    slow: bool = False
    #: Whether a lab supports it.
    fits: Callable[[Ground], bool] = lambda _ground: True


FAULTS: list[Fault] = []


def fault(
    name: str, *, alone: bool = False, slow: bool = False, fits: Callable[[Ground], bool] = lambda _ground: True
) -> Callable[[Callable[[Ground, int, int], Verdict]], Callable[[Ground, int, int], Verdict]]:
    """Add a function to the matrix."""

    def add(inject: Callable[[Ground, int, int], Verdict]) -> Callable[[Ground, int, int], Verdict]:
        FAULTS.append(Fault(name, inject, alone, slow, fits))
        return inject

    return add


def hosts(ground: Ground) -> list[str]:
    """The hosts from which a launch can be made: the head and, where nodes have their own namespaces, two nodes."""
    return ["head", *ground.lab.node_names[:2]] if ground.lab.realistic else ["head"] * 3


def expect(condition: bool, what: object) -> None:
    if not condition:
        raise Broken(f"the fault did not come about: {what}")


def duplicate(ground: Ground, case: Case) -> str:
    script = f"{ground.inside}/{case.run_dir().relative_to(ground.outside)}/job.sbatch"
    return ground.slurm("sbatch", "--parsable", script, "--submission", "again").strip()
