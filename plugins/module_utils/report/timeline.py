# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The phases of a launch, as its page draws them: the segments of its ledger, and the waits between them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.attempt_times import (
    CHECKPOINTS,
    IDLE,
    LOST,
    SETUP,
    STALLS,
    STARTUP,
    STEPS,
    UNKNOWN,
    Segment,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.launch_ledger import submitted
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.ledger import Ledger

QUEUED, BETWEEN = "queued", "waits"
# The parts of the ledger as phases. Checkpoints are too many and too short to draw.
NAMES = {
    SETUP: "set-up", STARTUP: "start-up", STEPS: "training", CHECKPOINTS: "training", LOST: "lost", STALLS: "stalled",
    IDLE: "after the last step", UNKNOWN: "runs",
}  # fmt: skip
# Of more phases, the shortest stalls are drawn as training.
MOST_PHASES = 100
# A pause between two allocations that is shorter (seconds) is not drawn.
SHORT = 0.01


@dataclass(frozen=True)
class Phase:
    """A part of a launch's time, in epoch seconds. `attempt`: None between attempts. `node_count`: the nodes held."""

    kind: str
    began: float
    ended: float
    attempt: int | None = None
    nodes: str = ""
    node_count: int = 0

    def as_dict(self) -> ModuleResult:
        """As modules return it."""
        return asdict(self)


def timeline(launch: LaunchReport, ledger: Ledger) -> list[Phase]:
    """The phases, oldest first. They end where they begin, or later."""
    nodes = {row.attempt: row.node_list or ",".join(row.nodes or ()) for row in launch.attempts}
    phases: list[Phase] = []
    at = submitted(launch.journal)
    for segment in _few(ledger.segments):
        if at is not None and segment.began > at + SHORT:
            phases.append(Phase(BETWEEN if phases else QUEUED, at, segment.began))
        phases = _with(phases, _phase(segment, ledger, nodes))
        at = max(at or segment.ended, segment.ended)
    # Of an attempt without a known end, the begin is shown.
    begun = [
        Phase(NAMES[UNKNOWN], row.started_at, row.started_at, row.attempt) for row in launch.attempts if row.started_at
    ]
    return phases or begun


def _phase(segment: Segment, ledger: Ledger, nodes: Mapping[int, str]) -> Phase:
    count = next(
        (held.nodes for held in ledger.allocations if held.began <= segment.began < (held.ended or segment.ended)), 0
    )
    named = nodes.get(segment.attempt, "") if segment.attempt is not None else ""
    return Phase(NAMES[segment.part], segment.began, segment.ended, segment.attempt, named, count)


def _with(phases: list[Phase], phase: Phase) -> list[Phase]:
    """The phases and another one, which continues the last one if it is of the same kind."""
    last = phases[-1] if phases else None
    if (
        last is not None
        and (last.kind, last.attempt) == (phase.kind, phase.attempt)
        and phase.began <= last.ended + SHORT
    ):
        return [*phases[:-1], replace(last, ended=phase.ended)]
    return [*phases, phase]


def _few(segments: Sequence[Segment]) -> list[Segment]:
    """The segments, of too many the shortest stalls as steps."""
    stalls = sorted((s.ended - s.began for s in segments if s.part == STALLS), reverse=True)
    least = stalls[MOST_PHASES] if len(stalls) > MOST_PHASES else 0.0
    return [replace(s, part=STEPS) if s.part == STALLS and s.ended - s.began <= least else s for s in segments]
