# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a wait for launches has ended, in words."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, TaskVariables
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import shown
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.launch import Watch
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.many import Waits
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.hints import launch_command


def ending(last: LaunchReport, watch: Watch) -> str:
    """How a wait has ended, in a sentence."""
    if last.completed:
        took = "" if last.wall_time is None else f" after {last.wall_time:.0f} s"
        return f"{shown(last.standing, last.slurm_state)}{took}: {last.message}"
    if watch.done and watch.hopeless is None:
        sentences = {"started": "started", "artifact": "the artifact is valid", "pattern": "the line is there"}
        return f"{sentences[watch.until]}; not waiting for its end"
    return last.message


def lost(host: str, waits: Waits, reason: str, task_vars: TaskVariables | None) -> str:
    """The message when the connection stays lost. `task_vars`: for the command that attaches to a single launch."""
    jobs = waits.jobs()
    which = f"Job {jobs[0]} is" if len(jobs) == 1 else f"Its {len(jobs)} jobs are"
    by_hand = ""
    if task_vars is not None:
        by_hand = f", or with: {launch_command('attach', waits.watches[0].run_dir, task_vars)}"
    return (
        f"the connection to {host} was lost, and {reason}. {which} not affected. Attach again by running the same "
        f"command{by_hand}"
    )


def together(answer: ModuleResult, launches: Sequence[tuple[LaunchReport, ModuleResult]]) -> ModuleResult:
    """The combined result for several launches, of which each has its report and its own result."""
    reports = [report for report, _result in launches]
    good, over = sum(report.success for report in reports), sum(report.completed for report in reports)
    bad = [report for report in reports if report.completed and not report.success]
    message = f"{good} of {len(reports)} succeeded, {len(bad)} failed, {len(reports) - over} not over"
    told = "; ".join(f"{report.name} (job {report.job_id}): {report.message}" for report in bad[:5])
    more = f"; and {len(bad) - 5} more" if len(bad) > 5 else ""
    return {
        **answer,
        "launches": [result for _report, result in launches],
        "completed": over == len(reports),
        "success": good == len(reports),
        "message": f"{message}{': ' if told else ''}{told}{more}",
    }
