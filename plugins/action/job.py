# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `job`: turn layers into a plan and rendered files, then call the module on the cluster once."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, TaskVariables
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.launch import LaunchAction
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.one_launch import OneLaunch


class ActionModule(OneLaunch, LaunchAction):
    def act(self, task_vars: TaskVariables) -> ModuleResult:
        options = ("job", "cluster", "overrides", "relaunch", "state", "explain", "planned", "first")
        return self.launch(self.given(*options, "missing", "logs_dest"))
