# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The early signal and restarts in the rendered script, with stand-ins for Slurm's commands."""

from __future__ import annotations

import shlex
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.harness import ARTIFACT, Job, Site, runtime_parts, wait_for

CHECKPOINT = {"signal_before_end": 60, "requeue": True, "max_restarts": 2}
#: Saves itself on TERM, and says that it runs.
SAVES = (
    "trap 'echo $RANKZERO_ATTEMPT > saved; exit 0' TERM; touch \"begun.$RANKZERO_ATTEMPT\"; while :; do sleep 0.1; done"
)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path / "cluster")
    said = shlex.quote(str(tmp_path / "said"))
    made.functions["scancel"] = f'echo "scancel $*" >> {said}; kill -TERM "$rankzero_step"'
    usual = made.functions["scontrol"]
    made.functions["scontrol"] = f'case "$1" in requeue) echo "scontrol $*" >> {said} ;; *) {usual} ;; esac'
    return made


def said(site: Site) -> list[str]:
    path = site.root.parent / "said"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def restarting(site: Site, line: str = SAVES, checkpoint: Any = None, **spec: Any) -> Job:
    return site.job({"shell": line, "checkpoint": CHECKPOINT | (checkpoint or {}), **spec})


def told_early(job: Job, attempt: int = 0) -> dict[str, Any]:
    """The outcome of an attempt that got the early signal while it ran."""
    process = job.start(attempt=attempt)
    wait_for((job.run / "work" / f"begun.{attempt}").exists, process)
    process.send_signal(signal.SIGUSR2)
    process.wait(timeout=60)
    return job.outcome()


def test_the_ranks_save_themselves_and_the_job_requeues_itself(site: Site) -> None:
    job = restarting(site, artifact=ARTIFACT)
    outcome = told_early(job)
    assert said(site) == ["scancel --signal=TERM 1", "scontrol requeue 1"]
    assert (outcome["ended_by"], outcome["success"]) == ("signal", False)
    assert outcome["message"] == "requeued: attempt 2 of at most 3 follows"
    assert (job.run / "work" / "saved").read_text(encoding="utf-8") == "0\n"


def test_the_last_task_of_an_array_means_itself_and_not_the_array(site: Site) -> None:
    """Its job id is the array's own number."""
    job = restarting(site, artifact=ARTIFACT)
    process = job.start(7, SLURM_ARRAY_JOB_ID="7", SLURM_ARRAY_TASK_ID="3")
    wait_for((job.run / "work" / "begun.0").exists, process)
    process.send_signal(signal.SIGUSR2)
    process.wait(timeout=60)
    assert said(site) == ["scancel --signal=TERM 7_3", "scontrol requeue 7_3"]
    assert (job.run / "claim").read_text(encoding="utf-8").split()[2] == job.outcome()["job_id"] == "7_3"


def test_the_ranks_get_the_signal_that_is_asked_for(site: Site) -> None:
    told_early(restarting(site, checkpoint={"signal": "INT"}))
    assert said(site)[0] == "scancel --signal=INT 1"


def test_where_scancel_fails_srun_is_told(site: Site) -> None:
    site.functions["scancel"] = "return 1"
    job = restarting(site)
    assert told_early(job)["ended_by"] == "signal"
    assert (job.run / "work" / "saved").exists()


def test_without_requeue_the_outcome_says_so(site: Site) -> None:
    job = site.job({"shell": SAVES, "checkpoint": {"signal_before_end": 60}})
    outcome = told_early(job)
    assert said(site) == ["scancel --signal=TERM 1"]
    assert outcome["message"].endswith("not requeued: checkpoint.requeue is not true")


def test_the_restart_limit_ends_the_job(site: Site) -> None:
    outcome = told_early(restarting(site), attempt=2)
    assert said(site) == ["scancel --signal=TERM 1"]
    assert outcome["message"].endswith("not requeued: this was attempt 3 of at most 3 (checkpoint.max_restarts)")


def test_two_attempts_that_leave_the_same_end_the_job(site: Site) -> None:
    same = {"line": SAVES.replace("$RANKZERO_ATTEMPT", "same", 1)}
    job = restarting(site, **same, checkpoint={"progress": "saved"})
    assert told_early(job)["message"] == "requeued: attempt 2 of at most 3 follows"
    assert told_early(job, attempt=1)["message"].endswith(
        "not requeued: no progress: saved (checkpoint.progress) is the same after attempt 1 and attempt 2"
    )
    # Without a file to look at, only the number of restarts is a limit.
    unguarded = restarting(site, **same, name="unguarded")
    for attempt in (0, 1):
        assert told_early(unguarded, attempt)["message"].startswith("requeued: ")


def test_an_attempt_that_got_further_goes_on(site: Site) -> None:
    job = restarting(site, checkpoint={"progress": "saved"})
    for attempt in (0, 1):
        assert "requeued: attempt" in told_early(job, attempt)["message"]


def test_progress_is_looked_for_in_the_folder_of_checkpoints(site: Site) -> None:
    folder = site.root / "checkpoints"
    line = SAVES.replace("> saved", "> $RANKZERO_CHECKPOINT_DIR/saved")
    job = restarting(site, line=line, checkpoint={"progress": "saved", "dir": str(folder)})
    for attempt in (0, 1):
        assert "requeued: attempt" in told_early(job, attempt)["message"]
    assert (folder / "saved").read_text(encoding="utf-8") == "1\n"


def test_a_fresh_folder_of_checkpoints_is_that_of_one_launch(site: Site) -> None:
    """A requeued attempt finds what the one before has saved; the next generation does not."""
    folder = site.root.parent / "checkpoints"
    spec = {"checkpoint": {"dir": str(folder), "fresh": True}, "shell": 'echo x >> "$RANKZERO_CHECKPOINT_DIR/steps"'}
    (folder / "of-another-launch").mkdir(parents=True)
    job = site.job(spec)
    for attempt in (0, 1):
        assert job.finish(attempt=attempt) == 0, job.log()
        job.forget()
    assert site.job(spec, generation=2).finish(job_id=2) == 0
    key = job.run.parent.name
    steps = {path.parent.name: path.read_text(encoding="utf-8") for path in folder.glob("*/steps")}
    assert steps == {f"{key}.1": "x\nx\n", f"{key}.2": "x\n"}


def test_the_sizes_that_were_checked_are_a_line_of_the_jobs_log(site: Site) -> None:
    sizes = {"parallelism": {"strategy": "megatron", "tensor": 2, "micro_batch": 1, "global_batch": 4}}
    job = site.job({"launcher": {"ranks_per_node": 4}, **sizes})
    assert job.finish() == 0, job.log()
    assert "[rankzero] TP=2 PP=1 CP=1 EP=1 DP=2 MBS=1 GBS=4\n" in job.log()


def test_a_file_of_progress_that_never_appears_is_no_progress(site: Site) -> None:
    job = restarting(site, checkpoint={"progress": "nothing"})
    assert told_early(job)["message"].startswith("requeued: ")
    assert "no progress: nothing" in told_early(job, attempt=1)["message"]


def test_a_program_that_ends_in_time_is_a_success(site: Site) -> None:
    line = SAVES.replace("echo $RANKZERO_ATTEMPT > saved", 'echo "{\\"loss\\": 1.0}" > result.json')
    job = restarting(site, line=line, artifact=ARTIFACT)
    outcome = told_early(job)
    assert (outcome["ended_by"], outcome["success"]) == ("program", True)
    assert said(site) == ["scancel --signal=TERM 1"]


def test_an_artifact_that_is_not_valid_does_not_keep_it_from_the_queue(site: Site) -> None:
    line = SAVES.replace("echo $RANKZERO_ATTEMPT > saved", 'echo "{\\"loss\\": 9.0}" > result.json')
    assert told_early(restarting(site, line=line, artifact=ARTIFACT))["message"].startswith("requeued: ")


def test_a_requeue_that_slurm_refuses_is_the_end(site: Site) -> None:
    site.functions["scontrol"] = (
        'if [ "$1" = requeue ]; then echo "Requested operation is presently disabled" >&2; return 1; fi; '
        'echo "$3" | tr , "\\n"'
    )
    outcome = told_early(restarting(site))
    assert outcome["message"].endswith("Slurm did not requeue the job: Requested operation is presently disabled")


NOT_ASKED = "not requeued: this site does that for jobs that ask for it only (checkpoint.requeue)"


def preempted(requeue: int, preempted: str = "2026-01-01T10:00:05") -> str:
    """A scontrol under which the job that runs since 10:00:00 was preempted (or an attempt before this one was)."""
    said = f"JobId=1 Requeue={requeue} Restarts=0 StartTime=2026-01-01T10:00:00 PreemptTime={preempted} Suspend=0"
    return (
        'case "$*" in *hostnames*) echo "$3" | tr , "\\n" ;; '
        'requeue*) echo "scontrol $*" >> "$RANKZERO_RUN_DIR/../said" ;; '
        f'*) echo "{said}" ;; esac'
    )


@pytest.mark.parametrize(
    ("scontrol", "code", "success", "message"),
    [
        (preempted(1), 0, False, "preempted by a job of a higher priority; requeued: attempt 2 follows"),
        (preempted(1), 143, False, "preempted by a job of a higher priority; requeued: attempt 2 follows"),
        (
            preempted(0),
            0,
            False,
            f"preempted by a job of a higher priority; {NOT_ASKED}",
        ),
        (preempted(1, "None"), 3, False, "the program ended with exit code 3"),
        (preempted(1, "2026-01-01T09:59:59"), 0, True, "the program ended with exit code 0"),
    ],
)
def test_ranks_that_end_in_the_grace_of_a_preemption(
    site: Site, scontrol: str, code: int, success: bool, message: str
) -> None:
    """Slurm tells the ranks only; a script that ended by itself then would make the job FAILED."""
    site.functions["scontrol"] = scontrol
    job = site.job({"shell": f"exit {code}", "preflight": {"enabled": False}})
    job.finish()
    outcome = job.outcome()
    assert (outcome["success"], outcome["message"]) == (success, message)
    requeues = job.run.parent / "said"
    assert requeues.exists() == ("; requeued" in message)


def test_a_proven_result_is_a_success_also_when_preempted(site: Site) -> None:
    site.functions["scontrol"] = preempted(1)
    job = site.job({"shell": 'echo "{\\"loss\\": 1.0}" > result.json', "artifact": ARTIFACT})
    assert job.finish() == 0
    assert job.outcome()["success"]


def test_a_cancelled_job_does_not_requeue_itself(site: Site) -> None:
    """TERM is scancel's, the time limit's and preemption's: Slurm decides then."""
    job = restarting(site)
    process = job.start()
    wait_for((job.run / "work" / "begun.0").exists, process)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)
    assert said(site) == []
    assert "cancelled, time limit or preemption" in job.outcome()["message"]


def test_an_early_signal_in_the_preflight_reaches_the_ranks_later(site: Site) -> None:
    job = restarting(site, setup={"commands": ["kill -USR2 $PPID"]})
    job.finish()
    assert job.outcome()["message"].startswith("requeued: ")
    assert said(site) == ["scontrol requeue 1"]


# --- what runs beside the ranks


@pytest.fixture
def forbidding(site: Site) -> Site:
    """A job that asked to be requeued, at a site that takes that away; sbatch gives the next job number 77."""
    log = shlex.quote(str(site.root.parent / "said"))
    site.functions["scontrol"] = (
        'case "$*" in *hostnames*) echo "$3" | tr , "\\n" ;; requeue*) echo disabled >&2; return 1 ;; *) '
        'echo "JobId=1 Requeue=0 ExcNodeList=node09 StartTime=2026-01-01T10:00:00 PreemptTime=None Suspend=0" ;; esac'
    )
    site.program("sbatch", f'echo "sbatch $* as ${{SLURM_JOB_ID:-nobody}}" >> {log}; echo "77;lab"')
    return site


def chained(site: Site, **spec: Any) -> Job:
    """Its set-up finds the stand-in for sbatch."""
    return restarting(site, setup={"commands": [f"PATH={shlex.quote(str(site.tools))}:$PATH"]}, **spec)


def test_another_job_goes_on_where_none_may_be_requeued(forbidding: Site) -> None:
    job = chained(forbidding)
    outcome = told_early(job)
    script = f"{job.run}/job.sbatch"
    assert said(forbidding)[-1] == (
        f"sbatch --parsable --dependency=afterany:1,singleton --exclude=node09 {script} --submission chain:1 as nobody"
    )
    goes_on = "stopped by the signal before the time limit; job 77 takes over: attempt 2 of at most 3 follows"
    assert outcome["message"] == goes_on
    assert (job.run / "claim").read_text(encoding="utf-8") == "1 lab 77\n"
    # The next job finds the claim to be its own, and counts on.
    process = job.start(job_id=77)
    wait_for((job.run / "work" / "begun.1").exists, process)
    process.send_signal(signal.SIGUSR2)
    process.wait(timeout=60)
    assert (job.outcome()["attempt"], job.outcome()["job_id"]) == (1, "77")
    before = job.run / "started.before-attempt-1.json"
    assert '"job_id": "1", "attempt": 0' in before.read_text(encoding="utf-8")


def test_the_next_job_is_asked_for_as_the_one_of_several_that_ran(forbidding: Site) -> None:
    """Its account and time are not those of the script (resources.any_of)."""
    scontrol = forbidding.functions["scontrol"]
    forbidding.functions["scontrol"] = scontrol.replace("Requeue=0", "Requeue=0 Account=b QOS=q TimeLimit=00:30:00")
    ways = [{"account": "a"}, {"account": "b", "time": "00:30:00"}]
    told_early(chained(forbidding, resources={"any_of": ways, "time": "01:00:00"}))
    words = said(forbidding)[-1].split()
    assert [word for word in words if word.startswith(("--account", "--qos", "--time"))] == [
        "--account=b",
        "--time=00:30:00",
    ]


def test_a_script_submitted_by_hand_has_no_successor(forbidding: Site) -> None:
    job = chained(forbidding)
    process = job.start(by_hand=True)
    wait_for((job.run.parent / "2" / "work" / "begun.0").exists, process)
    process.send_signal(signal.SIGUSR2)
    process.wait(timeout=60)
    verdict = (job.run.parent / "2" / "outcome.json").read_text(encoding="utf-8")
    assert "no other job takes over: the script was submitted by hand" in verdict
    assert not [line for line in said(forbidding) if line.startswith("sbatch")]


def test_the_next_job_takes_what_the_one_before_did_not_live_to_write(site: Site) -> None:
    job = site.job({"shell": "echo ran"})
    (job.run / "claim").write_text("1 lab 1\n", encoding="utf-8")
    (job.run / ".attempt").write_text("2\n", encoding="utf-8")
    # Another one's successor is none of ours.
    assert job.start(job_id=78, submission="chain:5").wait(timeout=60) == 0
    assert not (job.run / "outcome.json").exists()
    assert job.start(job_id=77, submission="chain:1").wait(timeout=60) == 0
    assert (job.run / "claim").read_text(encoding="utf-8") == "1 lab 77\n"
    assert (job.outcome()["attempt"], job.outcome()["success"]) == (3, True)


@pytest.mark.parametrize("made", ["ln -sfn /dev/zero", "rm -f {0}; mkfifo -m 666"])
def test_a_file_of_progress_that_never_ends_does_not_hold_the_job(site: Site, made: str) -> None:
    """Who shares the folder of checkpoints can put anything in the file's place: it counts as missing."""
    path = '"$RANKZERO_CHECKPOINT_DIR/saved"'
    line = SAVES.replace("echo $RANKZERO_ATTEMPT > saved", f"{made.format(path)} {path}")
    job = restarting(site, line=line, checkpoint={"progress": "saved", "dir": str(site.root / "checkpoints")})
    assert told_early(job)["message"].startswith("requeued: ")
    assert "no progress: saved" in told_early(job, attempt=1)["message"]


def test_of_a_large_file_of_progress_both_ends_count(tmp_path: Path) -> None:
    with runtime_parts("end.restart") as restart:
        path, seen = tmp_path / "saved", []
        with path.open("wb") as stream:
            stream.truncate(restart.WHOLE_BYTES + restart.END_BYTES)
            for place in (0, restart.WHOLE_BYTES + restart.END_BYTES - 1):
                seen.append(restart._digest(str(path)))
                stream.seek(place)
                stream.write(b"x")
                stream.flush()
            seen.append(restart._digest(str(path)))
        assert len(set(seen)) == 3
        assert seen[-1] == restart._digest(str(path))


def test_a_program_that_sees_the_loss_of_a_node_before_slurm_does_is_requeued(site: Site) -> None:
    """Without spares, too: Slurm requeues a job only once it has seen that a node is gone."""
    site.lose("n2")
    job = restarting(site, "exit 3", resources={"nodes": 2}, preflight={"enabled": False})
    assert job.finish(nodes="n1,n2") == 3
    assert job.outcome()["message"] == (
        "n2 failed; not restarted inside the job: no spare node is left; requeued: attempt 2 of at most 3 follows"
    )
    assert said(site)[0] == "scontrol requeue 1"


def test_a_program_that_fails_on_nodes_that_answer_has_failed(site: Site) -> None:
    job = restarting(site, "exit 3", resources={"nodes": 2}, preflight={"enabled": False})
    assert job.finish(nodes="n1,n2") == 3
    assert job.outcome()["ended_by"] == "program" and said(site) == []


#: As a node says whose clock is ahead: Slurm has it from the node itself.
AFTER = "BootTime=2999-01-01T00:00:00"


@pytest.mark.parametrize(
    ("shown", "up", "lost"),
    [
        ("State=MIXED", "7200.00", False),
        (f"State=MIXED {AFTER}", "7200.00", False),
        ("State=DOWN*", "7200.00", True),
        ("State=IDLE+NOT_RESPONDING", "7200.00", True),
        # It has started again, and Slurm has it back: nothing of the job is left there.
        ("State=MIXED BootTime=2001-01-01T00:00:00", "12.34", True),
        ("", "7200.00", False),
        # It starts no task.
        ("State=MIXED", "", True),
    ],
)
def test_what_slurm_and_a_node_say_tells_whether_it_is_lost(tmp_path: Path, shown: str, up: str, lost: bool) -> None:
    """The node's own word is how long it is up."""
    alive = tmp_path / "preflight" / "0.alive"
    answers = [f"touch '{alive}/{word}'" for word in ("9000.00 n2", f"{up} n1" if up else "") if word]
    for name, text in (("scontrol", f"echo 'NodeName=n1 {shown}'"), ("srun", "\n".join(answers))):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "RANKZERO_RUN_DIR": str(tmp_path)}
    with runtime_parts("core.lost") as module, runtime_parts("core.state") as state:
        made = state.Job(env=env, runtime="", array_dir="", python="", begun_at=time.monotonic() - 3600)
        assert module.among(made, ["n1", "n2"]) == (["n1"] if lost else [])
