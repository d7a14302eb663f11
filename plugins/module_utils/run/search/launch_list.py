# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List launches, as module job_info returns them: the ended ones from the index, all others from run directories and
Slurm's answer.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Mapping
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.run.answers import ask_slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launches import report, untrusted
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.find import (
    choice_made,
    find_runs,
    indexed_runs,
    one_run,
    what_there_is,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.history import History
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import is_launch
from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import trusted_runs
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import find_by_id


def job_info(slurm: Slurm, options: Parameters) -> ModuleResult:
    """Return the result of module job_info. `limit` and the other options: as the module documents them."""
    choice = None
    if options.get("single"):
        run, history = one_run(options, slurm), History(os.path.expanduser(options["state_root"]))
        runs, choice = [run], choice_made(slurm, options, run)
    else:
        runs, history = indexed_runs(options, newest=bool(options.get("newest")), strange=True)
    active, limit = bool(options.get("active")), int(options.get("limit") or 0)
    ended = {run.path for run in runs if is_launch(run.path) and history.may_have(run)}
    reports: dict[str, LaunchReport] = {}
    while True:
        unread = [run for run in runs if run.path not in ended and run.path not in reports]
        reports.update(_reports(slurm, unread, history))
        shown = [run for run in runs if run.path in reports and reports[run.path].active] if active else runs
        shown, omitted = _most_recent(shown, reports, history, limit)
        # What is returned is compared with each of its files.
        changed = {run.path for run in shown if run.path not in reports and not history.has(run)}
        if not changed:
            break
        ended -= changed
    runs = shown
    launches = [reports[run.path].as_dict() if run.path in reports else history.launch(run) for run in runs]
    result: dict[str, Any] = {"launches": launches, "omitted": omitted, "slurm_commands": slurm.commands}
    if choice:
        result["choice"] = choice
    if not launches:
        result["message"] = _nothing_found(slurm, options)
        result["slurm_commands"] = slurm.commands
    return result


def _reports(slurm: Slurm, runs: list[RunDirectory], history: History) -> dict[str, LaunchReport]:
    """Return the reports on launches from their run directories and Slurm's answer, and add the ended ones to the
    index.
    """
    facts, bad = trusted_runs(runs)
    good = [run for run in runs if run.path in facts]
    answer = ask_slurm(slurm, good, read=facts)
    reports = {run.path: report(slurm, run, answer) for run in good}
    if not answer.silent and not answer.queue_only:
        history.keep(reports.values())
    if answer.silent:
        slurm.note(answer.silent)
    return {**reports, **{path: untrusted(RunDirectory(path), why) for path, why in bad.items()}}


def _most_recent(
    runs: list[RunDirectory], reports: Mapping[str, LaunchReport], history: History, limit: int
) -> tuple[list[RunDirectory], int]:
    """Return the active launches and the `limit` most recent others, in the same order, and how many are left out."""

    def ended_at(run: RunDirectory) -> float:
        report = reports.get(run.path)
        return history.ended_at(run) if report is None else report.finished_at or report.started_at or 0.0

    active = {path for path, report in reports.items() if report.active}
    over = [run for run in runs if run.path not in active]
    if not 0 < limit < len(over):
        return runs, 0
    kept = active | {run.path for run in heapq.nlargest(limit, over, key=ended_at)}
    return [run for run in runs if run.path in kept], len(over) - limit


def _nothing_found(slurm: Slurm, options: Mapping[str, Any]) -> str:
    root = os.path.expanduser(options["state_root"])
    given = [f"{o} {options[o]}" for o in ("name", "key", "generation", "job_id") if options.get(o)]
    active = "active " if options.get("active") else ""
    text = f"no {active}launch{' with ' + ', '.join(given) if given else ''} is recorded under {root}"
    if not options.get("job_id"):
        # An empty list is no mistake where nothing was asked for, or the name is known.
        known = not options.get("name") or (not options.get("key") and find_runs(root, name=options["name"]))
        return text if known else text + what_there_is(options)
    record = next(iter(find_by_id(slurm, [options["job_id"]]).values()), None)
    if record is None:
        return f"{text}, and Slurm does not know that job"
    return f"{text}; Slurm knows the job as {record.name!r} ({record.state}), so another program or state_root made it"
