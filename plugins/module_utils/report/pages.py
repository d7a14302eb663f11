# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a page shows: a launch, several launches side by side, a sweep, or a list of launches. Reads only."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.report.comparison import compare
from ansible_collections.rankzero.slurm.plugins.module_utils.report.page import COMPARE, INDEX, LAUNCH, SWEEP
from ansible_collections.rankzero.slurm.plugins.module_utils.report.page_data import page_data
from ansible_collections.rankzero.slurm.plugins.module_utils.report.sweep_results import results
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launches import final_reports
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.find import one_run
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.launch_list import job_info
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.listing import numbers_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import STATE_ARGUMENTS, selection
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.sums import owner_of

# Launches side by side, elements of a sweep with a chart, and points of a chart in a row of a table.
MOST_COMPARED, MOST_CHARTS, ROW_POINTS = 16, 64, 60
ARGUMENTS: dict[str, Any] = {
    "launches": {"type": "list", "elements": "str", "default": []},
    "sweep": {"type": "str"},
    "time": {"type": "str"},
    "limit": {"type": "int", "default": 500},
    **STATE_ARGUMENTS,
}
# Options of the controller's action.
ACTION_ARGUMENTS: dict[str, Any] = {
    **ARGUMENTS,
    "dest": {"type": "path"},
    "annotations": {"type": "str", "choices": ["auto", "github", "gitlab", "none"], "default": "auto"},
}


def pages(slurm: Slurm, options: Parameters) -> ModuleResult:
    """Return the result of module report_page. Raises `RankzeroError`."""
    if options.get("sweep") and options["launches"]:
        raise RankzeroError("sweep and launches: a page shows a sweep or launches; give only one of the two options")
    if options.get("sweep"):
        return _sweep(slurm, options)
    if not options["launches"]:
        return _index(slurm, options)
    runs = _selected(options)
    if len(runs) == 1:
        return {"kind": LAUNCH, "launches": [page_data(runs[0], final_reports(slurm, runs)[0], slurm)]}
    if len(runs) > MOST_COMPARED:
        raise RankzeroError(
            f"launches: {len(runs)} launches are selected, and at most {MOST_COMPARED} are shown side by side"
        )
    launches = [page_data(run, launch) for run, launch in zip(runs, final_reports(slurm, runs))]
    try:
        compared = compare(slurm, {**options, "launches": [run.path for run in runs]})
    except RankzeroError as error:
        return {"kind": COMPARE, "launches": launches, "comparison": [], "note": error.message}
    return {"kind": COMPARE, "launches": launches, "comparison": compared["launches"], "time": compared["time"]}


def _selected(options: Parameters) -> list[RunDirectory]:
    """The launches in the order of the option, each once."""
    selections = [{**selection(launch), "state_root": options["state_root"]} for launch in options["launches"]]
    runs = [one_run(selected) for selected in selections]
    return list({run.path: run for run in runs}.values())


def _sweep(slurm: Slurm, options: Parameters) -> ModuleResult:
    given = str(options["sweep"])
    chosen = {"sweep_dir": given} if given.startswith(("/", "~")) else {"name": given}
    sweep = results(slurm, {**chosen, "state_root": options["state_root"]})
    runs = [RunDirectory(row.run_dir) for row in sweep.elements if row.run_dir][:MOST_CHARTS]
    launches = [page_data(run, launch) for run, launch in zip(runs, final_reports(slurm, runs))]
    for launch in launches:
        launch["metrics"] = {name: _few(series) for name, series in launch["metrics"].items()}
        for name in ("spec", "variables", "provenance"):
            launch.pop(name)
    return {"kind": SWEEP, "sweep": sweep.as_dict(), "launches": launches}


def _index(slurm: Slurm, options: Parameters) -> ModuleResult:
    info = job_info(slurm, {"state_root": options["state_root"], "limit": options["limit"]})
    names = (
        "name",
        "key",
        "generation",
        "job_id",
        "standing",
        "slurm_state",
        "success",
        "completed",
        "message",
        "run_dir",
        "started_at",
    )
    more, owner = ("finished_at", "wall_time"), owner_of(os.path.expanduser(options["state_root"]))
    rows = [
        {
            **{name: launch[name] for name in (*names, *more)},
            "nodes": len(launch["nodes"]),
            "user": next((str(each["user"]) for each in launch["allocations"] if each.get("user")), owner),
            "values": {name: f"{value:.4g}" for name, value in list(numbers_of(launch).items())[:1]},
        }
        for launch in info["launches"]
    ]
    rows.sort(key=lambda row: row["started_at"] or 0.0, reverse=True)
    return {"kind": INDEX, "launches": rows, "omitted": info["omitted"], "state_root": options["state_root"]}


def _few(series: ModuleResult) -> ModuleResult:
    """Every n-th point of a metric, and the last one."""
    count = len(series["steps"])
    kept = sorted({*range(0, count, max(1, count // ROW_POINTS)), count - 1}) if count else []
    columns = {name: _of(series[name], kept) for name in ("steps", "times", "values", "attempts")}
    return {**series, **columns, "low": [], "high": []}


def _of(column: Sequence[Any], kept: Sequence[int]) -> list[Any]:
    return [column[index] for index in kept]
