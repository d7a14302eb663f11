# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The launch that is meant where only one can be."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search import find, launch_list
from tests.unit.run.test_launches import KEY, NOW, SUBMITTED, gone, make_run, options, outcome, queue
from tests.unit.slurm.recorded import NO_CONTROLLER, FakeSlurm


def test_a_single_launch_is_the_one_that_a_wait_would_choose(tmp_path: Path) -> None:
    """attach() of the Python API and the command name the same launch."""
    old = {"time": NOW - 500, "event": "intent"}
    make_run(tmp_path, old, key="1" * 16)
    make_run(tmp_path, old, *SUBMITTED, key="2" * 16)
    make_run(tmp_path, old, key="2" * 16, generation=2)
    root = {"state_root": str(tmp_path), "name": "gpt"}
    chosen = find.one_run(options(**root))
    found = launch_list.job_info(queue("RUNNING").slurm(), options(**root, single=True))
    assert [launch["run_dir"] for launch in found["launches"]] == [chosen.path]
    assert "the newest of 2 launches named gpt" in found["choice"]
    with pytest.raises(RankzeroError, match="no launch with name=gtp"):
        launch_list.job_info(queue("RUNNING").slurm(), options(state_root=str(tmp_path), name="gtp", single=True))


@pytest.mark.parametrize(
    ("fake", "state"),
    [
        (queue("RUNNING"), "running"),
        (queue("PENDING"), "waiting"),
        (queue("FAILED", StartTime="5", EndTime="9"), "failed"),
        (gone(), "failed"),
        (FakeSlurm(squeue=NO_CONTROLLER, scontrol=NO_CONTROLLER, sacct=NO_CONTROLLER), "unknown"),
    ],
)
def test_a_choice_says_what_slurm_says(tmp_path: Path, fake: FakeSlurm, state: str) -> None:
    """A launch is not "submitted" for as long as it has no outcome: that is what its journal says last."""
    make_run(tmp_path, {"time": NOW - 500, "event": "intent"}, key="1" * 16, outcome_json=outcome(True))
    make_run(tmp_path, *SUBMITTED)
    named = options(state_root=str(tmp_path), name="gpt")
    choice = find.choice_made(fake.slurm(), named, find.one_run(named))
    assert choice and choice.partition(":")[0].startswith(f"gpt {KEY[:8]}, generation 1")
    chosen, _, others = choice.partition(": the newest of 2 launches named gpt")
    assert chosen.endswith(f", {state}") and ", succeeded" in others


def test_launches_of_one_job_are_listed_with_their_states(tmp_path: Path) -> None:
    make_run(tmp_path, *SUBMITTED)
    make_run(tmp_path, *SUBMITTED, key="1" * 16, outcome_json=outcome(True))
    with pytest.raises(RankzeroError, match="job_id=7 names 2 launches") as caught:
        find.one_run(options(state_root=str(tmp_path), job_id="7"), queue("RUNNING").slurm())
    assert ", running" in caught.value.message and ", succeeded" in caught.value.message
