# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The moments of a launch that its page marks, and when its nodes were checked and copied to. Reads only."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.attempt_times import AttemptTimes

PREFLIGHT, STAGING = "preflight", "staging"
FIRST_STEP, CHECKPOINT, ARTIFACT, REQUEUE, SPARE = "first step", "checkpoint", "artifact", "requeue", "spare node"
# Of one attempt at most this many checkpoints are marked, evenly spaced ones.
MOST_CHECKPOINTS = 100


@dataclass(frozen=True)
class Mark:
    """A moment in epoch seconds. `text`: more about it, for people."""

    kind: str
    at: float
    attempt: int
    text: str = ""

    def as_dict(self) -> ModuleResult:
        """As modules return it."""
        return asdict(self)


def marks(attempts: Sequence[AttemptTimes], nodes: Mapping[int, Sequence[str]]) -> list[Mark]:
    """The marks of a launch, oldest first. `nodes`: the nodes of each attempt."""
    moments: list[Mark] = []
    before: AttemptTimes | None = None
    for attempt in attempts:
        number = attempt.attempt
        if before is not None:
            spare = attempt.same_job
            moments.append(
                Mark(
                    SPARE if spare else REQUEUE,
                    attempt.began,
                    number,
                    _exchanged(nodes.get(before.attempt, ()), nodes.get(number, ())) if spare else "",
                )
            )
        if attempt.times.steps:
            step, at, _whole = attempt.times.steps[0]
            moments.append(Mark(FIRST_STEP, at, number, f"step {step}"))
        saves = attempt.times.saves
        every = -(-len(saves) // MOST_CHECKPOINTS) or 1
        moments += [Mark(CHECKPOINT, at, number) for at in saves[::every]]
        if attempt.proven is not None:
            moments.append(Mark(ARTIFACT, attempt.proven, number))
        before = attempt
    return sorted(moments, key=lambda mark: mark.at)


def _exchanged(before: Sequence[str], after: Sequence[str]) -> str:
    """Which nodes an attempt has instead of others."""
    gone = [node for node in before if node not in after]
    come = [node for node in after if node not in before]
    return f"{', '.join(come)} for {', '.join(gone)}" if gone and come else ""


def preparations(run: RunDirectory, attempt: int) -> list[tuple[str, float, float]]:
    """(kind, began, ended) of the preflight and the copies of an attempt; nothing of what it did not do."""
    folder = os.path.join("preflight", str(attempt))
    # The check of the nodes begins with the file for the errors of srun, and ends with the table.
    checked = (PREFLIGHT, run.changed(f"{folder}/srun.errors"), run.changed(f"{folder}/table"))
    stage = f"{folder}/stage"
    done = [run.changed(f"{stage}/{name}") for name in run.names(stage) if name.endswith(".done")]
    copied = (STAGING, run.changed(f"{stage}/plan"), max(done, default=0.0))
    return [(kind, began, ended) for kind, began, ended in (checked, copied) if 0 < began < ended]
