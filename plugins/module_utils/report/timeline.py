# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The phases of a launch, from its journal, its attempts and its steps. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport

QUEUED, BETWEEN, RUNNING = "queued", "waits", "runs"
START, TRAINING, END = "start-up", "training", "after the last step"


@dataclass(frozen=True)
class Phase:
    """A part of a launch's time, in epoch seconds. `attempt`: None between attempts."""

    kind: str
    began: float
    ended: float
    attempt: int | None = None
    nodes: str = ""

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
        phases += _of_attempt(row.attempt, (began, ended), steps, nodes)
        at = ended
    return phases


def _of_attempt(
    attempt: int, span: tuple[float, float], steps: tuple[float | None, float | None], nodes: str
) -> list[Phase]:
    began, ended = span
    first, last = (None if step is None else min(max(step, began), ended) for step in steps)
    if first is None or last is None or last < first:
        return [Phase(RUNNING, began, ended, attempt, nodes)]
    marks = ((START, began, first), (TRAINING, first, last), (END, last, ended))
    return [Phase(kind, start, end, attempt, nodes) for kind, start, end in marks if end > start or kind == TRAINING]
