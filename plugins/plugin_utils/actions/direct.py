# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action of a module that needs nothing from the controller: it runs there as all others do.

Without an action Ansible would run it by itself, and a host whose Python is too old would answer with a traceback.
"""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import ModuleResult, TaskVariables
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import call_module
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action


class Direct(Action):
    """Runs the module that has the name of the action's file."""

    _supports_check_mode = True
    _supports_async = True
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: TaskVariables | None = None) -> ModuleResult:
        """Ansible's entry."""
        super().run(tmp, task_vars)
        name = type(self).__module__.rpartition(".")[2]
        return call_module(self, f"rankzero.slurm.{name}", self._task.args, task_vars, None)
