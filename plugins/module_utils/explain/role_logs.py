# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose logs are whose in a launch with roles: which tell why it ended. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.event import CANCELLED, FileEvents
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.names import rank_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.roles import StartedRole

#: What srun says of a role that does not decide (rank/roles.py), and what no rank has said, of any role.
_OF_SRUN, _OF_ALL = "role-{}.log", "step.log"


def read_srun_of_others(log: FileEvents, roles: Sequence[StartedRole]) -> None:
    """Read what srun says of a role that does not decide: it counts that role's tasks alone, and the job itself cancels
    its step.
    """
    if any(log.file.endswith(f"/{_OF_SRUN.format(role.name)}") for role in roles):
        log.events = [replace(event, rank=None) for event in log.events if event.family != CANCELLED]


def only_of(logs: Sequence[FileEvents], roles: Sequence[StartedRole], name: str) -> None:
    """Take away what follows from the end of the role that has ended the launch: what the job, and the processes of
    other roles, say as they are ended.
    """
    own = next((role for role in roles if role.name == name), None)
    for log in logs if own else ():
        rank = rank_of(log.file)
        of_no_rank = log.file.endswith((f"/{_OF_SRUN.format(name)}", f"/{_OF_ALL}"))
        if not of_no_rank and (rank is None or own is None or rank not in own.ranks):
            log.events = []
