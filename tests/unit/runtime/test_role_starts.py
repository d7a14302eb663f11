# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The start of a role, again where its program has ended."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.runtime.harness import runtime_parts


@pytest.fixture
def roles() -> Iterator[ModuleType]:
    with runtime_parts("rank.roles") as loaded:
        yield loaded


def test_a_role_starts_again_also_while_the_folder_of_its_log_is_gone(roles: ModuleType, tmp_path: Path) -> None:
    """A share that a node has lost for some seconds ends no launch: a server starts again, or ends it by its policy."""
    from core import processes
    from core.state import Job, Role

    logs = tmp_path / "logs"
    job = Job({"PATH": os.environ["PATH"], "RANKZERO_LOGS": str(logs)}, "")
    role = Role("server", ["true"], {"RANKZERO_ON_EXIT": "restart"}, 1, 1, 1, 0, nodes=["node01"])
    job.roles, job.step.ended_by, role.ended_at = [Role("client", [], {}, 1, 1, 1, 0), role], "program", 0.0
    roles.check_roles(job)
    assert (role.restarts, job.failed_role) == (1, None)
    assert processes.wait(role.step.process, 10) and processes.code_of(role.step.process) == 0
    role.step.process, role.ended_at = 0, 0.0
    logs.mkdir()
    roles.check_roles(job)
    assert (logs / "role-server.log").exists() and role.restarts == 2
    assert processes.wait(role.step.process, 10)
