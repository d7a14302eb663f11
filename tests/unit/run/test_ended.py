# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a launch, where Slurm's view of its job is a moment behind or counts other attempts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.run import launches, select
from rankzero.documents import status as document
from tests.unit.run.test_launches import SUBMITTED, make_run, outcome, queue, started
from tests.unit.slurm.recorded import FakeSlurm


def reported(run: Path, slurm: FakeSlurm) -> Any:
    return launches.final_report(slurm.slurm(), select.open_run(str(run)))


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETING", "PENDING", "STAGE_OUT"])
@pytest.mark.parametrize("success", [True, False])
def test_no_state_of_a_running_job_stands_beside_completed(tmp_path: Path, state: str, success: bool) -> None:
    """Programs branch on the state of the JSON document."""
    run = make_run(tmp_path, *SUBMITTED, claim="1 lab 7\n", started_json=started(), outcome_json=outcome(success))
    shown = document(reported(run, queue(state)).as_dict())
    if not success and state == "PENDING":  # put back into the queue, and may still succeed
        assert (shown["slurm_state"], shown["completed"]) == ("PENDING", False)
        return
    assert (shown["completed"], shown["success"], shown["active"]) == (True, success, False)
    assert shown["slurm_state"] == ("COMPLETED" if success else "FAILED")


def test_the_verdict_of_an_attempt_that_slurm_has_requeued_counts(tmp_path: Path) -> None:
    """Slurm gives up a script that starts late, and counts a restart. The late script is the only attempt there was."""
    said = "preflight: node01: environment: /usr has no Python package torch"
    end = outcome(False, by="setup", exit_code=69, message=said)
    run = make_run(tmp_path, *SUBMITTED, claim="1 lab 7\n", started_json=started(), outcome_json=end)
    over = reported(run, queue("FAILED", restartcnt="1", exit_code="17664"))
    assert over.completed and said in over.message and over.attempt == 0
    assert over.outcome is not None and over.outcome["message"] == said
    # While the job may still start the attempt that Slurm has counted, nothing is decided.
    assert not reported(run, queue("PENDING", restartcnt="1")).completed
    # Where the launch itself asked for another attempt, Slurm's word about that one counts.
    asked = outcome(False, by="requeue", message="requeued: attempt 2 follows")
    again = make_run(tmp_path, *SUBMITTED, name="again", claim="1 lab 7\n", started_json=started(), outcome_json=asked)
    cancelled = reported(again, queue("CANCELLED", restartcnt="1", Name="again.0123456789abcdef.1"))
    assert cancelled.slurm_state == "CANCELLED" and "attempt 2 follows" not in cancelled.message
