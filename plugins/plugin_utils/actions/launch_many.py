# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Code shared by the actions that launch sweeps and pipelines. Separate, so that a single launch does not load it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import JOB_SWEEP
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    ModuleResult,
    Parameters,
    TaskVariables,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Upstream
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.launch import LaunchAction
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.pipeline import Rendered, Stage
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import Prepared
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import Job
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.sweep import PreparedSweep, prepare_sweep


class LaunchManyAction(LaunchAction):
    """Base of the actions that render several launches at once."""

    def prepared_sweep(
        self,
        job: Job,
        relaunch: str,
        facts: Mapping[str, object] | None = None,
        *,
        after: Sequence[Upstream] | None = None,
    ) -> PreparedSweep:
        """The launches of a job with a section `sweep`."""

        job = self.located(job)

        def prepared(sweep_job: Job, elements: Sequence[LaunchSpec]) -> Prepared:
            return self.prepared(sweep_job, relaunch, facts, elements=elements, after=after)

        return prepare_sweep(job, self.roots(job)[0], prepared)

    def launched_sweep(
        self, job: Job, sweep: PreparedSweep, arguments: Parameters, task_vars: TaskVariables
    ) -> ModuleResult:
        """Call module `job_sweep`, with the secrets. arguments: its `job`, `state` and `elements`."""
        lines = self.secrets(job, task_vars) if arguments.get("state") == "present" else b""

        def called(**more: Any) -> ModuleResult:
            shipped = {"x_secrets_file": self.ship_secrets(lines)} if lines and not self._task.check_mode else {}
            given = {**arguments, "x_request": sweep.sent(), **shipped, **more}
            return self.call("rankzero.slurm.job_sweep", given, task_vars, JOB_SWEEP)

        return self.with_runtime(called, sweep.first.runtime)

    def rendered(
        self, stage: Stage, before: Sequence[Rendered], relaunch: str, facts: Mapping[str, object] | None = None
    ) -> Rendered:
        """Render a stage of a pipeline. `before`: the stages rendered so far, in order."""
        after = [before[index].upstream() for index in stage.after]
        prepare = self.prepared_sweep if stage.job.spec.sweep else self.prepared
        return Rendered(stage, prepare(stage.job, relaunch, facts, after=after))

    def launched_stage(
        self, stage: Stage, launch: Prepared | PreparedSweep, task_vars: TaskVariables, *, state: str = "present"
    ) -> ModuleResult:
        """Launch a stage with module `job` or `job_sweep`."""
        given = {"job": stage.path, "state": state}
        if isinstance(launch, PreparedSweep):
            return self.launched_sweep(stage.job, launch, {**given, "elements": []}, task_vars)
        return self.launched(stage.job, launch, given, task_vars)
