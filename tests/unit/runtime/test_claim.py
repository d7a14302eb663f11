# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of several jobs runs a generation, and with which secrets: claim, submission by hand, secrets."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.runtime.harness import ARTIFACT, RUNTIME_KEY, Job, Site, shell, wait_for
from tests.writers import Run

# --- the claim


def test_one_of_two_jobs_of_a_generation_runs(site: Site) -> None:
    line = 'echo "$SLURM_JOB_ID" >> "$RANKZERO_RUN_DIR/ran"; until [ -e "$RANKZERO_RUN_DIR/go" ]; do sleep 0.1; done'
    job = site.job(shell(line))
    both = [job.start(job_id=number) for number in (1, 2)]
    # The other one runs until this one has ended.
    while all(process.poll() is None for process in both):
        time.sleep(0.02)
    (job.run / "go").touch()
    assert [process.wait(timeout=60) for process in both] == [0, 0]
    (winner,) = (job.run / "ran").read_text(encoding="utf-8").split()
    loser = {"1": 2, "2": 1}[winner]
    assert (job.run / "claim").read_text(encoding="utf-8") == f"1 lab {winner}\n"
    assert f"belongs to another job (1 lab {winner}): nothing is run here" in job.log(loser)
    assert job.outcome()["job_id"] == winner


def test_the_job_that_starts_first_cancels_the_others_of_its_generation(site: Site) -> None:
    """They wait still (resources.any_of); what is no job id in the journal is passed to no command."""
    ways = [{"account": "a"}, {"account": "b"}]
    job = site.job({**shell("true"), "resources": {"any_of": ways}})
    asked = job.run / "asked"
    site.functions["scancel"] = f'echo "$@" >> {shlex.quote(str(asked))}'
    ids = ("4", "5", "$(touch x)", "6", "4")
    events = [{"time": 1.0, "event": "submitted", "job_id": ids[0]}]
    events += [{"time": 1.0, "event": "alternative", "job_id": job_id} for job_id in ids[1:]]
    Run(job.run).journal(*events)
    assert job.finish(job_id=5) == 0
    assert asked.read_text(encoding="utf-8") == "--state=PENDING 4 6\n"
    assert "this job has started first: cancels 4, 6" in job.log(5)
    # A further attempt has no others.
    (job.run / "outcome.json").unlink()
    assert job.finish(job_id=5, attempt=1) == 0
    assert len(asked.read_text(encoding="utf-8").splitlines()) == 1


def test_of_two_scripts_of_one_job_on_a_node_one_runs(site: Site) -> None:
    line = 'echo x >> "$RANKZERO_RUN_DIR/ran"; until [ -e "$RANKZERO_RUN_DIR/go" ]; do sleep 0.1; done'
    job = site.job(shell(line))
    both = [job.start(job_id=7) for _ in range(2)]
    while all(process.poll() is None for process in both):
        time.sleep(0.02)
    (job.run / "go").touch()
    assert sorted(process.wait(timeout=60) for process in both) == [0, 75], job.log(7)
    assert (job.run / "ran").read_text(encoding="utf-8") == "x\n"
    assert "another script of job 7 runs on" in job.log(7) and job.outcome()["success"]
    # One that has ended is no other.
    (job.run / "outcome.json").unlink()
    assert job.finish(job_id=7, attempt=1) == 0


@pytest.mark.parametrize(
    "fields",
    ["JobState=PENDING Reason=launch_failed_requeued_held Restarts=1", "JobState=RUNNING Restarts=1 BatchHost=node07"],
)
def test_a_script_that_slurm_has_given_up_runs_nothing(site: Site, fields: str) -> None:
    """It was held up on its node, and begins before the next start of its job does."""
    job = site.job(shell('echo x >> "$RANKZERO_RUN_DIR/ran"'))
    site.functions["scontrol"] = (
        f'case "$2" in job) echo "JobId=5 JobName=a {fields}" ;; hostnames) echo "$3" ;; '
        '*) echo "NodeAddr=192.0.2.7 Port=1" ;; esac'
    )
    assert job.finish(job_id=5, SLURMD_NODENAME="node01") == 75
    assert "nothing is run" in job.log(5) and not (job.run / "ran").exists()


def test_a_requeued_job_keeps_its_claim_and_judges_anew(site: Site) -> None:
    line = '[ "$RANKZERO_ATTEMPT" = 0 ] || exit 0; echo \'{"loss": 1.0}\' > result.json; exit 4'
    job = site.job({**shell(line), "artifact": ARTIFACT})
    assert job.finish(job_id=5) == 4
    # The second attempt writes nothing: the artifact of the first does not count.
    assert job.finish(job_id=5, attempt=1) == 65
    assert job.outcome()["artifact"]["errors"] == ["is older than this attempt"]
    assert (job.outcome()["attempt"], job.started()["attempt"]) == (1, 1)
    before = json.loads((job.run / "outcome.before-attempt-1.json").read_text(encoding="utf-8"))
    assert (before["attempt"], before["success"]) == (0, False)
    assert sorted(path.name for path in (job.run / "logs").iterdir()) == ["0", "1", "job.5.log"]


@pytest.mark.parametrize("back", [[], ["logs", "logs/job.1.log"]], ids=["nothing", "what slurmd makes for the log"])
def test_a_run_directory_that_is_gone_is_not_made_again(site: Site, tmp_path: Path, back: list[str]) -> None:
    job = site.job({})
    # Slurm runs its own copy of the script.
    spool = shutil.copy(job.run / "job.sbatch", tmp_path / "slurm_script")
    shutil.rmtree(job.run)
    for name in back:
        (job.run / name).mkdir(parents=True)
    functions = {f"BASH_FUNC_{name}%%": f"() {{ {body}; }}" for name, body in site.functions.items()}
    ended = subprocess.run(
        ["/bin/bash", spool, "--submission", "host:1"],
        env={"PATH": os.environ["PATH"], "SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "localhost", **functions},
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert ended.returncode == 66
    assert "is gone: nothing is run" in ended.stdout
    assert sorted(str(path.relative_to(job.run)) for path in job.run.rglob("*")) == back


@pytest.mark.parametrize(
    "change",
    [
        shutil.rmtree,
        lambda folder: (folder / "start" / "job.sh").write_text("echo planted\n", encoding="utf-8"),
        lambda folder: (folder / "json.py").write_text("print('planted')\n", encoding="utf-8"),
        lambda folder: (folder / "__pycache__").mkdir(),
        lambda folder: (folder / "rank" / "rank.sh").unlink(),
        lambda folder: (
            (folder / "rank" / "rank.sh").unlink(),
            (folder / "rank" / "rank.sh").symlink_to(folder / "owner.py"),
        ),
    ],
    ids=["gone", "edited", "a module more", "byte code", "a file less", "a link"],
)
def test_a_runtime_that_is_not_what_was_published_is_not_run(site: Site, change: Callable[[Path], object]) -> None:
    job = site.job({})
    change(site.state / "runtime" / RUNTIME_KEY)
    assert job.finish() == 78
    assert "is not on this node, or was changed there" in job.log()
    assert "planted" not in job.log()
    assert not (job.run / "claim").exists()


# --- by hand


def test_a_script_submitted_by_hand_is_a_new_generation(site: Site) -> None:
    job = site.job({"artifact": ARTIFACT}, secrets={"TOKEN": "x"})
    (job.run.parent / "2").mkdir()
    (job.run.parent / "2" / "claim").write_text("2 lab 99\n", encoding="utf-8")
    assert job.finish(job_id=7, by_hand=True) == 0, job.log(7)
    third = Job(site, job.plan, job.run.parent / "3")
    assert sorted(path.name for path in job.run.parent.iterdir()) == ["1", "2", "3"]
    assert f"submitted by hand: this is generation 3, in {third.run}" in job.log(7)
    assert (third.run / "claim").read_text(encoding="utf-8") == "3 lab 7\n"
    assert third.outcome()["success"] is True
    assert third.seen()["env"].get("TOKEN") == "x"
    event = json.loads((third.run / "journal.jsonl").read_text(encoding="utf-8"))
    assert event.pop("time") > 1
    assert event == {"event": "submitted", "job_id": "7", "message": "submitted by hand"}
    # The generation that it was taken from stays as it was.
    assert not (job.run / "claim").exists()
    assert not (job.run / "outcome.json").exists()
    assert (job.run / "secrets.env").exists()
    assert not (third.run / "secrets.env").exists()


def test_a_requeued_job_finds_the_generation_that_it_made_by_hand(site: Site) -> None:
    job = site.job(shell("exit 3"))
    assert job.finish(job_id=7, by_hand=True) == 3
    assert job.finish(job_id=7, by_hand=True, attempt=1) == 3
    assert sorted(path.name for path in job.run.parent.iterdir()) == ["1", "2"]
    assert Job(site, job.plan, job.run.parent / "2").outcome()["attempt"] == 1


# --- secrets


def test_secrets_are_removed_at_the_end(site: Site) -> None:
    for line in ("true", "exit 3"):
        job = site.job({"name": "j" + line[0], **shell(line)}, secrets={"TOKEN": "x"})
        assert stat.S_IMODE((job.run / "secrets.env").stat().st_mode) == 0o600
        job.finish()
        assert not (job.run / "secrets.env").exists()


def test_secrets_are_kept_after_a_signal_since_a_requeue_may_follow(site: Site) -> None:
    job = site.job(shell('touch "$RANKZERO_RUN_DIR/begun"; exec sleep 60'), secrets={"TOKEN": "x"})
    process = job.start()
    wait_for((job.run / "begun").exists, process)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)
    assert (job.run / "secrets.env").exists()


def test_a_job_whose_secrets_are_gone_does_not_run_without_them(site: Site) -> None:
    job = site.job(shell('touch "$RANKZERO_RUN_DIR/ran"; exit 3'), secrets={"TOKEN": "x", "OTHER": "y"})
    assert job.finish() == 3
    (job.run / "ran").unlink()
    assert job.finish(attempt=1) == 78
    assert "the secrets (OTHER,TOKEN) of this run were removed at its end" in job.outcome()["message"]
    assert not (job.run / "ran").exists()


def test_a_rank_does_not_run_with_a_secret_that_cannot_be_read(site: Site) -> None:
    site.functions["base64"] = "return 1"
    job = site.job(shell('touch "$RANKZERO_RUN_DIR/ran"'), secrets={"TOKEN": "x"})
    assert job.finish() == 78
    assert "secrets.env: the value of TOKEN cannot be read on" in (job.run / "logs" / "0" / "rank-0000.log").read_text()
    assert not (job.run / "ran").exists()


def test_a_node_that_does_not_know_the_account_keeps_the_home_of_the_login_node(site: Site) -> None:
    """A directory service that does not answer left HOME empty, and caches went to the top of the file system."""
    site.functions["getent"] = 'case "$1" in passwd) return 2 ;; *) command getent "$@" ;; esac'
    job = site.job(shell('printf "%s" "$HOME" > "$RANKZERO_RUN_DIR/home"'))
    assert job.finish(HOME="/home/as-on-the-login-node") == 0
    assert (job.run / "home").read_text() == "/home/as-on-the-login-node"
