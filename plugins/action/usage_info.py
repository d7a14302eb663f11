# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `usage_info`: write the rows as CSV here."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    ModuleResult,
    Parameters,
    record_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.sums import ACTION_ARGUMENTS, ARGUMENTS
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import Presented
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page.output import write_files


@dataclass(frozen=True)
class _Options:
    """The options that the module does not read."""

    dest: str | None = None


@dataclass(frozen=True)
class _Table:
    """The part of the module's answer that is written to a file."""

    csv: str


class ActionModule(Presented):
    ARGUMENTS = ARGUMENTS
    ACTION_ARGUMENTS = ACTION_ARGUMENTS

    def presented(self, options: Parameters, result: ModuleResult) -> ModuleResult:
        dest = record_of(_Options, options).dest
        if not dest:
            return result
        text = record_of(_Table, result).csv
        differences = write_files({os.path.abspath(dest): text}, pretend=self._task.check_mode)
        return {**result, "changed": bool(differences), "diff": differences}
