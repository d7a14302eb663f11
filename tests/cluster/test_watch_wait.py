# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""job_wait against a real Slurm, run by ansible-playbook as a user runs it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.cluster.launching import CLOSING
from tests.cluster.watching import SECONDS, Bench, bench
from tests.warm_playbooks import lives

__all__ = ["bench"]

STEPS = """for i in 1 2 3 4 5 6; do echo "step $i/6 loss $((9 - i)).25 (10 tokens/s)" >> $LOG; sleep 0.3; done"""


def test_a_success_with_live_lines(bench: Bench) -> None:
    run = bench.submit(f"until [ -e $RUN/go ]; do sleep 0.1; done; {STEPS}; success", "--nodes=2")
    task = bench.start("job_wait", run_dir=run.path)
    task.says(f"login: job {run.job_id}: waiting; Ctrl-C leaves the job alone")
    task.says("started on 2 nodes (")
    (run.here / "go").touch()
    found = task.finish()
    assert f"login: job {run.job_id}: step 6/6 loss 3.25 (10 tokens/s)" in task.output, "the last one is always shown"
    assert (found["completed"], found["success"], found["changed"]) == (True, True, False)
    assert found["slurm_state"] in ("COMPLETED", *CLOSING)
    assert found["artifact"]["scalars"] == {"loss": 1.5}
    assert len(found["nodes"]) == 2 and found["exit_code"] == 0 and found["attempt"] == 0
    assert found["progress"] == {"step": 6, "total": 6, "loss": 3.25, "tokens_per_second": 10.0}
    assert found["wall_time"] >= 0 and found["polls"] >= 1
    assert found["run_dir"] == run.path and found["logs_dir"] == f"{run.path}/logs"

    again = bench.task("job_wait", run_dir=run.path)
    assert (again["success"], again["polls"]) == (True, 0), "an ended launch is not waited for"


def test_a_failure_is_told_and_does_not_fail_the_task(bench: Bench) -> None:
    run = bench.submit('sleep 2; outcome false 3 "the program ended with exit code 3" null; exit 3')
    found = bench.task("job_wait", run_dir=run.path)
    assert (found["completed"], found["success"], found["slurm_state"], found["exit_code"]) == (
        True,
        False,
        "FAILED",
        3,
    )
    assert found["message"].startswith("the program ended with exit code 3; FAILED")


def test_a_completed_job_without_an_outcome_is_a_failure(bench: Bench) -> None:
    run = bench.submit("sleep 1")
    found = bench.task("job_wait", run_dir=run.path, outcome_grace=3)
    assert (found["completed"], found["success"], found["slurm_state"]) == (True, False, "COMPLETED")
    assert "ended without writing its outcome" in found["message"]


def test_a_late_outcome_is_awaited_and_believed(bench: Bench) -> None:
    """As on a network file system: Slurm says COMPLETED long before the outcome can be seen."""
    run = bench.submit("success; mv $RUN/outcome.json $RUN/later; sleep 1")
    bench.ended(run)
    task = bench.start("job_wait", run_dir=run.path, outcome_grace=100)
    task.says("waiting;")
    (run.here / "later").rename(run.here / "outcome.json")
    found = task.finish()
    assert (found["success"], found["slurm_state"]) == (True, "COMPLETED")


def test_wait_timeout_leaves_the_job_and_the_shape(bench: Bench) -> None:
    run = bench.submit("until [ -e $RUN/go ]; do sleep 0.1; done; success")
    bench.started(run)
    short = bench.task("job_wait", run_dir=run.path, wait_timeout=2, poll_min=0.1, poll_max=1)
    assert (short["completed"], short["success"], short["slurm_state"]) == (False, False, "RUNNING")
    assert "the job continues" in short["message"]
    (run.here / "go").touch()
    full = bench.task("job_wait", job_id=run.job_id, state_root=bench.state_root)
    assert full["success"] and set(full) == set(short)


def test_until_started(bench: Bench) -> None:
    run = bench.submit("sleep 600", "--begin=now+1hour")
    task = bench.start(
        "job_wait", name=run.name, key=run.key, generation=1, state_root=bench.state_root, until="started"
    )
    task.says("pending: its earliest start time has not come (BeginTime)")
    bench.lab.head(["scontrol", "update", f"JobId={run.job_id}", "StartTime=now"])
    found = task.finish()
    assert (found["completed"], found["slurm_state"]) == (False, "RUNNING")
    assert found["nodes"] == bench.started(run)["nodes"]


def test_check_mode_does_not_wait(bench: Bench) -> None:
    run = bench.submit("sleep 60")
    found = bench.task("job_wait", run_dir=run.path, check=True)
    assert (found["completed"], found["polls"]) == (False, 0)


def test_a_cancelled_job(bench: Bench) -> None:
    run = bench.submit("sleep 60", "--hold")
    task = bench.start("job_wait", run_dir=run.path)
    task.says("held by its owner (JobHeldUser); release it with: scontrol release")
    bench.lab.head(["scancel", run.job_id])
    found = task.finish()
    assert (found["completed"], found["success"], found["slurm_state"]) == (True, False, "CANCELLED")
    assert "it was cancelled" in found["message"]


def test_what_can_never_start_is_not_waited_for(bench: Bench) -> None:
    first = bench.submit("exit 1")
    bench.ended(first)
    run = bench.submit("true", f"--dependency=afterok:{first.job_id}")
    found = bench.task("job_wait", run_dir=run.path)
    assert (found["completed"], found["success"], found["slurm_state"]) == (False, False, "PENDING")
    assert found["message"].startswith("it can never start: ") and "DependencyNeverSatisfied" in found["message"]


def test_a_requeue_is_followed_to_the_second_attempt(bench: Bench) -> None:
    first, second = "echo step 5 >> $LOG; sleep 600", "echo step 7 >> $LOG; success"
    run = bench.submit(f"if [ $ATTEMPT = 0 ]; then {first}; else {second}; fi")
    task = bench.start("job_wait", run_dir=run.path)
    task.says("step 5")
    bench.lab.head(["scontrol", "requeuehold", run.job_id])
    task.says("back into the queue")
    bench.lab.release(run.job_id)
    found = task.finish()
    assert "attempt 2 started on 1 node" in task.output and "step 7" in task.output
    assert (found["success"], found["attempt"], len(found["attempts"])) == (True, 1, 2)


def test_a_duplicate_that_lost_the_claim_is_left_for_the_owner(bench: Bench) -> None:
    owner = bench.submit("until [ -e $RUN/go ]; do sleep 0.1; done; success")
    loser = bench.submit("true", "--hold", f"--job-name={owner.name}.{owner.key}.1")
    claim = bench.wait_for(owner, "claim")
    hidden = claim.rename(owner.here / "hidden")
    journal = owner.here / "journal.jsonl"
    journal.write_text(journal.read_text().replace(f'"{owner.job_id}"', f'"{loser.job_id}"'))
    task = bench.start("job_wait", run_dir=owner.path)
    task.says(f"job {loser.job_id}: waiting")
    hidden.rename(claim)
    task.says(f"job {owner.job_id} owns this launch, not job {loser.job_id}: following it")
    (owner.here / "go").touch()
    found = task.finish()
    assert (found["job_id"], found["success"]) == (owner.job_id, True)


def test_ctrl_c_leaves_the_job_and_a_second_run_attaches(bench: Bench) -> None:
    run = bench.submit("until [ -e $RUN/go ]; do sleep 0.1; done; success")
    task = bench.start("job_wait", run_dir=run.path)
    task.says("started on 1 node")
    assert task.interrupt() != 0
    assert bench.state(run) == "RUNNING"
    (run.here / "go").touch()
    assert bench.task("job_wait", run_dir=run.path)["success"]


def test_a_wait_ends_with_its_killed_playbook(bench: Bench) -> None:
    run = bench.submit("until [ -e $RUN/go ]; do sleep 0.1; done; success")
    task = bench.start("job_wait", run_dir=run.path, poll_max=600)
    task.says("started on 1 node")
    playbook = task.process.pid
    workers = Path(f"/proc/{playbook}/task/{playbook}/children").read_text().split()
    assert workers
    os.kill(playbook, signal.SIGKILL)
    bench.lab.wait_until(lambda: not any(map(lives, workers)), SECONDS, f"{workers} end with {playbook}")
    look = ["pgrep", "--full", run.path]
    bench.lab.wait_until(lambda: bench.lab.head(look, check=False).stdout == "", SECONDS, "the look on the host ends")
    assert bench.state(run) == "RUNNING"
    (run.here / "go").touch()


def test_slurmctld_that_goes_away_while_waiting(bench: Bench) -> None:
    """The answer of squeue changes under the wait: silent, then back."""
    run = bench.submit("until [ -e $RUN/go ]; do sleep 0.1; done; sleep 3; exit 3")
    bench.started(run)
    flag = run.here / "silent"
    task = bench.start(
        "job_wait",
        run_dir=run.path,
        through=bench.shell_with_moody_queue(f"{run.path}/silent"),
        poll_max=1,
        outcome_grace=3,
    )
    task.says("waiting;")
    flag.touch()
    task.says("Slurm does not answer (slurm_load_jobs error: Unable to contact slurm controller")
    (run.here / "go").touch()
    bench.ended(run)
    assert task.process.poll() is None, "silence is not the end"
    flag.unlink()
    found = task.finish()
    assert "Slurm answers again" in task.output
    assert task.output.count("Slurm does not answer") == 1
    assert (found["completed"], found["success"], found["slurm_state"]) == (True, False, "FAILED")


def test_unknown_launches_and_options(bench: Bench) -> None:
    failed = bench.task("job_wait", name="none", state_root=bench.state_root, fails=True)
    assert "no launch with name=none is recorded" in failed["msg"]
    failed = bench.task("job_wait", fails=True)
    assert "which launch? Give run_dir" in failed["msg"]
    failed = bench.task("job_wait", run_dir="/tmp", wait_timout=3, fails=True)
    assert "wait_timout" in failed["msg"]
    failed = bench.task("job_wait", run_dir="/tmp", until="done", fails=True)
    assert "started, artifact, pattern, finished" in failed["msg"]


def test_arguments_between_the_halves_are_no_options(bench: Bench) -> None:
    assert "x_settle" in bench.task("job_wait", run_dir="/tmp", x_settle=1.0, fails=True)["msg"]
    assert "x_asked" in bench.task("job_wait", run_dir="/tmp", x_asked=1, fails=True)["msg"]
    assert "x_request" in bench.task("job_logs", run_dir="/tmp", x_request={}, fails=True)["msg"]
