# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The start of a role, again where its program has ended."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.repository import ROOT
from tests.unit.runtime.harness import runtime_parts


@pytest.fixture
def roles() -> Iterator[ModuleType]:
    with runtime_parts("rank.roles") as loaded:
        yield loaded


def test_a_role_that_starts_again_has_to_become_ready_again(roles: ModuleType, tmp_path: Path) -> None:
    """Else one that never comes back holds the launch to its time limit, and a role that starts later asks nobody."""
    from core.state import Job, Role

    (tmp_path / "logs").mkdir()
    (tmp_path / "work").mkdir()
    env = {"PATH": os.environ["PATH"], "RANKZERO_LOGS": str(tmp_path / "logs"), "RANKZERO_RUN_DIR": str(tmp_path)}
    job = Job(env, str(ROOT / "plugins" / "runtime"), python=sys.executable)
    own = {"RANKZERO_ON_EXIT": "restart", "RANKZERO_READY": "file made", "RANKZERO_READY_WITHIN": "60"}
    server = Role("server", ["sleep", "60"], own, 1, 1, 1, 0, nodes=["node01"], ready=True)
    later = Role("later", ["true"], {"RANKZERO_AFTER_READY": "server"}, 1, 1, 1, 0)
    job.roles, job.step.ended_by, server.ended_at = [Role("client", [], {}, 1, 1, 1, 0), server, later], "program", 0.0
    try:
        roles.check_roles(job)
        assert (server.restarts, server.ready, later.step.process) == (1, False, 0)
        (tmp_path / "work" / "made").touch()
        for _look in range(200):
            roles.check_roles(job)
            if server.ready:
                break
            time.sleep(0.1)
        assert server.ready and server.ready_since is not None
    finally:
        roles.end(job)


def test_a_role_starts_again_also_while_the_folder_of_its_log_is_gone(roles: ModuleType, tmp_path: Path) -> None:
    """A share that a node has lost for some seconds ends no launch: a server starts again, or ends it by its policy."""
    from core import processes
    from core.state import Job, Role

    logs = tmp_path / "logs"
    job = Job({"PATH": os.environ["PATH"], "RANKZERO_LOGS": str(logs), "RANKZERO_RUN_DIR": str(tmp_path)}, "")
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
