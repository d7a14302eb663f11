# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `job_wait`: poll through the module, show what happens, then let it report again."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters, record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import WAIT_SPEC, WaitOptions
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import call_module
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action, display
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.carrier import Spec
from ansible_collections.rankzero.slurm.plugins.plugin_utils.waits.waiting import Wait


class ActionModule(Wait, Action):
    _supports_check_mode = True
    _supports_async = False
    LOST = (AnsibleConnectionFailure,)
    FAILED = (AnsibleError,)
    screen = display

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        public = {name: spec for name, spec in WAIT_SPEC.items() if not name.startswith("x_")}
        _checked, options = self.validate_argument_spec(public)
        self.inventory = task_vars or {}
        self.arguments = self._task.args
        self.check_mode = bool(self._task.check_mode)
        self.alone = len(self.play.hosts or [self.host]) == 1
        return self.waited(record_of(WaitOptions, options))

    def call(self, module: str, module_args: Parameters, spec: Spec | None) -> ModuleResult:
        """Run a module on the host."""
        return call_module(self, module, module_args, self.inventory, spec)

    def connection(self) -> Any:
        """As the base says."""
        return self._connection
