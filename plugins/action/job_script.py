# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `job_script`: render the launch as `job` does, but submit nothing."""

from __future__ import annotations

from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import JOB_SCRIPT
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import with_generation
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Invalid, integer
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.launch import LaunchAction
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import call_module
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import BATCH, MANIFEST


def wanted_generation(value: object) -> int:
    """The value of the option `generation`: 1 if not given."""
    try:
        return 1 if value is None else int(integer(1).parse(value))
    except Invalid as error:
        raise RankzeroError(f"generation: {error}") from None


class ActionModule(LaunchAction):
    def act(self, task_vars: dict[str, Any]) -> dict[str, Any]:
        given = self.given("job", "cluster", "overrides", "generation", "path")
        generation = wanted_generation(given.generation)
        job = self.job_of(given)
        prepared = self.prepared(job, given.relaunch)
        files = {name: with_generation(text, prepared.plan.token, generation) for name, text in prepared.files.items()}
        result = {
            "changed": False,
            "name": prepared.plan.name,
            "key": prepared.plan.key,
            "generation": generation,
            "script": files[BATCH],
            "launch": files[MANIFEST],
            "plan": prepared.lines,
            "explain": prepared.explained(),
            "world_size": prepared.plan.topology.world_size,
        }
        if given.path:
            asked = {"job": given.job, "path": given.path, "x_script": files[BATCH]}
            return {**result, **call_module(self, "rankzero.slurm.job_script", asked, task_vars, JOB_SCRIPT)}
        return result
