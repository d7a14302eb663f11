# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reject extra variables that a playbook does not know, and decide what it works on. Runs on the controller only."""

from __future__ import annotations

from typing import Any

from ansible import constants as C

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.extra_variables import (
    check_extra_variables,
    check_types,
    extra_variables,
    tell_localhost,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.selection import SELECTED, selected
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.clusters import CHECKED, checked_for, refuse_clusters
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action


class ActionModule(Action):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec({"playbook": {"type": "str"}})
        playbook = options["playbook"]
        try:
            extra = extra_variables(self)
            check_extra_variables(self, playbook, extra, task_vars or {})
            if playbook == "train":
                check_types(self, task_vars or {})
            tell_localhost(self, playbook, extra, task_vars or {})
            refuse_clusters(playbook, extra, task_vars or {})
            chosen = selected(playbook, extra, task_vars or {})
        except RankzeroError as error:
            return {"failed": True, "msg": error.message}
        checked = checked_for(C.DEFAULT_LOCAL_TMP, task_vars or {})
        return {"changed": False, "ansible_facts": {CHECKED: checked, SELECTED: chosen}}
