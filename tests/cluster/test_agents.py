# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tasks for agents (benchmarks/agents): each can be solved, and no checker is content with nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.agents.__main__ import TASKS, play
from benchmarks.agents.ground import Task
from tests.cluster.conftest import LabCluster
from tests.cluster.launching import Site

#: A program, a job file, a bug, a launch that is there. RANKZERO_TEST_TASKS=all plays all.
FEW = ("first-run", "mend-a-job-file", "find-a-bug", "once-more")
SECONDS = 240


def test_there_are_twenty() -> None:
    assert len({task.name for task in TASKS}) == len(TASKS) == 20 and {*FEW} <= {task.name for task in TASKS}


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(task, id=task.name, marks=[] if task.name in FEW[:2] else pytest.mark.more)
        for task in TASKS if task.name in FEW or os.environ.get("RANKZERO_TEST_TASKS") == "all"
    ],
)  # fmt: skip
def test_a_task_can_be_solved_and_is_not_by_doing_nothing(lab: LabCluster, tmp_path: Path, task: Task) -> None:
    sites = {}
    for agent in ("reference", "nothing"):
        (tmp_path / agent).mkdir()
        sites[agent] = Site(lab, tmp_path / agent, f"agents-{task.name}")
    solved = play(task, sites["reference"], "reference", task.solution, SECONDS)
    assert not solved.wrong, f"{solved.wrong}\n{solved.printed}"
    idle = play(task, sites["nothing"], "nothing", "true", SECONDS)
    assert idle.wrong and idle.calls == 0, idle
