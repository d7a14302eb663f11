# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The phases of a launch, as its page draws them: the segments of its ledger, and the waits between them. Pure.

The set-up of an attempt is shown as the check of its nodes, the copies to them, and the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.attempt_times import (
    CHECKPOINTS,
    IDLE,
    LOST,
    ROLES,
    SETUP,
    STALLS,
    STARTUP,
    STEPS,
    UNKNOWN,
    Segment,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.launch_ledger import submitted
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.ledger import Ledger

QUEUED, BETWEEN, AFTER_ARTIFACT = "queued", "waits", "after the artifact"
# The parts of the ledger as phases.
NAMES = {
    SETUP: "set-up", ROLES: "waits for roles", STARTUP: "start-up", STEPS: "training", CHECKPOINTS: "checkpoints",
    LOST: "lost", STALLS: "stalled", IDLE: "after the last step", UNKNOWN: "runs",
}  # fmt: skip
# Of more phases of one of these parts, the shortest ones are drawn as training.
MOST_PHASES = 100
FREQUENT = (STALLS, CHECKPOINTS)
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


#: When the nodes of an attempt were checked and copied to: (kind, began, ended).
Preparations = Mapping[int, Sequence[tuple[str, float, float]]]


def timeline(launch: LaunchReport, ledger: Ledger, prepared: Preparations) -> list[Phase]:
    """The phases, oldest first. They end where they begin, or later. `prepared`: by attempt."""
    nodes = {row.attempt: row.node_list or ",".join(row.nodes or ()) for row in launch.attempts}
    proven = {attempt.attempt: attempt.proven for attempt in ledger.attempts if attempt.proven is not None}
    phases: list[Phase] = []
    at = submitted(launch.journal)
    for segment in _few(ledger.segments):
        if at is not None and segment.began > at + SHORT:
            phases.append(Phase(BETWEEN if phases else QUEUED, at, segment.began))
        phase = _phase(segment, ledger, nodes)
        if segment.part == SETUP and segment.attempt is not None:
            for part in _prepared(phase, prepared.get(segment.attempt, ())):
                phases = _with(phases, part)
        elif segment.part == IDLE and segment.began + SHORT > proven.get(segment.attempt or 0, segment.ended):
            phases.append(replace(phase, kind=AFTER_ARTIFACT))
        else:
            phases = _with(phases, phase)
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


def _prepared(setup: Phase, prepared: Sequence[tuple[str, float, float]]) -> list[Phase]:
    """The set-up of an attempt, divided. What overlaps the check of the nodes is a part of it, and shown instead."""
    cuts = sorted({setup.began, setup.ended, *(at for _kind, *ends in prepared for at in ends)})
    parts: list[Phase] = []
    for began, ended in zip(cuts, cuts[1:]):
        if setup.began <= began and ended <= setup.ended:
            # The shortest one: copies are made while the nodes are checked.
            spans = [(last - first, kind) for kind, first, last in prepared if first <= began and ended <= last]
            parts = _with(parts, replace(setup, kind=min(spans)[1] if spans else setup.kind, began=began, ended=ended))
    return parts


def _few(segments: Sequence[Segment]) -> list[Segment]:
    """The segments, of too many the shortest stalls and checkpoints as steps."""
    least = {}
    for part in FREQUENT:
        lengths = sorted((s.ended - s.began for s in segments if s.part == part), reverse=True)
        least[part] = lengths[MOST_PHASES] if len(lengths) > MOST_PHASES else 0.0
    return [replace(s, part=STEPS) if s.ended - s.began <= least.get(s.part, -1.0) else s for s in segments]
