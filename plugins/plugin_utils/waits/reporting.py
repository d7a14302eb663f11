# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a launch: its result card, and a failure unless its result is proven.

The action `job_report` and the command `rankzero` both do this. Nothing here imports Ansible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    ModuleResult,
    Parameters,
    TaskVariables,
    play_of,
    record_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_end import LaunchEnd
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import SUCCEEDED, UNPROVEN
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.card import card, last_words
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.ending import (
    NOTHING_KNOWN,
    Ending,
    FetchedLogs,
    Launched,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.messages import Screen
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.report_rows import hints, report

if TYPE_CHECKING:
    from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.diagnosis import Diagnosis


@dataclass(frozen=True)
class Ended:
    """The results of the role's tasks: of the launch, the wait, the logs and the diagnosis."""

    launch: Parameters
    result: Parameters
    logs: Parameters
    diagnosis: Parameters


def reported(given: Ended, screen: Screen, task_vars: TaskVariables) -> ModuleResult:
    """Show the end of a launch, and return the result of the report. `task_vars`: for the commands that it names."""
    launch, logs = Launched.of(given.launch), record_of(FetchedLogs, given.logs)
    end = record_of(LaunchEnd, {**vars(NOTHING_KNOWN), **given.result})
    ledger = _ledger(given, end, logs.dest)
    ending = Ending(
        launch,
        end,
        str(given.result.get("msg") or ""),
        logs,
        _diagnosis(given.diagnosis),
        given.diagnosis.get("lines") or (),
        str((ledger or {}).get("sentence") or ""),
    )
    host = play_of(task_vars).host
    lines = card(ending)
    if end.completed and not end.success:
        lines += [f"  {line}" for line in ending.lines or (last_words(logs.dest) if logs.dest else [])]
    if screen.draws:
        for row in report(task_vars, ending):
            screen.row(row)
    else:
        for line in lines:
            screen.display(f"{host}: {line}", color="green" if end.success else None)
    # Ansible's own callback prints a failed result as JSON, so it does not contain the card that was just shown.
    report_result = {"changed": False, "standing": end.standing, "ledger": ledger}
    if end.standing == SUCCEEDED:
        lost = logs.connection_lost or logs.unreachable
        # A lost connection says nothing about the launch; any other reason for missing logs is an error.
        if logs.msg and not logs.dest and not lost:
            return {**report_result, "failed": True, "msg": f"{launch.name}: its logs: {logs.msg}"}
        return {**report_result, "card": lines}
    if end.standing in UNPROVEN:
        return {
            **report_result,
            "failed": True,
            "msg": f"{launch.name} {end.standing}: {ending.message or 'see the card'}",
        }
    message = (
        f"{launch.name}: the wait ended before job {launch.job_id}; the job continues. "
        f"{ending.problem} {hints(launch, task_vars)}"
    )
    return {**report_result, "failed": True, "msg": message}


def _diagnosis(result: Parameters) -> Diagnosis | None:
    """What module job_diagnosis has found, if it was run. Imported only for a failure."""
    given = result.get("diagnosis")
    if not given:
        return None
    from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.diagnosis import Diagnosis

    return Diagnosis.of(given)


def _ledger(given: Ended, end: LaunchEnd, logs_dir: str) -> ModuleResult | None:
    """What the hours of a launch that has ended went to; None where that is not known."""
    diagnosed: ModuleResult | None = (given.diagnosis.get("diagnosis") or {}).get("ledger")
    if diagnosed or not end.completed or not logs_dir:
        return diagnosed or None
    # Imported only where a launch has ended.
    from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.hours import hours

    return hours(given.result, logs_dir)
