# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `job_diagnosis`: read a site's failure families here and send them as data, and ask its reader."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.explain.options import DIAGNOSIS_SPEC
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import call_module
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.reader import reader_of, with_reading
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action


@dataclass(frozen=True)
class _Options:
    """The options that the action itself reads."""

    families: Sequence[str] = ()
    code_roots: Sequence[str] | None = None
    reader: Mapping[str, Any] | None = None


class ActionModule(Action):
    _supports_check_mode = True
    _supports_async = True
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        public = {name: spec for name, spec in DIAGNOSIS_SPEC.items() if not name.startswith("x_")}
        _checked, checked = self.validate_argument_spec(public)
        options = record_of(_Options, checked)
        here = ("code_roots", "reader")
        arguments = {name: value for name, value in self._task.args.items() if name not in here}
        try:
            reader = reader_of(options.reader)
        except RankzeroError as error:
            return {"failed": True, "msg": error.message}
        if reader is not None:
            arguments.update(x_digest=True)
        if options.families:
            # Imported here, because a diagnosis without families needs no YAML.
            from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.allowed_folders import Roots
            from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.failure_families import load_families

            try:
                roots = Roots.of(options.code_roots, os.getcwd())
                arguments.update(x_families=load_families(options.families, os.getcwd(), roots))
            except RankzeroError as error:
                return {"failed": True, "msg": error.message, **error.partial}
        result = call_module(self, "rankzero.slurm.job_diagnosis", arguments, task_vars, DIAGNOSIS_SPEC)
        return with_reading(result, reader) if reader is not None else result
