# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `fabric_report`: show the table, and write the choice to a file here."""

from __future__ import annotations

import os
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.result import ACTION_ARGUMENTS, ARGUMENTS
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.fabric_file import is_read, write_file
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import call_module
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action, display
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.hints import launch_command


class ActionModule(Action):
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(ACTION_ARGUMENTS)
        given = {name: value for name, value in self._task.args.items() if name in ARGUMENTS}
        result = call_module(self, "rankzero.slurm.fabric_report", given, task_vars, ACTION_ARGUMENTS)
        if result.pop("no_result", False):
            result["msg"] += f" (to see why: {launch_command('diagnose', options['run_dir'], task_vars)})"
        if result.get("failed"):
            return result
        host = (task_vars or {}).get("inventory_hostname", "localhost")
        for line in result["table"]:
            display.display(f"{host}: {line}", color="yellow" if line.startswith("! ") else None)
        if options["dest"]:
            dest = os.path.abspath(options["dest"])
            try:
                done = write_file(
                    dest, result["group_vars"], overwrite=options["overwrite"], pretend=self._task.check_mode
                )
            except RankzeroError as error:
                return {**result, "failed": True, "msg": error.message}
            result.update(done)
            would = "would be written" if self._task.check_mode else "written"
            display.display(f"{host}: {os.path.relpath(dest)}: {would if done['changed'] else 'is as it was'}")
            if not is_read(dest, (task_vars or {}).get("ansible_inventory_sources") or []):
                display.warning(
                    f"{os.path.relpath(dest)}: Ansible does not read this file: its group_vars is not beside an "
                    "inventory of this run. Give one such as -e fabric_output=inventory/group_vars/slurm_login.yml"
                )
        return result
