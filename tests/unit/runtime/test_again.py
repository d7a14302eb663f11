# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a script does that is started again: after its proof, beside a newer generation, on what is not its user's."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.unit.runtime.harness import ARTIFACT, Job, Site, shell
from tests.writers import Run

RUN = 'echo ran >> "$RANKZERO_RUN_DIR/ran"; '
PROVEN = RUN + "echo '{\"loss\": 1.0}' > result.json"


def state(job: Job) -> dict[str, bytes]:
    """What the run directory holds, without the logs."""
    return {path.name: path.read_bytes() for path in job.run.iterdir() if path.is_file()}


def ran(job: Job) -> int:
    path = job.run / "ran"
    return path.read_text(encoding="utf-8").count("ran") if path.exists() else 0


@pytest.fixture
def proven(site: Site) -> Job:
    job = site.job({**shell(PROVEN), "artifact": ARTIFACT})
    assert job.finish(job_id=5) == 0, job.log(5)
    return job


# --- a proven launch


def test_a_proven_launch_is_not_run_again_however_its_script_is_started(proven: Job) -> None:
    outcome = proven.outcome()
    assert (outcome["key"], outcome["generation"]) == (proven.plan.key, 1)
    before = state(proven)
    starts: dict[str, dict[str, object]] = {
        "requeued": {"job_id": 5, "attempt": 1},
        "by a slurmctld that has forgotten the count": {"job_id": 5},
        "another job of the generation": {"job_id": 6},
        "the job that goes on": {"job_id": 7, "submission": "chain:5"},
        "a task of an array": {"job_id": 8, "SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "0"},
    }
    for name, start in starts.items():
        job_id = int(str(start["job_id"]))
        assert proven.finish(**start) == 0, name
        said = proven.log(job_id).splitlines()[-1]
        assert "proven already by job 5, attempt 1: the artifact is proven" in said, name
        assert state(proven) == before, name
    assert ran(proven) == 1


@pytest.mark.parametrize(
    "change", [{"key": "f" * 64}, {"key": None}, {"generation": 2}, {"success": "true"}, {"success": 1}]
)
def test_what_proves_nothing_stops_nothing(proven: Job, change: dict[str, object]) -> None:
    """The verdict of another launch or generation, and one that does not say that it succeeded."""
    Run(proven.run).altered("outcome.json", **change)
    assert proven.finish(job_id=5, attempt=1) == 0
    assert (ran(proven), proven.outcome()["attempt"]) == (2, 1)


@pytest.mark.parametrize("content", ["", '{"success": tru', "[]", "[" * 100_000])
def test_a_verdict_that_cannot_be_read_runs_nothing(proven: Job, content: str) -> None:
    (proven.run / "outcome.json").write_text(content, encoding="utf-8")
    before = state(proven)
    assert proven.finish(job_id=5, attempt=1) == 74
    assert "cannot be read" in proven.log(5)
    assert state(proven) == before


def test_without_a_python_success_is_still_believed(site: Site, proven: Job) -> None:
    site.functions["command"] = 'case "$*" in *python*) return 1 ;; *) builtin command "$@" ;; esac'
    before = state(proven)
    assert proven.finish(job_id=5, attempt=1) == 0
    assert "no python3" in proven.log(5)
    assert state(proven) == before


def test_a_script_submitted_by_hand_after_the_proof_is_a_new_generation(proven: Job) -> None:
    assert proven.finish(job_id=9, by_hand=True) == 0
    second = Job(proven.site, proven.plan, proven.run.parent / "2")
    assert (second.outcome()["success"], second.outcome()["generation"]) == (True, 2)
    assert (ran(proven), ran(second)) == (1, 1)
    # Requeued, it finds its own proof.
    assert second.finish(job_id=9, by_hand=True, attempt=1) == 0
    assert (ran(second), (proven.run.parent / "3").exists()) == (1, False)


def test_a_failed_launch_may_be_started_again_and_counts_on(site: Site) -> None:
    """An operator's requeue, on purpose. A slurmctld that has forgotten the count does not make it the same attempt."""
    job = site.job({**shell(RUN + "exit 3")})
    for attempt in range(3):
        assert job.finish(job_id=5) == 3
        assert job.outcome()["attempt"] == attempt
    assert (job.run / "outcome.before-attempt-2.json").exists()
    assert sorted(path.name for path in (job.run / "logs").iterdir()) == ["0", "1", "2", "job.5.log"]


SCONTROL = 'case "$2" in hostnames) echo "$3" ;; *) echo "NodeAddr=192.0.2.7 Port=1" ;; esac'
SHOWN = "JobId=5 JobName=gpt UserId=me(1) {fields} NodeList=node07"


@pytest.mark.parametrize(
    ("fields", "runs"),
    [
        # slurmctld was killed, and has forgotten that the job was started before.
        ("JobState=RUNNING Reason=None Requeue=1 Restarts=0 BatchHost=node01", True),
        # Slurm took this node for dead, and has started the job on another one.
        ("JobState=RUNNING Reason=None Requeue=1 Restarts=1 BatchHost=node07", False),
        ("JobState=RUNNING Reason=None Requeue=1 Restarts=0 BatchHost=node07", False),
        ("JobState=RUNNING Reason=None Requeue=1 Restarts=1 BatchHost=node01", False),
        ("JobState=PENDING Reason=BeginTime Requeue=1 Restarts=1", False),
        ("JobState=COMPLETING Reason=None Requeue=1 Restarts=0 BatchHost=node01", False),
    ],
)
def test_a_script_that_comes_after_the_next_start_of_its_job_runs_nothing(site: Site, fields: str, runs: bool) -> None:
    job = site.job(shell(RUN + "exit 3"))
    assert job.finish(job_id=5) == 3
    before = state(job)
    shown = SHOWN.format(fields=fields)
    site.functions["scontrol"] = f'if [ "$2" = job ]; then echo "{shown}"; else {SCONTROL}; fi'
    code = job.finish(job_id=5, SLURMD_NODENAME="node01")
    assert (code, ran(job)) == ((3, 2) if runs else (75, 1)), job.log(5)
    if not runs:
        assert "nothing is run" in job.log(5) and state(job) == before


# --- a newer generation


@pytest.mark.parametrize("file", ["journal.jsonl", "launch.json", "claim"])
def test_a_script_beside_a_newer_generation_runs_nothing(site: Site, file: str) -> None:
    """Also where the newer one was never submitted, or was refused: it may be at any moment."""
    job = site.job(shell(RUN + "exit 3"))
    assert job.finish(job_id=5) == 3
    before = state(job)
    newer = Run(site.job(shell(RUN + "exit 3"), generation=12).run).claimed().path
    for name in ("journal.jsonl", "launch.json", "claim"):
        if name != file:
            (newer / name).unlink()
    assert job.finish(job_id=5, attempt=1) == 75
    assert "generation 12 of this launch is newer than 1" in job.log(5)
    assert (state(job), ran(job)) == (before, 1)


def test_what_is_no_newer_generation_does_not_count(site: Site) -> None:
    site.job(shell("true"), generation=2)
    job = site.job(shell(RUN), generation=3)
    beside = job.run.parent
    for name in (".new-9.1", "4.old", "five", "06"):
        shutil.copytree(job.run, beside / name)
    # What slurmd makes for a log of a generation that was removed.
    (beside / "7" / "logs").mkdir(parents=True)
    (beside / "8").symlink_to(job.run)
    assert job.finish() == 0, job.log()
    assert ran(job) == 1


def test_a_generation_that_appears_while_the_nodes_are_prepared_stops_the_ranks(site: Site) -> None:
    newer = 'd="${RANKZERO_RUN_DIR%/*}/2"; mkdir "$d"; touch "$d/launch.json"'
    job = site.job({**shell(RUN), "setup": {"commands": [newer]}})
    assert job.finish() == 75
    assert (ran(job), job.outcome()["ended_by"]) == (0, "setup")
    assert "generation 2 of this launch is newer" in job.outcome()["message"]


# --- what is not this user's


def plant(path: Path, kind: str) -> None:
    path.unlink(missing_ok=True)
    if kind == "link":
        other = path.with_name("elsewhere")
        other.write_text("{}", encoding="utf-8")
        path.symlink_to(other)
    elif kind == "dangling link":
        path.symlink_to("nowhere")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_text("{}", encoding="utf-8")
        os.chown(path, 65534, -1)


def refused(job: Job, path: Path) -> None:
    assert job.finish() == 77
    said = job.log().splitlines()[-1]
    assert f"{path} is a " in said and "and not a regular file of" in said
    assert ran(job) == 0


def test_what_is_no_file_is_refused_by_name(site: Site) -> None:
    job = site.job(shell(RUN))
    for name in ("claim", "outcome.json", "started.json", ".attempt", ".uncounted"):
        plant(job.run / name, "link")
        refused(job, job.run / name)
        (job.run / name).unlink()
    for kind in ("dangling link", "pipe", "folder"):
        plant(job.run / "outcome.json", kind)
        refused(job, job.run / "outcome.json")
        if kind == "folder":
            (job.run / "outcome.json").rmdir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_belongs_to_another_user_is_refused_by_name(site: Site) -> None:
    job = site.job(shell(RUN))
    for name in ("claim", "outcome.json", "contract.json"):
        kept = (job.run / name).read_bytes() if (job.run / name).exists() else None
        plant(job.run / name, "another user's")
        refused(job, job.run / name)
        assert "(uid 65534)" in job.log().splitlines()[-1]
        (job.run / name).unlink()
        if kept is not None:
            (job.run / name).write_bytes(kept)


def test_a_run_directory_behind_a_link_is_refused(site: Site) -> None:
    job = site.job(shell(RUN))
    elsewhere = job.run.parent.rename(site.root / "elsewhere")
    job.run.parent.symlink_to(elsewhere)
    assert job.finish() == 77
    assert f"{job.run.parent} is a symbolic link" in job.log()
    assert ran(job) == 0
