# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exactly once, whatever breaks between the intent to submit and the record of it.

The faults are real where they can be (a killed module, a stopped slurmctld, a removed folder). An sbatch that lies is a
script before the real one in PATH.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cluster.launching import JOB_SECONDS, UNTIL_GO, Site, log_of, rank_logs, read_json
from tests.repository import leaving

#: What Slurm prints when slurmctld took too long to answer.
TIMED_OUT = 'echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2; exit 1'


def events(run_dir: Path) -> list[str]:
    journal = (run_dir / "journal.jsonl").read_text().splitlines()
    return [json.loads(line)["event"] for line in journal]


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
def test_a_module_killed_before_it_records_the_job_is_followed_by_an_adoption(site: Site, state: str) -> None:
    """A job that waits is known by its name alone; one that runs has taken its claim."""
    job = site.job(UNTIL_GO, resources={"time": "00:05:00", "sbatch": {"hold": state == "PENDING"}})
    # The parent of sbatch is the module.
    kill = site.fake("sbatch", '/usr/bin/sbatch "$@"; kill -9 "$PPID"')
    killed = site.play(job, ansible_shell_executable=kill)
    assert killed.rc != 0
    (run,) = site.runs()
    assert events(run) == ["intent"], "the module died before it could record the job"
    (submitted,) = site.jobs()
    site.lab.wait_until(lambda: site.jobs()[submitted] == state, JOB_SECONDS, f"the job is {state}")

    again = site.launch(job)
    assert (again["submission"], again["job_id"], again["generation"]) == ("adopted", submitted, 1)
    assert again["changed"] is False
    if state == "PENDING":
        assert events(run) == ["intent", "adopted"]
        site.lab.release(submitted)
    site.go(again)
    assert site.outcome(again)["success"]
    site.ended(submitted)
    assert [*site.jobs()] == [submitted]
    assert site.launch(job)["submission"] == "unchanged"


def test_an_adopted_job_that_has_ended_meanwhile_is_not_submitted_again(site: Site) -> None:
    job = site.job("true")
    kill = site.fake("sbatch", '/usr/bin/sbatch "$@"; kill -9 "$PPID"')
    assert site.play(job, ansible_shell_executable=kill).rc != 0
    (run,) = site.runs()
    site.wait_for(run / "outcome.json")
    again = site.launch(job)
    assert (again["submission"], again["standing"], again["generation"]) == ("unchanged", "succeeded", 1)
    assert [*site.jobs()] == [again["job_id"]]


def test_the_same_launch_under_another_state_root_is_not_mistaken_for_this_one(site: Site) -> None:
    """Its job has the same name and belongs to the same user; the module dies before it has called sbatch at all."""
    job = site.job("true", resources={"time": "00:05:00", "sbatch": {"hold": True}})
    other = site.launch(job)
    site.cluster["state_root"] += ".second"
    assert site.play(job, ansible_shell_executable=site.fake("sbatch", 'kill -9 "$PPID"')).rc != 0
    assert [*site.jobs()] == [other["job_id"]]
    mine = site.launch(job)
    assert (mine["submission"], mine["generation"], mine["key"]) == ("submitted", 1, other["key"])
    assert mine["job_id"] != other["job_id"]
    assert set(site.jobs()) == {other["job_id"], mine["job_id"]}


def test_sbatch_that_times_out_after_it_has_submitted(site: Site) -> None:
    job = site.job(UNTIL_GO)
    lying = site.fake("sbatch", f'/usr/bin/sbatch "$@" > /dev/null; {TIMED_OUT}')
    launch = site.launch(job, ansible_shell_executable=lying)
    (submitted,) = site.jobs()
    assert (launch["submission"], launch["job_id"]) == ("submitted", submitted)
    assert site.launch(job)["job_id"] == submitted
    site.go(launch)
    site.outcome(launch)
    assert [*site.jobs()] == [submitted]


def test_sbatch_that_times_out_before_it_has_submitted(site: Site) -> None:
    job = site.job("true")
    lying = site.fake("sbatch", TIMED_OUT)
    message = site.play(job, ansible_shell_executable=lying).refused()
    assert "Socket timed out" in message and "Run the same launch again" in message
    assert site.jobs() == {}

    launch = site.launch(job)
    assert (launch["submission"], launch["generation"]) == ("submitted", 1)
    assert site.outcome(launch)["success"]
    assert [*site.jobs()] == [launch["job_id"]]


def test_sbatch_that_refuses_is_quoted_and_the_next_launch_is_a_new_generation(site: Site) -> None:
    job = site.job("true", resources={"time": "00:05:00", "reservation": "nobody-made-it"})
    played = site.play(job)
    assert "reservation" in played.refused().lower()
    assert site.jobs() == {}
    (run,) = site.runs()
    assert events(run) == ["intent", "rejected"]

    job["resources"].pop("reservation")  # not in the key: the same launch, put right
    launch = site.launch(job)
    assert (launch["submission"], launch["generation"]) == ("submitted", 2)
    assert Path(launch["run_dir"]).parent.name == run.parent.name
    assert site.outcome(launch)["success"]


def test_while_slurmctld_is_silent_nothing_is_submitted(site: Site) -> None:
    """Neither a new launch nor, at the worst moment, one whose job is enqueued and whose id nobody wrote down."""
    new = site.job("true", name="new")
    lost = site.job(UNTIL_GO, name="lost", resources={"time": "00:05:00", "sbatch": {"hold": True}})
    kill = site.fake("sbatch", '/usr/bin/sbatch "$@"; kill -9 "$PPID"')
    assert site.play(lost, ansible_shell_executable=kill).rc != 0
    (submitted,) = site.jobs()
    (run,) = site.runs()
    site.lab.faults.stop("slurmctld")
    try:
        played = site.play_many({"one": {"launch_job": new}, "two": {"launch_job": lost}})
        for host in ("one", "two"):
            message = played.refused(host)
            assert "Slurm does not answer" in message and "scontrol ping" in message, message
    finally:
        site.lab.faults.start("slurmctld")
    assert site.runs() == [run] and [*site.jobs()] == [submitted]
    assert events(run) == ["intent"]

    played = site.play_many({"one": {"launch_job": new}, "two": {"launch_job": lost}})
    assert played.launch("one")["submission"] == "submitted", played.output
    again = played.launch("two")
    assert (again["submission"], again["job_id"], again["generation"]) == ("adopted", submitted, 1)
    site.lab.release(submitted)
    site.go(again)
    assert site.outcome(again)["job_id"] == submitted
    assert site.outcome(played.launch("one"))["success"]
    assert len(site.jobs()) == 2


@pytest.mark.parametrize("round_", leaving(range(3), (1, 2)))
def test_launches_at_the_same_moment_make_one_job(site: Site, round_: int) -> None:
    job = site.job(UNTIL_GO)
    plays = [site.start(job) for _ in range(3)]
    launches = [play.finish() for play in plays]
    assert [played.rc for played in launches] == [0, 0, 0], "\n".join(played.output for played in launches)
    results = [played.launch() for played in launches]
    assert sorted(result["submission"] for result in results) == ["adopted", "adopted", "submitted"]
    assert len({result["job_id"] for result in results}) == 1
    (run,) = site.runs()
    site.go(results[0])
    outcome = site.outcome(results[0])
    assert outcome["success"] and outcome["job_id"] == results[0]["job_id"]
    assert [*site.jobs()] == [results[0]["job_id"]]
    assert (run / "claim").read_text().split()[-1] == results[0]["job_id"]
    assert read_json(run / "started.json")["job_id"] == results[0]["job_id"]


def test_a_duplicate_of_a_submission_ends_unrun(site: Site) -> None:
    """As when sbatch was repeated blindly: the same script, marked as the collection's own submission."""
    job = site.job(f"echo ran by $SLURM_JOB_ID; {UNTIL_GO}")
    launch = site.launch(job)
    run = site.run_dir(launch)
    site.wait_for(run / "started.json")
    script = f"{launch['run_dir']}/job.sbatch"
    duplicate = site.head(["sbatch", "--parsable", script, "--submission", "again"]).stdout.strip()
    # singleton: it does not even start while the first one is there.
    assert site.jobs("")[duplicate] == "PENDING"
    site.go(launch)
    assert site.outcome(launch)["job_id"] == launch["job_id"]
    assert site.ended(duplicate) == "COMPLETED"
    said = log_of(run, duplicate)
    assert f"is proven already by job {launch['job_id']}" in said and "nothing is run" in said
    outcome = read_json(run / "outcome.json")
    assert (outcome["job_id"], outcome["success"]) == (launch["job_id"], True)
    assert f"ran by {launch['job_id']}" in rank_logs(run)["rank-0000.log"]
    assert f"ran by {duplicate}" not in rank_logs(run)["rank-0000.log"]
    kept = site.launch(job)
    assert (kept["submission"], kept["job_id"]) == ("unchanged", launch["job_id"])


def test_a_duplicate_that_starts_first_becomes_the_launch(site: Site) -> None:
    """Whoever takes the claim is the launch; the controller follows it and not the id it knows."""
    job = site.job(f"echo ran by $SLURM_JOB_ID; {UNTIL_GO}", resources={"time": "00:05:00", "sbatch": {"hold": True}})
    launch = site.launch(job)
    run = site.run_dir(launch)
    script = f"{launch['run_dir']}/job.sbatch"
    # The one that the journal names waits on hold; the other one has no such line.
    text = (run / "job.sbatch").read_text()
    (run / "again.sbatch").write_text(
        "".join(line for line in text.splitlines(True) if "--hold" not in line and "--dependency" not in line)
    )
    other = site.head(
        ["sbatch", "--parsable", script.replace("job.sbatch", "again.sbatch"), "--submission", "again"]
    ).stdout.strip()
    site.wait_for(run / "started.json")
    adopted = site.launch(job)
    assert (adopted["submission"], adopted["job_id"]) == ("adopted", other)
    site.go(launch)
    assert site.outcome(launch)["job_id"] == other
    site.ended(other)
    site.lab.release(launch["job_id"])
    assert site.ended(launch["job_id"]) == "COMPLETED"
    assert f"is proven already by job {other}" in log_of(run, launch["job_id"])
    assert site.launch(job)["job_id"] == other


def test_a_script_submitted_by_hand_is_a_generation_of_its_own(site: Site) -> None:
    job = site.job(f"echo ran in $RANKZERO_RUN_DIR; {UNTIL_GO}")
    launch = site.launch(job)
    first = site.run_dir(launch)
    site.go(launch)
    site.outcome(launch)
    site.ended(launch["job_id"])
    kept = (first / "outcome.json").read_bytes()

    by_hand = site.head(["sbatch", "--parsable", f"{launch['run_dir']}/job.sbatch"]).stdout.strip()
    second = first.parent / "2"
    site.wait_for(second / "work")
    (second / "work" / "go").touch()
    site.wait_for(second / "outcome.json")
    assert site.ended(by_hand) == "COMPLETED"
    assert "submitted by hand: this is generation 2" in log_of(first, by_hand) + log_of(second, by_hand)
    assert (second / "claim").read_text().split() == ["2", site.lab.cluster_name, by_hand]
    outcome = read_json(second / "outcome.json")
    assert (outcome["job_id"], outcome["success"]) == (by_hand, True)
    assert "ran in " + launch["run_dir"][:-1] + "2" in rank_logs(second)["rank-0000.log"]
    assert (first / "outcome.json").read_bytes() == kept, "the first generation stands as it was"
    # The collection knows the new generation as its own.
    again = site.launch(job)
    assert (again["submission"], again["generation"], again["job_id"]) == ("unchanged", 2, by_hand)


def test_a_purged_run_directory_ends_the_job_unrun(site: Site) -> None:
    job = site.job(
        f"touch {site.lab.shared_inside}/launch/never", resources={"time": "00:05:00", "sbatch": {"hold": True}}
    )
    launch = site.launch(job)
    run = site.run_dir(launch)
    shutil.rmtree(run)
    site.lab.release(launch["job_id"])
    assert site.ended(launch["job_id"]) == "FAILED"
    # A newer slurmd makes the directories of a job's log; nothing else may come back.
    back = [path for path in run.rglob("*") if path.is_file()]
    assert back in ([], [run / "logs" / f"job.{launch['job_id']}.log"]), (
        "a directory that was removed is not made again"
    )
    assert not site.host_path(f"{site.lab.shared_inside}/launch/never").exists()
    assert site.launch(job)["submission"] == "submitted"
