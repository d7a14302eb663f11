# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a wait tells of the roles of a launch: which have become ready, and which started again. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.run.roles import StartedRole, roles_of
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.event import Event


@dataclass
class RoleNews:
    """The roles as the last look has shown them."""

    roles: Sequence[StartedRole] = ()

    def events(self, started: Mapping[str, object] | None) -> list[Event]:
        """Return the news since the last look. `started`: what the job has written."""
        before, self.roles = {role.name: role for role in self.roles}, roles_of(started)
        return [event for role in self.roles for event in _changes(before.get(role.name), role)]


def _changes(old: StartedRole | None, new: StartedRole) -> Iterator[Event]:
    if new.restarts > (old.restarts if old else 0):
        yield Event("role", f"role {new.name}: restart {new.restarts}")
    if new.ready and new.ready != (old.ready if old else None):
        yield Event("role", f"role {new.name} is ready")
