# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a reconciliation in Markdown, for a pull request: who reads it need not have Ansible or the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import Parameters, record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import short_list, significant
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.lines import PlanLine
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.plan import ACTIONS
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page.markdown import (
    MOST_ROWS,
    escaped,
    quoted,
    table,
)

#: How many lines of a kind there are is of more interest than each of these.
_LAST = ("adopt", "unchanged")


@dataclass(frozen=True)
class _Origin:
    """Where the job files are from."""

    commit: str | None = None
    dirty: bool = False


@dataclass(frozen=True)
class _Planned:
    """What the module `reconcile` returns about a plan. `set`: empty if it came to none."""

    set: str = ""
    provenance: _Origin = _Origin()
    steps: Sequence[PlanLine] = ()

    @classmethod
    def of(cls, result: Parameters) -> _Planned:
        return record_of(
            cls,
            result,
            provenance=lambda given: record_of(_Origin, given),
            steps=lambda given: [PlanLine.of(step) for step in given],
        )


def plan_markdown(results: Mapping[str, Parameters], error: str | None) -> str:
    """The plans of clusters: host -> result of the module; and why a plan, or a line of it, was not possible."""
    lines = ["## rankzero reconcile", ""]
    for host, result in results.items():
        planned = _Planned.of(result)
        if planned.set:
            lines += _of_cluster(host, planned)
    if error:
        lines += ["### Not possible", "", *quoted(error.splitlines())]
    return "\n".join(lines).rstrip() + "\n"


def _of_cluster(host: str, planned: _Planned) -> list[str]:
    origin = planned.provenance
    at = f" at {origin.commit[:10]}" if origin.commit else ""
    steps = sorted(planned.steps, key=lambda line: (line.step.action in _LAST, ACTIONS.index(line.step.action)))
    rows = [_row(line) for line in steps[:MOST_ROWS]]
    more = len(steps) - len(rows)
    hours = [line.node_hours for line in steps if line.launches]
    known = sum(each for each in hours if each is not None)
    unlimited = " and what the launches without a time limit use" if None in hours else ""
    return [
        escaped(f"{host}: {planned.set}{at}{' with uncommitted changes' if origin.dirty else ''}"),
        "",
        *table(("action", "job", "old -> new, or why", "node-hours at most"), rows),
        "",
        *([f"And {more} more lines.", ""] if more > 0 else []),
        f"Launches: {len(hours)}, at most {significant(known, 4)} node-hours{unlimited}.",
        "",
    ]


def _row(line: PlanLine) -> tuple[object, ...]:
    step = line.step
    job = f"{'array' if line.is_sweep else 'job'} {step.job_id}" if step.job_id else ""
    where = ", ".join(filter(None, (step.file or "removed", job)))
    why = f"not possible: {line.error}" if line.error else short_list(line.changes, 8) if line.changes else step.reason
    hours = "-" if line.node_hours is None else significant(line.node_hours, 4)
    return (step.action, f"{step.name} ({where})", why, hours)
