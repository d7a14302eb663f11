# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `fabric_report`: show the table, and write the choice to a file here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    ModuleFailed,
    ModuleResult,
    Parameters,
    record_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.result import ACTION_ARGUMENTS, ARGUMENTS
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.fabric_file import is_read, write_file
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import Presented
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import display
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


class ActionModule(Presented):
    ARGUMENTS = ARGUMENTS
    ACTION_ARGUMENTS = ACTION_ARGUMENTS

    def asked(self, options: Parameters) -> ModuleResult:
        try:
            return super().asked(options)
        except ModuleFailed as error:
            if error.result.pop("no_result", False):
                how = launch_command("diagnose", record_of(_Options, options).run_dir, self._task_vars)
                error.result.update(msg=f"{error} (to see why: {how})")
            raise

    def presented(self, options: Parameters, result: ModuleResult) -> ModuleResult:
        report, chosen = record_of(_Report, result), record_of(_Options, options)
        for line in report.table:
            self.show_line(line, "yellow" if line.startswith("! ") else None)
        if chosen.dest:
            dest = os.path.abspath(chosen.dest)
            done = write_file(dest, report.group_vars, overwrite=chosen.overwrite, pretend=self._task.check_mode)
            result.update(done.result())
            would = "would be written" if self._task.check_mode else "written"
            self.show_line(f"{os.path.relpath(dest)}: {would if done.changed else 'is as it was'}")
            if not is_read(dest, self.play.inventories):
                display.warning(
                    f"{os.path.relpath(dest)}: Ansible does not read this file: its group_vars is not beside an "
                    "inventory of this run. Give one such as -e fabric_output=inventory/group_vars/slurm_login.yml"
                )
        return result
