# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles of an attempt, as the job has written them (started.json): where their processes are, since when. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.state_files import is_count, is_time


@dataclass(frozen=True)
class StartedRole:
    """A role. `ranks`: its processes, by their numbers among all. `waits_for`: the roles that must be ready before it
    starts. `began`: when it was started first, `ready`: when it last became ready, `ended`: when it ended; in epoch
    seconds, None before that.
    """

    name: str
    ranks: range
    nodes: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()
    began: float | None = None
    ready: float | None = None
    ended: float | None = None
    restarts: int = 0


def roles_of(started: Mapping[str, object] | None) -> list[StartedRole]:
    """Return the roles of an attempt, the deciding one first; [] of a launch with one program."""
    given = (started or {}).get("roles")
    rows = [row for row in given if isinstance(row, dict)] if isinstance(given, list) else []
    return [role for role in map(_role, rows) if role is not None]


def _role(row: Mapping[str, object]) -> StartedRole | None:
    name, first, hosts, restarts = (row.get(key) for key in ("name", "first_rank", "hosts", "restarts"))
    if not isinstance(name, str) or not (name.isascii() and name.isidentifier()):
        return None
    if not isinstance(first, int) or not is_count(first) or not isinstance(hosts, list):
        return None
    began, ready, ended = (_time(row.get(key)) for key in ("began", "ready", "ended"))
    ranks = range(first, first + len(hosts))
    again = restarts if isinstance(restarts, int) and is_count(restarts) else 0
    return StartedRole(name, ranks, _texts(row.get("nodes")), _texts(row.get("waits_for")), began, ready, ended, again)


def _time(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and is_time(value) else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()


def not_ready(roles: Sequence[StartedRole]) -> list[StartedRole]:
    """Return the roles for which the deciding one waits now; [] once it has begun, or if the launch is over."""
    if not roles or roles[0].began or all(role.ended for role in roles[1:]):
        return []
    return [role for role in waited_for(roles) if not role.ready]


def waited_for(roles: Sequence[StartedRole]) -> list[StartedRole]:
    """Return the roles that the deciding one waits for, or has waited for until it began."""
    waits = roles[0].waits_for if roles else ()
    return [role for role in roles if role.name in waits]


def summary(roles: Sequence[StartedRole]) -> str:
    """Return what each role does: "trainer waits, server is not ready (restarts: 1)"; "" without roles."""
    gates = {name for role in roles for name in role.waits_for}
    words = []
    for role in roles:
        does = "runs" if role.ready or role.name not in gates else "is not ready"
        does = "has ended" if role.ended else does if role.began else "waits"
        words.append(f"{role.name} {does}" + (f" (restarts: {role.restarts})" if role.restarts else ""))
    return ", ".join(words)


def process_name(roles: Sequence[StartedRole], rank: int) -> str:
    """Return what a process is called: its number, or `server/1` for the second process of the role `server`."""
    return next((f"{role.name}/{rank - role.ranks.start}" for role in roles if rank in role.ranks), str(rank))
