# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `job_sweep`: from layers to elements to one script with its parameter lines, then one call."""

from __future__ import annotations

from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import answer_of
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.result import SweepResult
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.launch_many import LaunchManyAction
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import display


class ActionModule(LaunchManyAction):
    def act(self, task_vars: dict[str, Any]) -> dict[str, Any]:
        options = self.given("job", "cluster", "overrides", "relaunch", "state", "elements", "missing", "logs_dest")
        job = self.job_of(options)
        sweep = self.prepared_sweep(job, options.relaunch)
        given = {
            "job": options.job,
            "state": options.state or "present",
            "elements": options.elements or [],
        }
        result = self.launched_sweep(job, sweep, given, task_vars)
        result = self.completed(result, sweep.first, job, sweep.lines)
        for line in _lines(result, sweep.lines):
            display.display(f"{self.host}: {line}")
        return result


def _lines(result: dict[str, Any], lines: list[str]) -> list[str]:
    """The result as text: the plan if anything is submitted, and the number of elements for each outcome."""
    if answer_of(result).failed:
        return []
    made = SweepResult.of(result)
    counts = ", ".join(f"{count} {name}" for name, count in made.counts.items())
    answer = [f"  {counts}; {made.sweep_dir}"]
    answer += [f"  array {array.job_id}: {array.elements} elements" for array in made.arrays]
    answer += [f"  to be built first: {', '.join(ref.kind for ref in made.missing)}"] if made.missing else []
    first, *rest = lines
    plan = [f"  {line}" for line in rest] if made.submission in ("planned", "submitted") else []
    return [first, *plan, *answer]
