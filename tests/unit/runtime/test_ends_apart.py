# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""launcher.wait: a rank that never ends, as one whose node was restarted, does not keep the job of the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.runtime.harness import ARTIFACT, Job, Site, shell

PROOF = "echo '{\"loss\": 1.0}' > result.json"
FOR_EVER = "exec sleep 600"


def two_ranks(
    site: Site,
    first: str,
    second: str,
    wait: int,
    short: int = 1,
    srun: Mapping[str, object] | None = None,
    **more: Any,
) -> Job:
    """A job of two ranks that looks every second who has ended."""
    line = f'if [ "$RANK" = 0 ]; then {first}; else {second}; fi'
    quick = f"export RANKZERO_LOOK_EVERY=1 RANKZERO_SHORT_WAIT={short}"
    return site.job(
        {
            **shell(line),
            "launcher": {"ranks_per_node": 2, "wait": wait, "srun": srun or {}},
            "setup": {"commands": [quick]},
            **more,
        }
    )


def test_a_rank_that_is_left_after_the_proof_is_ended(site: Site) -> None:
    job = two_ranks(site, PROOF, FOR_EVER, 600, artifact=ARTIFACT)
    assert job.finish() == 0, job.log()
    outcome = job.outcome()
    assert (outcome["success"], outcome["ended_by"]) == (True, "artifact")
    assert "1 of 2 tasks had ended, 1 had not; the step was ended" in outcome["message"]
    assert "(launcher.wait)" in outcome["message"]


def test_what_is_left_of_a_step_that_srun_ends_after_the_proof_counts(site: Site) -> None:
    """Here srun's own limit comes before the question to it."""
    job = two_ranks(site, PROOF, FOR_EVER, 1, short=600, artifact=ARTIFACT)
    assert job.finish() == 0, job.log()
    outcome = job.outcome()
    assert (outcome["success"], outcome["ended_by"]) == (True, "artifact")
    assert "1 of 2 tasks had ended, 1 had not; the step was ended 1 s after the first end" in outcome["message"]


def test_a_first_rank_that_still_works_is_not_ended_early(site: Site) -> None:
    """The others have ended, and the artifact is proven already."""
    job = two_ranks(site, f"{PROOF}; sleep 4; touch saved", "true", 600, artifact=ARTIFACT)
    assert job.finish() == 0, job.log()
    assert (job.outcome()["ended_by"], (job.run / "work/saved").exists()) == ("program", True)


def test_without_a_proof_the_others_have_their_time_and_the_job_fails(site: Site) -> None:
    job = two_ranks(site, "true", FOR_EVER, 2)
    assert job.finish() == 137, job.log()
    outcome = job.outcome()
    assert (outcome["success"], outcome["ended_by"]) == (False, "program")
    assert "1 of 2 tasks had ended, 1 had not" in outcome["message"]
    # The rank that was ended for it is not blamed.
    assert "first: task" not in outcome["message"]


@pytest.mark.parametrize("options", [{"disable-status": True}, {"quit-on-interrupt": True}])
def test_an_srun_that_would_pass_the_question_on_is_not_asked(site: Site, options: dict[str, bool]) -> None:
    job = two_ranks(site, f"{PROOF}; sleep 3", "true", 600, artifact=ARTIFACT, srun=options)
    assert job.finish() == 0, job.log()
    assert "one more within 1 sec" not in job.log()


def test_a_job_without_an_artifact_asks_nothing_and_leaves_no_file(site: Site) -> None:
    job = two_ranks(site, "true", "sleep 2", 3600)
    assert job.finish() == 0, job.log()
    assert "one more within 1 sec" not in job.log()
    assert not (job.run / "ended").exists()
