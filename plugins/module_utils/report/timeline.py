# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The phases of a launch, from its journal, its attempts and its steps. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport

QUEUED, BETWEEN, RUNNING = "queued", "waits", "runs"
START, TRAINING, END = "start-up", "training", "after the last step"


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


def timeline(
    launch: LaunchReport, first_steps: Mapping[int, float], last_steps: Mapping[int, float], now: float
) -> list[Phase]:
    """The phases, oldest first. Clocks that are apart never make a phase that ends before it begins.

    `first_steps`, `last_steps`: by attempt, from the time stamps in its log. `now`: the end of a launch that runs.
    """
    phases: list[Phase] = []
    sent = [float(event["time"]) for event in launch.journal if event["event"] in ("submitted", "intent")]
    at = min(sent, default=None)
    for number, row in enumerate(launch.attempts):
        began = row.started_at
        if began is None:
            continue
        if at is not None and began > at:
            phases.append(Phase(BETWEEN if number else QUEUED, at, began))
        last = number == len(launch.attempts) - 1
        known = row.finished_at or (max(now, began) if last and not launch.completed else None)
        ended = max(began, known if known is not None else began)
        nodes = row.node_list or ",".join(row.nodes or ())
        steps = (first_steps.get(row.attempt), last_steps.get(row.attempt))
        count = len(row.nodes or launch.nodes or ())
        phases += [
            replace(phase, nodes=nodes, node_count=count) for phase in _of_attempt(row.attempt, (began, ended), steps)
        ]
        at = ended
    return phases


def node_hours(phases: Sequence[Phase]) -> list[ModuleResult]:
    """What the hours went to: for each kind of phase its hours, its node-hours and its share of all node-hours, which
    adds up to 1. Waiting in the queue holds no nodes: its share is None.
    """
    total = sum((phase.ended - phase.began) * phase.node_count for phase in phases)
    rows = []
    for kind in dict.fromkeys(phase.kind for phase in phases):
        same = [phase for phase in phases if phase.kind == kind]
        seconds = sum(phase.ended - phase.began for phase in same)
        held = sum((phase.ended - phase.began) * phase.node_count for phase in same)
        share = held / total if total and kind not in (QUEUED, BETWEEN) else None
        rows.append({"kind": kind, "hours": seconds / 3600, "node_hours": held / 3600, "share": share})
    return rows


def _of_attempt(attempt: int, span: tuple[float, float], steps: tuple[float | None, float | None]) -> list[Phase]:
    began, ended = span
    first, last = (None if step is None else min(max(step, began), ended) for step in steps)
    if first is None or last is None or last < first:
        return [Phase(RUNNING, began, ended, attempt)]
    marks = ((START, began, first), (TRAINING, first, last), (END, last, ended))
    return [Phase(kind, start, end, attempt) for kind, start, end in marks if end > start or kind == TRAINING]
