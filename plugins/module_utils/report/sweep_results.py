# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results of the elements of a sweep, and the best of them. Reads only."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    ModuleResult,
    Parameters,
    record_of,
    records_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Untrusted
from ansible_collections.rankzero.slurm.plugins.module_utils.core.state_files import SWEEP_RECORD, json_object
from ansible_collections.rankzero.slurm.plugins.module_utils.run.answers import Policy, ask_slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import (
    SWEEP_PREFIX,
    RunDirectory,
    names_of_key,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_end import Artifact
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import KEY_LENGTH, STATE_ARGUMENTS
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import (
    FAILED,
    SUCCEEDED,
    UNKNOWN,
    UNSUBMITTED,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import LaunchStatus
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import suggestion
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.sweep_elements import Element, newest_generations

# A metric that is not at the artifact's top level is read from the file, if the file is no larger than this (bytes).
MOST_BYTES = 4 * 1024 * 1024
_NAMES_SHOWN = 20

ARGUMENTS: dict[str, Any] = {
    "sweep_dir": {"type": "path"},
    "name": {"type": "str"},
    "key": {"type": "str", "no_log": False},
    **STATE_ARGUMENTS,
    "metric": {"type": "str"},
    "goal": {"type": "str", "choices": ["min", "max"]},
}
# Options of the controller's action, which processes the results; the module does not read them.
ACTION_ARGUMENTS: dict[str, Any] = {
    **ARGUMENTS,
    "wait": {"type": "bool", "default": False},
    "wait_timeout": {"type": "int", "default": 0},
    "poll_max": {"type": "float", "default": 15.0},
    "reconnect_timeout": {"type": "int", "default": 120},
    "dest": {"type": "path"},
}


@dataclass(frozen=True)
class ElementRow:
    """What an element of a sweep has come to. Times are in epoch seconds, `wall_time` is in seconds.

    `slurm_state`: what Slurm calls its job. `scalars`: the values of its artifact; `metric`: the
    one by which elements are compared.
    """

    number: int
    key: str
    parameters: Mapping[str, str]
    standing: str = UNSUBMITTED
    slurm_state: str | None = None
    metric: float | None = None
    scalars: Mapping[str, object] = field(default_factory=dict)
    message: str = ""
    job_id: str | None = None
    generation: int | None = None
    run_dir: str | None = None
    wall_time: float | None = None
    finished_at: float | None = None


@dataclass(frozen=True)
class SweepOutcome:
    """What a sweep has come to, with the fields that module `job_sweep_info` documents."""

    name: str
    key: str
    sweep_dir: str
    metric: str | None
    goal: str
    elements: Sequence[ElementRow]
    counts: Mapping[str, int]
    completed: bool = False
    success: bool = False
    best: ElementRow | None = None
    first_failed: ElementRow | None = None
    silent: str = ""

    @classmethod
    def of(cls, result: Parameters) -> SweepOutcome:
        """Read the result of the module. Fields that the module or the action adds are left out."""
        row = partial(record_of, ElementRow)
        return record_of(cls, result, elements=partial(records_of, ElementRow), best=row, first_failed=row)

    def as_dict(self) -> ModuleResult:
        """Return the fields as the module returns them."""
        rows = {
            name: row and dict(vars(row)) for name, row in (("best", self.best), ("first_failed", self.first_failed))
        }
        return {**vars(self), "elements": [dict(vars(row)) for row in self.elements], **rows}


def sweep_dir(options: Parameters) -> str:
    """The folder that the options select: `sweep_dir`, else the newest sweep of `name` (with that `key`)."""
    if options.get("sweep_dir"):
        return os.path.normpath(os.path.expanduser(str(options["sweep_dir"])))
    if not options.get("name"):
        raise RankzeroError("which sweep? Give sweep_dir, as module rankzero.slurm.job_sweep returns it, or name.")
    runs = os.path.join(os.path.expanduser(options["state_root"]), "runs", options["name"])
    root = state_files.of(os.path.expanduser(options["state_root"]))
    names = [name for name in root.names(os.path.join("runs", options["name"])) if name.startswith(SWEEP_PREFIX)]
    wanted = SWEEP_PREFIX + (options.get("key") or "")[:KEY_LENGTH]
    known = [os.path.join(runs, name) for name in names if SWEEP_RECORD in names_of_key(os.path.join(runs, name))]
    folders = [path for path in known if os.path.basename(path).startswith(wanted)]
    if not folders:
        there = ", ".join(os.path.basename(path).removeprefix(SWEEP_PREFIX) for path in known) or "none"
        with_key = f" with key {options['key']}" if options.get("key") else ""
        raise RankzeroError(f"no sweep {options['name']}{with_key} is recorded in {runs}; sweeps there: {there}")
    return max(folders, key=lambda path: os.stat(os.path.join(path, SWEEP_RECORD)).st_mtime)


def results(slurm: Slurm, options: Parameters) -> SweepOutcome:
    """The result of module job_sweep_info. Raises `RankzeroError`."""
    folder = sweep_dir(options)
    record = state_files.record_of_sweep(folder)
    if record is None:
        raise RankzeroError(
            f"sweep_dir: {folder} contains no {SWEEP_RECORD} on this host; give the sweep_dir that module "
            f"rankzero.slurm.job_sweep "
            "returned"
        )
    runs = os.path.dirname(folder)
    elements = [Element(item["number"], item["key"], item["parameters"]) for item in record["elements"]]
    newest = newest_generations(runs, elements)
    answer = ask_slurm(slurm, newest.values(), Policy(decided=False))
    statuses = {number: answer.status(run) for number, run in newest.items()}
    silent = answer.silent or next((status.message for status in statuses.values() if status.standing == UNKNOWN), "")
    metric, goal = options.get("metric") or record["metric"], options.get("goal") or record["goal"]
    rows = [_row(element, statuses.get(element.number), record["artifact"], metric) for element in elements]
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.standing] = counts.get(row.standing, 0) + 1
    over = not any(status.active or status.standing == UNKNOWN for status in statuses.values())
    failed = [row for row in rows if row.standing == FAILED]
    return SweepOutcome(
        name=record["name"],
        key=record["key"],
        sweep_dir=folder,
        metric=metric,
        goal=goal,
        elements=rows,
        counts=counts,
        completed=over,
        success=over and counts.get(SUCCEEDED, 0) == len(rows),
        best=best(rows, metric, goal),
        first_failed=min(failed, key=lambda row: (row.finished_at or math.inf, row.number), default=None),
        silent=silent,
    )


def _row(element: Element, status: LaunchStatus | None, artifact: str | None, metric: str | None) -> ElementRow:
    row = ElementRow(element.number, element.key, dict(element.point))
    if status is None:
        return row
    run, record = status.run, status.record
    outcome = status.outcome if status.over else None
    row = replace(
        row,
        standing=status.standing,
        slurm_state=record.state if record else None,
        message=status.message,
        job_id=status.job_id,
        generation=run.generation,
        run_dir=run.path,
    )
    if outcome:
        begun, ended = outcome.get("started"), outcome.get("time")
        took = None if begun is None or ended is None else max(0.0, ended - begun)
        judged = Artifact.of(outcome) or Artifact()
        row = replace(row, finished_at=ended, wall_time=took, scalars=dict(judged.scalars))
    elif record is not None:
        row = replace(row, finished_at=record.end)
    if metric and status.standing == SUCCEEDED:
        row = replace(row, metric=_metric(run, row.scalars, artifact, metric))
    return row


def _metric(run: RunDirectory, values: Mapping[str, Any], artifact: str | None, metric: str) -> float | None:
    value = values.get(metric)
    if value is None and artifact:
        value = _looked_up(run, artifact, metric)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return value


def _looked_up(run: RunDirectory, artifact: str, dotted: str) -> Any:
    """The value of a dotted key in an artifact; None if it is missing."""
    try:
        document: Any = json_object(run.text(os.path.join("work", artifact), MOST_BYTES))
    except Untrusted:
        return None
    if isinstance(document, dict) and dotted in document:
        return document[dotted]
    for part in dotted.split("."):
        document = document.get(part) if isinstance(document, dict) else None
    return document


def best(rows: Sequence[ElementRow], metric: str | None, goal: str) -> ElementRow | None:
    """The row with the best metric, the first of equal ones; None without a metric or a successful element.

    Raises `RankzeroError` where elements succeeded but none of their artifacts has such a number.
    """
    proven = [row for row in rows if row.standing == SUCCEEDED]
    if not metric or not proven:
        return None
    measured = [(row.metric, row) for row in proven if row.metric is not None]
    if measured:
        sign = 1 if goal == "min" else -1
        return min(measured, key=lambda pair: sign * pair[0])[1]
    numbers = sorted(
        {
            name
            for row in proven
            for name, value in row.scalars.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        }
    )
    have = ", ".join(numbers[:_NAMES_SHOWN]) or "no number at their top"
    raise RankzeroError(
        f"sweep.metric: no artifact of the {len(proven)} elements that have succeeded has the number "
        f"{metric!r}{suggestion(metric, numbers)}; they have {have}. Change sweep.metric: nothing runs again for it."
    )
