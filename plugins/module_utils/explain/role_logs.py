# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose logs are whose in a launch with roles: which tell why it ended, and what a process is called. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.event import FileEvents
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.names import rank_of

#: What srun says of a role that does not decide (rank/roles.py), and what no rank has said, of any role.
_OF_SRUN, _OF_ALL = "role-{}.log", "step.log"


@dataclass(frozen=True)
class RoleRanks:
    """The processes of a role, by their numbers among all."""

    name: str
    ranks: range


def roles_of(started: Mapping[str, object]) -> list[RoleRanks]:
    """Return the roles of an attempt, the deciding one first; [] of a launch with one program. `started`: what the job
    wrote as it began.
    """
    given = started.get("roles")
    roles: list[RoleRanks] = []
    for row in given if isinstance(given, list) else []:
        name, first, hosts = (
            row.get(key) if isinstance(row, dict) else None for key in ("name", "first_rank", "hosts")
        )
        if isinstance(name, str) and isinstance(first, int) and isinstance(hosts, list):
            roles.append(RoleRanks(name, range(first, first + len(hosts))))
    return roles


def process_name(roles: Sequence[RoleRanks], rank: int) -> str:
    """Return what a process is called: its number, or `server/1` for the second process of the role `server`."""
    return next((f"{role.name}/{rank - role.ranks.start}" for role in roles if rank in role.ranks), str(rank))


def without_numbers_of_others(log: FileEvents, roles: Sequence[RoleRanks]) -> None:
    """Take the ranks from what srun says of a role: it counts that role's tasks alone."""
    if any(log.file.endswith(f"/{_OF_SRUN.format(role.name)}") for role in roles):
        log.events = [replace(event, rank=None) for event in log.events]


def only_of(logs: Sequence[FileEvents], roles: Sequence[RoleRanks], name: str) -> None:
    """Take away what follows from the end of the role that has ended the launch: what the job, and the processes of
    other roles, say as they are ended.
    """
    own = next((role for role in roles if role.name == name), None)
    for log in logs if own else ():
        rank = rank_of(log.file)
        of_no_rank = log.file.endswith((f"/{_OF_SRUN.format(name)}", f"/{_OF_ALL}"))
        if not of_no_rank and (rank is None or own is None or rank not in own.ranks):
            log.events = []
