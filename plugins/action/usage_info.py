# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `usage_info`: write the rows as CSV here."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.sums import ACTION_ARGUMENTS, ARGUMENTS
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import call_module
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page.output import write_files
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action


@dataclass(frozen=True)
class _Options:
    """The options that the module does not read."""

    dest: str | None = None


@dataclass(frozen=True)
class _Table:
    """The part of the module's answer that is written to a file."""

    csv: str


class ActionModule(Action):
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _checked, checked = self.validate_argument_spec(ACTION_ARGUMENTS)
        dest = record_of(_Options, checked).dest
        given = {name: value for name, value in self._task.args.items() if name in ARGUMENTS}
        answer = call_module(self, "rankzero.slurm.usage_info", given, task_vars, ACTION_ARGUMENTS)
        if answer.get("failed") or not dest:
            return answer
        try:
            text = record_of(_Table, answer).csv
            differences = write_files({os.path.abspath(dest): text}, pretend=self._task.check_mode)
        except RankzeroError as error:
            return {**answer, "failed": True, "msg": error.message}
        return {**answer, "changed": bool(differences), "diff": differences}
