# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which cluster a task of a user's own play acts on: one, unless the play has chosen several."""

from __future__ import annotations

from ansible import constants as C

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, TaskVariables
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import Direct
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.clusters import CHECKED, checked_for, refuse_clusters
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action


def is_checked(task_vars: TaskVariables) -> bool:
    """Whether a playbook of ours has checked the variables of this play."""
    return bool(task_vars.get(CHECKED) == checked_for(C.DEFAULT_LOCAL_TMP, task_vars))


def refuse_unchosen(action: Action, task_vars: TaskVariables) -> None:
    """Raise RankzeroError if a task of a user's own play would act on several clusters that nobody has chosen."""
    if not is_checked(task_vars) and not action._task.run_once:
        refuse_clusters(None, {}, task_vars)


class DirectToOne(Direct):
    """A Direct that changes something on one cluster."""

    of_one_cluster = True

    def run(self, tmp: str | None = None, task_vars: TaskVariables | None = None) -> ModuleResult:
        """Ansible's entry."""
        try:
            refuse_unchosen(self, task_vars or {})
        except RankzeroError as error:
            return {"failed": True, "changed": False, "msg": error.message}
        return super().run(tmp, task_vars)
