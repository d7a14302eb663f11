# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several submissions of one launch (resources.any_of): which are made, which one is looked at, and which are ended."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.run.answers import ask_slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launches import final_report
from tests.unit.submit.bench import Bench
from tests.writers import Run

WAYS = ({"account": "a"}, {"account": "b", "time": "00:30:00", "time_minutes": 30.0}, {"partition": "batch"})
# No process has this number.
DEAD = f"{socket.gethostname()}:{1 << 30}"


@pytest.fixture
def three(bench: Bench) -> Bench:
    bench.request = bench.request.changed(any_of=WAYS)
    return bench


def submitted(bench: Bench) -> list[list[str]]:
    """The options of each sbatch, without those that every submission has."""
    made = [words for words in bench.cluster.asked if words[0] == "sbatch" and "--test-only" not in words]
    return [[word for word in words if word.startswith(("--account", "--partition", "--time"))] for words in made]


def test_each_alternative_is_submitted_with_its_own_options(three: Bench) -> None:
    result = three.launch()
    assert (result["submission"], result["job_id"]) == ("submitted", "101")
    assert submitted(three) == [["--account=a"], ["--account=b", "--time=00:30:00"], ["--partition=batch"]]
    assert three.events() == ["intent", "submitted", "alternative", "alternative"]
    assert three.run().other_jobs(three.run().events()) == ("102", "103")


def test_the_launch_is_what_its_running_job_is_and_no_other_is_submitted(three: Bench) -> None:
    three.launch()
    slurm = three.launcher().slurm
    for state, job_id, standing in (("PENDING", "101", "waiting"), ("RUNNING", "102", "running")):
        three.cluster.jobs["102"]["state"] = state
        report = final_report(slurm, three.run())
        assert (report.job_id, report.standing) == (job_id, standing)
        again = three.launch()
        assert (again["submission"], again["job_id"]) == ("adopted", job_id)
    assert len(submitted(three)) == 3


def test_a_launch_waits_as_long_as_one_of_its_jobs_does(three: Bench) -> None:
    three.launch()
    for job_id in ("101", "103"):
        three.cluster.jobs[job_id]["state"] = "CANCELLED"
    report = final_report(three.launcher().slurm, three.run())
    assert (report.job_id, report.standing) == ("102", "waiting")
    three.cluster.jobs["102"]["state"] = "CANCELLED"
    assert final_report(three.launcher().slurm, three.run()).standing == "failed"


def test_once_a_job_has_the_claim_the_others_are_nothing_to_the_launch(three: Bench) -> None:
    three.launch()
    Run(Path(three.run().path), "103").claimed()
    three.cluster.jobs["103"]["state"] = "RUNNING"
    three.cluster.jobs["102"]["state"] = "RUNNING"
    status = ask_slurm(three.launcher().slurm, [three.run()]).status(three.run())
    assert (status.job_id, status.jobs) == ("103", ["103"])


def test_a_cancellation_ends_all_of_them(three: Bench) -> None:
    three.launch()
    result = three.launcher().cancel().result()
    assert result["changed"] is True
    assert {job["state"] for job in three.cluster.jobs.values()} == {"CANCELLED"}


def test_a_refused_alternative_costs_a_note_and_only_all_of_them_the_launch(three: Bench) -> None:
    refused = {"--account=a", "--partition=batch"}

    def sbatch(argv: list[str]) -> tuple[int, str, str]:
        if refused & set(argv):
            return 1, "", "sbatch: error: Batch job submission failed: Invalid account"
        return three.cluster.submit(argv)

    three.cluster.sbatch = sbatch  # type: ignore[assignment]
    launcher = three.launcher()
    assert launcher.launch().result()["job_id"] == "101"
    assert [note.split(":")[0] for note in launcher.slurm.notes if "any_of" in note] == [
        "resources.any_of, item 1",
        "resources.any_of, item 3",
    ]
    assert three.events() == ["intent", "submitted"]
    three.ends(False)
    three.leaves("FAILED")
    refused.add("--account=b")
    with pytest.raises(RankzeroError, match="Invalid account"):
        three.launch()
    assert three.events(2) == ["intent", "rejected"]


def test_the_rest_is_submitted_once_its_submitter_is_dead(three: Bench) -> None:
    three.intent(DEAD, age=600.0)
    three.cluster.add(three.name())
    assert three.launch(submitter=DEAD)["submission"] == "adopted"
    assert three.events() == ["intent", "adopted", "alternative", "alternative"]
    assert three.launch(submitter=DEAD)["submission"] == "adopted"
    assert len(submitted(three)) == 2


def test_a_live_submitter_is_left_to_its_work(three: Bench) -> None:
    three.launch()
    run = Run(Path(three.run().path))
    lines = [event for event in three.run().events() if event["event"] != "alternative"]
    Path(run.path, "journal.jsonl").unlink()
    run.journal(*lines)
    three.launch()
    assert len(submitted(three)) == 3


def test_each_alternative_is_checked_and_a_problem_names_its_options(three: Bench) -> None:
    three.request = three.request.changed(any_of=({"partition": "batch"}, {"partition": "nowhere"}))
    with pytest.raises(RankzeroError, match=r"--partition=nowhere: resources\.partition: 'nowhere' is"):
        three.launch()
    assert submitted(three) == []
