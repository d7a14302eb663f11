# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is told of the roles of a launch that runs: what each does, and for whom the deciding one waits."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.watch import remote_poll
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.launch import Watch
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.poll import Request, Target
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.launch_rows import Waiting
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import Row
from tests.repository import ROOT
from tests.unit.run.test_launches import NOW, SUBMITTED, look, make_run, queue, started
from tests.writers import Run


def test_a_role_that_is_not_ready_is_named_with_its_last_answer(tmp_path: Path) -> None:
    """As the program says it that looks whether the role is ready."""
    run = Run.below(tmp_path).started(
        roles={"trainer": 1, "server": 1, "judge": 1}, waits_for="server judge", launched=1.0
    )
    answer, program = run.path / ".ready-server", ROOT / "plugins" / "runtime" / "rank" / "ready.py"
    # Nobody listens there.
    with subprocess.Popen([sys.executable, "-I", "-S", program, answer, "http", "/health", "127.0.0.1:1"]) as waiter:
        while not answer.exists():
            assert waiter.poll() is None
        waiter.kill()
    poll = remote_poll.answer(Request((Target(str(run.path), "7"),)))
    (view,) = poll.views
    assert view.gate == "server (1 not ready; 127.0.0.1:1/health: [Errno 111] Connection refused) and judge"
    rows: list[Row] = []
    watch, screen = Watch(str(run.path), "7"), Waiting(rows.append, "login", "7", time.monotonic)
    screen.begin()
    screen.events(watch.feed(poll, 0.0))
    screen.update(watch)
    assert rows[-1].text == f"waiting for {view.gate}"


def test_a_running_launch_says_what_each_role_does(tmp_path: Path) -> None:
    roles = started(roles={"trainer": 1, "server": 2}, waits_for="server", launched=NOW - 80)
    run = make_run(tmp_path, *SUBMITTED, claim="1 lab 7\n", started_json=roles)
    found = look(queue("RUNNING", StartTime=str(int(NOW) - 91)), run)
    assert found["message"] == "running on node[01-02]; trainer waits, server waits"
