# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wait for a launch with several jobs (resources.any_of), before one of them has the claim."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.watch.poll import Request, Target
from tests.unit.watch.test_poll import Login, fake_squeue, host, login, row, run_dir
from tests.writers import Run

__all__ = ["host", "login", "run_dir"]


def test_the_queue_says_what_the_deciding_job_does(login: Login, tmp_path: Path, run_dir: Path) -> None:
    run = Run(run_dir)
    moment = {"time": 1.0}
    run.journal({**moment, "event": "submitted", "job_id": "7"}, {**moment, "event": "alternative", "job_id": "8"})
    request = Request((Target(str(run_dir), "7"), Target("/none/3", "9")), jobs=("7", "9"))
    fake_squeue(tmp_path, row("8", "RUNNING") + row("9", "PENDING"))
    queue = login.polled(request).queue
    assert (queue["7"].job_id, queue["7"].state, queue["9"].state) == ("8", "RUNNING", "PENDING")
    run.claimed("7")
    assert "7" not in login.polled(request).queue
