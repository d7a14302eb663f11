# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder of checkpoints has one live owner, by a real Slurm's word."""

from __future__ import annotations

from tests.cluster.launching import UNTIL_GO, Site, log_of, read_json


def test_two_launches_and_a_script_submitted_by_hand_want_one_folder(site: Site) -> None:
    folder = f"{site.state_root}.checkpoints"
    asked = {"checkpoint": {"dir": folder}}
    first = site.launch(site.job(UNTIL_GO, name="first", **asked))
    run = site.run_dir(first)
    job_id = read_json(site.wait_for(run / "started.json"))["job_id"]
    assert f"checkpoint.dir: {folder} is this job's" in log_of(run, job_id)

    # Another launch is refused before anything is submitted, and told by whom.
    refused = site.play(site.job("true", name="second", **asked)).refused()
    assert f"checkpoint.dir: {folder} belongs to job {job_id} of " in refused
    assert f"cancel it (scancel {job_id}), or name another folder" in refused
    assert [*site.jobs()] == [job_id]

    # Nobody asks for a script that is submitted by hand: the job itself finds the owner alive, and runs no rank.
    by_hand = site.head(["sbatch", "--parsable", "--dependency=", f"{first['run_dir']}/job.sbatch"]).stdout.strip()
    assert site.ended(by_hand) == "FAILED"
    second = run.parent / "2"
    outcome = read_json(second / "outcome.json")
    assert outcome["message"].startswith(f"checkpoint.dir: {folder} belongs to job {job_id} of ")
    assert outcome["message"].endswith("it is RUNNING; cancel it, or name another folder")
    assert not list((second / "logs" / "0").glob("rank-*"))

    # Cancelled, it is dead by Slurm's word, and followed.
    site.lab.head(["scancel", job_id])
    assert site.ended(job_id) == "CANCELLED"
    third = site.launch(site.job("true", name="second", **asked))
    assert site.outcome(third)["success"]
    log = log_of(site.run_dir(third), third["job_id"])
    assert f"checkpoint.dir: {folder} is taken over from job {job_id} of " in log
    assert ": CANCELLED\n" in log
