# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `course_class`: add the command that each student types, with the inventory of this run."""

from __future__ import annotations

from typing import Any

from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import call_module
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.hints import playbook_command

# The playbook of a student's project (docs/course.md).
PLAYBOOK = "train.yml"


class ActionModule(Action):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        result = call_module(self, "rankzero.slurm.course_class", self._task.args, task_vars, None)
        for student in result.get("students", []):
            student["command"] = playbook_command(PLAYBOOK, task_vars or {}, student["vars"])
        return result
