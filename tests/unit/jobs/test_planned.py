# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The word of a plan: a launch that has changed since, or may use more, is not the one that was planned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import PlanAgain, RankzeroError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.request import planned_generation, word_of
from tests.unit.jobs.projects import job, ready

HOUR = {"nodes": 2, "time": "01:00:00"}


def word(project: Path, **data: Any) -> str:
    return word_of(ready(job(project, **data)).request, 3)


def test_the_word_has_key_generation_and_what_it_may_use(project: Path) -> None:
    made = ready(job(project, resources=HOUR))
    assert word_of(made.request, 3) == f"x/{made.plan.key[:16]}/3/120"
    spare = {"resources": {**HOUR, "spares": 1}, "checkpoint": {"requeue": True, "max_restarts": 2, "dir": "/c"}}
    assert word(project, **spare).endswith("/540"), "(2 + 1) nodes x 60 minutes x (1 + 2) attempts"
    assert planned_generation(made.request, f"x/{made.plan.key[:16]}/3/120") == 3


def test_the_word_counts_the_nodes_of_all_roles(project: Path) -> None:
    roles = {
        "server": {"command": ["train.py"], "nodes": 3, "partition": "cpu"},
        "trainer": {"command": ["train.py"], "nodes": 2},
    }
    assert word(project, resources={"time": "01:00:00"}, roles=roles).endswith("/300")


@pytest.mark.parametrize("minutes", ["00:59:00", "01:00:00"])
def test_the_same_launch_for_no_more_is_the_planned_one(project: Path, minutes: str) -> None:
    planned = word(project, resources=HOUR)
    planned_generation(ready(job(project, resources={**HOUR, "time": minutes})).request, planned)


def test_what_is_another_launch_or_dearer_is_refused(project: Path) -> None:
    planned = word(project, resources=HOUR)
    with pytest.raises(PlanAgain, match="has changed"):
        planned_generation(ready(job(project, resources=HOUR, command=["train.py", "--lr", "2"])).request, planned)
    # Neither the name nor the time limit is part of the key.
    with pytest.raises(PlanAgain, match=r"x/.* was planned, and the launch is y/"):
        planned_generation(ready(job(project, resources=HOUR, name="y")).request, planned)
    longer = ready(job(project, resources={**HOUR, "time": "01:00:30"}))
    assert longer.plan.key.startswith(planned[2:18])
    with pytest.raises(PlanAgain, match=r"120 node-minutes .* may use 121"):
        planned_generation(longer.request, planned)
    (project / "train.py").write_text("print('other')\n", encoding="utf-8")
    with pytest.raises(PlanAgain, match="has changed"):
        planned_generation(ready(job(project, resources=HOUR)).request, planned)


@pytest.mark.parametrize(
    "word",
    ["x", "0123456789abcdef", "x/0123456789abcdef/0/1", "0123456789abcdef/1/1", "x/0123456789abcdef/1/-1", "last"],
)
def test_another_word_is_refused(project: Path, word: str) -> None:
    with pytest.raises(RankzeroError, match="NAME/KEY/GENERATION/NODE-MINUTES"):
        planned_generation(ready(job(project)).request, word)
