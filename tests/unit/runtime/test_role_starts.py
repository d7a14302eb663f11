# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The start of a role, again where its program has ended."""

from __future__ import annotations

import os
import subprocess
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


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("ready", ["file made", "line serving"])
def test_a_role_that_ends_before_anybody_has_looked_was_ready_if_it_says_so(
    roles: ModuleType, tmp_path: Path, ready: str, there: bool
) -> None:
    """A short program makes its file and ends; on a busy node the one that looks has hardly started by then."""
    from core.state import Job, Role

    (tmp_path / "work").mkdir()
    env = {"PATH": os.environ["PATH"], "RANKZERO_LOGS": str(tmp_path), "RANKZERO_RUN_DIR": str(tmp_path)}
    job = Job(env, str(ROOT / "plugins" / "runtime"), python=sys.executable)
    own = {"RANKZERO_ON_EXIT": "done", "RANKZERO_READY": ready, "RANKZERO_READY_WITHIN": "60"}
    index = Role("index", [], own, 1, 1, 1, 0, nodes=["node01"], began=time.time(), ended_at=0.0)
    index.watcher = roles.processes.start(["sleep", "60"], os.environ)
    index.ready_by = roles.processes.after(60)
    job.roles, job.step.ended_by = [Role("client", [], {}, 1, 1, 1, 0), index], "program"
    if there:
        (tmp_path / "work" / "made").touch()
        (tmp_path / "rank-0000.log").write_text("serving\n", encoding="utf-8")
    roles.check_roles(job)
    assert (index.ready, index.over, job.failed_role) == ((True, True, None) if there else (False, False, index))
    roles.end(job)


def test_a_process_that_started_again_just_before_the_deciding_role_ended_is_counted(
    roles: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The deciding role may end between two looks at the steps' log: on a fast machine it does."""
    from core.state import Job, Role

    place = {name: str(tmp_path) for name in ("RANKZERO_LOGS", "RANKZERO_WORKDIR", "RANKZERO_RUN_DIR")}
    own = {
        "RANKZERO_ON_EXIT": "restart",
        "RANKZERO_ROLE": "server",
        "RANKZERO_FIRST_RANK": "1",
        "RANKZERO_ATTEMPT": "0",
    }
    names = "SLURM_PROCID SLURM_NODEID RANKZERO_WORLD_SIZE RANKZERO_RANKS_PER_NODE RANKZERO_MASTER_PORT"
    given = dict.fromkeys([*names.split(), "RANKZERO_PORT_FIRST", "RANKZERO_RESTARTS"], "1")
    given |= {"SLURM_LOCALID": "0", "RANKZERO_MASTER_ADDR": "localhost", "RANKZERO_LAUNCHER": "srun"}
    given |= {**place, **own, "PATH": os.environ["PATH"], "RANKZERO_RUNTIME": str(ROOT / "plugins" / "runtime")}
    words = ["bash", str(ROOT / "plugins/runtime/rank/rank.sh"), "sh", "-c", "[ -e again ] || { touch again; exit 7; }"]
    with (tmp_path / "step.log").open("w") as steps:
        assert subprocess.run(words, env=given, stderr=steps, check=False).returncode == 0
    server = Role("server", [], own, 1, 2, 2, 1, nodes=["node01"], began=time.time())
    job = Job({"PATH": os.environ["PATH"], **place}, str(ROOT / "plugins" / "runtime"))
    job.roles, job.step.ended_by = [Role("client", [], {}, 1, 1, 1, 0), server], "program"
    roles.end(job)
    assert (server.restarts, server.most, server.watcher) == (1, 1, 0)
    assert "process 1 on" in capfd.readouterr().out


def test_a_step_between_two_attempts_is_not_ended_by_a_role_of_the_one_before(tmp_path: Path) -> None:
    """A server that was lost with its node has ended, too. What its launch does meanwhile (the preflight of the attempt
    that follows, a line after the ranks) takes longer than a role is given before it is judged.
    """
    with runtime_parts("rank.step") as step:
        from core.state import Job, Role

        env = {"PATH": os.environ["PATH"], "RANKZERO_LOGS": str(tmp_path), "RANKZERO_RUN_DIR": str(tmp_path)}
        job, role = Job(env, ""), Role("server", ["true"], {"RANKZERO_ON_EXIT": "fail"}, 1, 1, 1, 0)
        role.step.process = step.processes.start(["sh", "-c", "exit 137"], os.environ)
        job.roles, job.step.ended_by = [Role("client", [], {}, 1, 1, 1, 0), role], "program"
        assert step.run_bounded(job, 30, ["sleep", "2.5"]) == 0
        assert job.failed_role is None
