# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Launches that have succeeded, side by side: their metrics, and how they scale from the first one. Reads only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import duration
from ansible_collections.rankzero.slurm.plugins.module_utils.report.changed_code import changed_code
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_end import LaunchName
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launches import final_reports
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.find import one_run, select_runs
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import (
    STATE_ARGUMENTS,
    newest_of_each,
    selection,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import shown
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import suggestion

#: The times that programs report, in the order of preference. Without any of them it is the time of the whole job.
TIMES = ("seconds_per_epoch", "seconds_per_step")
WALL_TIME = "wall_time"
#: Launches without a result that one line names.
MOST_NAMED = 6
#: Launches whose code is compared with that of the first.
MOST_CODE = 4

ARGUMENTS: dict[str, Any] = {
    "launches": {"type": "list", "elements": "str", "required": True},
    "time": {"type": "str"},
    **STATE_ARGUMENTS,
}


@dataclass(frozen=True)
class Measured(LaunchName):
    """What one launch has come to. `scalars` are the numbers of its artifact, times are in seconds.

    `speed_up`, `efficiency` and `code_changes` are those against the first launch of the comparison.
    """

    job_id: str | None
    run_dir: str
    nodes: int
    ranks: int | None
    wall_time: float | None
    scalars: Mapping[str, float] = field(default_factory=dict)
    seconds: float | None = None
    speed_up: float | None = None
    efficiency: float | None = None
    code_changes: Sequence[str] = ()

    def time(self, name: str) -> float | None:
        """The time of that name."""
        return self.wall_time if name == WALL_TIME else self.scalars.get(name)


def numbers(values: Mapping[str, object]) -> dict[str, float]:
    """The values that are finite numbers."""
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    }


def time_of(launches: Sequence[Measured], asked: str | None) -> str:
    """The name of the time that all launches have. Raises `RankzeroError` if they do not have the one asked for."""
    shared = [name for name in launches[0].scalars if all(name in launch.scalars for launch in launches)]
    if asked and asked != WALL_TIME and asked not in shared:
        raise RankzeroError(
            f"time: the artifacts of these launches do not all have the number {asked!r}{suggestion(asked, shared)}; "
            f"they have {', '.join(shared) or 'none'}, and {WALL_TIME} is known of each"
        )
    return asked or next((name for name in TIMES if name in shared), WALL_TIME)


def scaled(launches: Sequence[Measured], time: str) -> list[Measured]:
    """The launches with their speed-up and efficiency against the first one, by that time."""
    first = launches[0]
    base = first.time(time)
    results = []
    for launch in launches:
        seconds = launch.time(time)
        speed_up = base / seconds if base and seconds else None
        growth = launch.ranks / first.ranks if launch.ranks and first.ranks else None
        efficiency = speed_up / growth if speed_up and growth else None
        results.append(replace(launch, seconds=seconds, speed_up=speed_up, efficiency=efficiency))
    return results


def table(launches: Sequence[Measured], time: str) -> list[str]:
    """Aligned lines for people: a column for each launch."""
    rows: list[tuple[str, list[str]]] = [
        ("launch", [launch.short_name for launch in launches]),
        ("job", [launch.job_id or "-" for launch in launches]),
        ("nodes", [str(launch.nodes or "-") for launch in launches]),
        ("ranks", [str(launch.ranks or "-") for launch in launches]),
        (WALL_TIME, [duration(launch.wall_time) for launch in launches]),
    ]
    for name in dict.fromkeys(name for launch in launches for name in launch.scalars):
        rows.append((name, [_number(launch.scalars.get(name)) for launch in launches]))
    rows.append((f"speed-up ({time})", [_number(launch.speed_up) for launch in launches]))
    rows.append(("efficiency", [_percent(launch.efficiency) for launch in launches]))
    lines = [[name, *cells] for name, cells in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(launches) + 1)]
    return [printable("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()) for line in lines]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def compare(slurm: Slurm, options: Parameters) -> ModuleResult:
    """Return the result of module job_compare. Raises `RankzeroError`."""
    runs = _selected(options)
    reports = final_reports(slurm, runs)
    unproven = [launch for launch in reports if not launch.success]
    if unproven and len(reports) - len(unproven) < 2:
        raise RankzeroError(
            "launches: only launches that have succeeded can be compared, at least two; "
            + "; ".join(f"{launch.short_name}: {launch.message}" for launch in unproven)
        )
    measured, proven = [], []
    for run, launch in zip(runs, reports):
        if not launch.success:
            continue
        started = run.started()
        artifact = launch.artifact
        identity = (launch.name, launch.key, launch.generation, launch.job_id, launch.run_dir)
        ranks = started.get("world_size") if started else None
        values = numbers(artifact.scalars if artifact else {})
        measured.append(Measured(*identity, len(launch.nodes), ranks, launch.wall_time, values))
        proven.append(run)
    time = time_of(measured, options.get("time"))
    results = _with_code(scaled(measured, time), proven)
    lines = [*table(results, time), *_left_out(unproven), *_code_lines(results)]
    return {"time": time, "launches": [asdict(launch) for launch in results], "lines": lines}


def _with_code(launches: Sequence[Measured], runs: Sequence[RunDirectory]) -> list[Measured]:
    """The launches, the first ones with the changed lines of their code."""
    return [
        replace(launch, code_changes=changed_code(runs[0], run)) if 0 < number <= MOST_CODE else launch
        for number, (launch, run) in enumerate(zip(launches, runs))
    ]


def _code_lines(launches: Sequence[Measured]) -> list[str]:
    """The changed lines of code, below the launch whose they are."""
    base, lines = launches[0].short_name, []
    for launch in launches:
        if launch.code_changes:
            lines += ["", f"code, {base} -> {launch.short_name}:", *(f"  {line}" for line in launch.code_changes)]
    return lines


def _left_out(unproven: Sequence[LaunchReport]) -> list[str]:
    """The launches that have no result, in one line."""
    if not unproven:
        return []
    named = [f"{launch.short_name} ({shown(launch.standing, launch.slurm_state)})" for launch in unproven[:MOST_NAMED]]
    named += [f"and {len(unproven) - MOST_NAMED} more"] if len(unproven) > MOST_NAMED else []
    return [printable(f"left out, without a result: {', '.join(named)}")]


def _selected(options: Parameters) -> list[RunDirectory]:
    """The launches to compare, in order; of a single name the newest generation of each key, oldest first."""
    selections = [{**selection(launch), "state_root": options["state_root"]} for launch in options["launches"]]
    if len(selections) == 1:
        runs = newest_of_each(select_runs(selections[0]))[::-1]
    else:
        runs = [one_run(selected) for selected in selections]
    if len({run.path for run in runs}) < 2:
        raise RankzeroError(
            f"launches: a comparison needs two different launches; {len(runs) or 'none'} selected. Give two, or one "
            "name under which several keys are recorded."
        )
    return runs
