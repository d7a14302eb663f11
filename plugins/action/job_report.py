# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show a launch's result card, and fail unless its result is proven. Runs on the controller only."""

from __future__ import annotations

from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import record_of
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.plain import plain
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action, display
from ansible_collections.rankzero.slurm.plugins.plugin_utils.waits.reporting import Ended, reported


class ActionModule(Action):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(
            {
                "launch": {"type": "dict", "required": True},
                "result": {"type": "dict", "required": True},
                "logs": {"type": "dict", "default": {}},
                "diagnosis": {"type": "dict", "default": {}},
            }
        )
        return reported(record_of(Ended, plain(options)), display, task_vars or {})
