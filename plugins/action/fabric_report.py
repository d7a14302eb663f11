# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `fabric_report`: show the table, and write the choice to a file here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.result import ACTION_ARGUMENTS, ARGUMENTS
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.fabric_file import is_read, write_file
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import call_module
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action, display
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.hints import launch_command


@dataclass(frozen=True)
class _Options:
    """The options that the action itself reads."""

    run_dir: str
    overwrite: bool
    dest: str | None = None


@dataclass(frozen=True)
class _Report:
    """The module's answer: the lines of the table, and the text of a file of group variables."""

    table: Sequence[str]
    group_vars: str


class ActionModule(Action):
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _checked, checked = self.validate_argument_spec(ACTION_ARGUMENTS)
        options = record_of(_Options, checked)
        given = {name: value for name, value in self._task.args.items() if name in ARGUMENTS}
        result = call_module(self, "rankzero.slurm.fabric_report", given, task_vars, ACTION_ARGUMENTS)
        if result.pop("no_result", False):
            how = launch_command("diagnose", options.run_dir, task_vars)
            result.update(msg=f"{result.get('msg')} (to see why: {how})")
        if result.get("failed"):
            return result
        host = (task_vars or {}).get("inventory_hostname", "localhost")
        report = record_of(_Report, result)
        for line in report.table:
            display.display(f"{host}: {line}", color="yellow" if line.startswith("! ") else None)
        if options.dest:
            dest = os.path.abspath(options.dest)
            try:
                done = write_file(dest, report.group_vars, overwrite=options.overwrite, pretend=self._task.check_mode)
            except RankzeroError as error:
                return {**result, "failed": True, "msg": error.message}
            result.update(done.result())
            would = "would be written" if self._task.check_mode else "written"
            display.display(f"{host}: {os.path.relpath(dest)}: {would if done.changed else 'is as it was'}")
            if not is_read(dest, (task_vars or {}).get("ansible_inventory_sources") or []):
                display.warning(
                    f"{os.path.relpath(dest)}: Ansible does not read this file: its group_vars is not beside an "
                    "inventory of this run. Give one such as -e fabric_output=inventory/group_vars/slurm_login.yml"
                )
        return result
