# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The conductor's own functions, without Slurm and without a script: what happens where a call fails, or comes late."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME
from tests.unit.runtime.harness import runtime_parts

PARTS = (
    "artifact.verdict", "core.held_steps", "core.processes", "core.slurm", "core.state", "core.traps", "end.chain",
    "end.requeue", "end.restart", "job.script", "job.spare", "node.sealed_steps", "preflight.preflight_steps",
    "rank.step", "start.attempt", "start.claim", "start.rendezvous",
)  # fmt: skip


@pytest.fixture
def job() -> Iterator[SimpleNamespace]:
    """The conductor's modules, by the names of their files."""
    before = {number: signal.getsignal(number) for number in range(1, 32) if number not in (9, 19)}
    with runtime_parts(PARTS[0]):
        yield SimpleNamespace(**{name.partition(".")[2]: importlib.import_module(name) for name in PARTS})
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def made(job: SimpleNamespace, tmp_path: Path) -> Any:
    """A job whose generation 1 lies in a run directory."""
    run = tmp_path / "runs" / "name" / "key" / "1"
    (run / "logs").mkdir(parents=True)
    for name in ("launch.json", "contract.json", "job.sbatch"):
        (run / name).write_text('{"artifact": null}' if name == "contract.json" else "{}", encoding="utf-8")
    env = {
        "PATH": os.environ["PATH"], "RANKZERO_RUN_DIR": str(run), "RANKZERO_GENERATION": "1", "RANKZERO_KEY": "k",
        "RANKZERO_ATTEMPT": "0", "SLURM_JOB_ID": "7", "SLURM_CLUSTER_NAME": "lab", "SLURM_JOB_NODELIST": "n1",
    }  # fmt: skip
    return job.state.Job(env=env, runtime=RUNTIME, submission="host:1", python=sys.executable)


def test_what_the_login_of_the_user_set_does_not_reach_the_job() -> None:
    """Where the container stands in the job's header, Slurm has read the user's login for the batch script; a person
    who submits it gives it all that is set in his shell.
    """
    dropped = {"BASH_ENV": "/home/u/.env", "LD_LIBRARY_PATH": "/opt/old/lib", "PYTHONPATH": "/home/u/lib"}
    kept = {"HOME": "/home/u", "PATH": "/bin", "SLURM_JOB_ID": "7", "RANKZERO_NAME": "a", "CUDA_VISIBLE_DEVICES": "0"}

    def initial(*arguments: str, **more: str) -> dict[str, str]:
        line = f"import json; from job import environment; print(json.dumps(environment.initial({arguments!r})))"
        command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {RUNTIME!r}); {line}"]
        env = {"PYTHONDONTWRITEBYTECODE": "1", **dropped, **kept, **more}
        return dict(json.loads(subprocess.run(command, env=env, capture_output=True, check=True).stdout))

    given = ("--submission", "host:1")
    assert initial(*given) == {"PYTHONDONTWRITEBYTECODE": "1", **dropped, **kept}
    assert initial(*given, RANKZERO_LOGIN_DROPPED="1") == kept
    assert initial() == kept


def fails(*_: object, **__: object) -> None:
    raise OSError(5, "Input/output error")


# --- the claim


def test_a_link_that_is_said_to_have_failed_may_be_ours(
    job: SimpleNamespace, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost reply of a network file system: the claim was made."""
    real = os.link

    def link(source: str, target: str) -> None:
        real(source, target)
        fails()

    monkeypatch.setattr(os, "link", link)
    assert job.claim.acquire(made) == job.claim.TAKEN
    assert not list(Path(made.run_dir).glob(".claim*"))


def test_a_claim_that_cannot_be_made_is_not_taken(
    job: SimpleNamespace, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", fails)
    assert job.claim.acquire(made) == job.claim.UNKNOWN


def test_a_claim_of_another_job_is_its(job: SimpleNamespace, made: Any) -> None:
    Path(made.path("claim")).write_text("1 lab 6\n", encoding="utf-8")
    assert job.claim.acquire(made) == job.claim.ANOTHERS


def test_a_claim_that_its_folder_names_is_waited_for(
    job: SimpleNamespace, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter(["", "", "1 lab 7"])
    monkeypatch.setattr(job.claim, "first_line", lambda _path: next(looks))
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    assert job.claim.acquire(made) == job.claim.TAKEN


def test_a_generation_made_by_hand_appears_whole(
    job: SimpleNamespace, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the moment when it gets its name it has its journal and its claim."""
    Path(made.path("secrets.env")).touch(0o600)
    real, listed = os.rename, []

    def rename(source: str, target: str) -> None:
        listed.extend(sorted(os.listdir(source)))
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    assert job.claim.by_hand(made)
    assert listed == ["claim", "contract.json", "job.sbatch", "journal.jsonl", "launch.json", "logs", "secrets.env"]
    assert (made.generation, Path(made.run_dir).name) == (2, "2")
    assert made.changed.keys() >= {"RANKZERO_RUN_DIR", "RANKZERO_GENERATION"}


@pytest.mark.parametrize("name", ["rename", "makedirs"])
def test_where_no_generation_can_be_made_nothing_is_left(
    job: SimpleNamespace, made: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(os, name, fails)
    assert not job.claim.by_hand(made)
    assert os.listdir(os.path.dirname(made.run_dir)) == ["1"]


def test_a_start_that_nobody_knows_of_is_not_run_while_slurm_is_silent(
    job: SimpleNamespace, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    Path(made.path(".attempt")).write_text("0\n", encoding="utf-8")
    monkeypatch.setattr(job.slurm, "show_job", lambda _job: "")
    monkeypatch.setattr(job.processes, "pause", asked.append)
    with pytest.raises(job.state.Ended) as end:
        job.claim.count_attempts(made)
    assert (end.value.code, sum(asked)) == (75, 55)


# --- meeting point


def test_two_steps_of_one_job_begin_at_different_ports(job: SimpleNamespace, made: Any) -> None:
    ports = set()
    for step in ("7.2", "7.3"):
        made.env["RANKZERO_ATTACHED"] = step
        ports.add(importlib.import_module("start.ports").free(made.id)[0])
    assert len(ports) == 2


# --- signals and steps


def test_an_artifact_that_has_landed_is_not_taken_back_by_a_signal(job: SimpleNamespace, made: Any) -> None:
    made.step.process = job.processes.start(["sleep", "60"], os.environ)
    made.step.ended_by = "program"
    made.signals.landed = made.signals.terminated = True
    job.step.act_on_signals(made)
    assert made.step.ended_by == "artifact"
    assert job.step.wait_for_end(made) == 143


def count_from(job: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, sign: Path) -> str:
    """Let a program's time begin only when it has made this sign, however long it takes to start. The shell's line."""
    real = job.processes.after

    def after(seconds: float) -> Any:
        while not sign.exists():
            time.sleep(0.01)
        return real(seconds)

    monkeypatch.setattr(job.processes, "after", after)
    return f"touch '{sign}'"


def test_a_step_that_does_not_heed_term_is_killed(
    job: SimpleNamespace, made: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sign = count_from(job, monkeypatch, tmp_path / "deaf")
    words = ["/bin/bash", "-c", f"trap '' TERM; {sign}; while :; do sleep 0.1; done"]
    assert job.step.run_bounded(made, 0.3, words) == 137


def test_the_verdict_comes_before_the_end_of_a_step_that_slurm_has_told_to_end(
    job: SimpleNamespace, made: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A site may kill the batch script three seconds after its signal."""
    monkeypatch.setattr(job.step, "BEFORE_VERDICT", 0.1)
    deaf = "import pathlib, signal, sys, time; signal.signal(15, signal.SIG_IGN)\n"
    deaf += "pathlib.Path(sys.argv[1]).touch(); time.sleep(60)"
    process = job.processes.start([sys.executable, "-c", deaf, str(tmp_path / "deaf")], made.env)
    while not (tmp_path / "deaf").exists():
        time.sleep(0.01)
    made.step = job.state.Step(ended_by="setup", grace=5.0, verdict_first=True, process=process)
    made.signals.terminated = True
    job.step.wait_for_end(made)
    assert made.step.ended_by == "signal" and job.processes.runs(process)
    # Afterwards it is waited for, and gone.
    monkeypatch.setattr(job.processes, "wait_or_kill", lambda number, _seconds: job.processes.kill(number))
    job.held_steps.release(made)
    assert job.processes.wait(process, 10)


def test_a_step_that_ends_by_itself_keeps_its_code_although_the_artifact_has_landed(
    job: SimpleNamespace, made: Any
) -> None:
    made.step.process = job.processes.start(["/bin/bash", "-c", "exit 5"], os.environ)
    made.step.ended_by = "program"
    assert job.processes.wait(made.step.process, 30)
    made.signals.landed = True
    job.step.act_on_signals(made)
    assert (made.step.ended_by, job.step.wait_for_end(made)) == ("program", 5)


def test_a_program_has_its_seconds(job: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    within, env = job.processes.run, os.environ
    assert within(30, ["/bin/bash", "-c", "exit 7"], env) == 7
    assert within(0, ["sleep", "600"], env) == 124
    assert within(30, ["/no/such/program"], env) == 127
    # What a program leaves behind may hold its output open, and is not waited for.
    assert job.processes.output_of(30, ["/bin/bash", "-c", "echo said; sleep 600 & exit 3"], env) == (3, "said")
    sign = count_from(job, monkeypatch, tmp_path / "spoken")
    said = job.processes.output_of(0.2, ["/bin/bash", "-c", f"echo said; {sign}; exec sleep 600"], env)
    assert said == (124, "said")


@pytest.mark.parametrize("program", ["cat", "sleep 600", "trap '' TERM; while :; do sleep 1; done", "exit 1"])
def test_what_is_held_is_let_go_of_in_its_time(
    job: SimpleNamespace, made: Any, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(job.held_steps, "RELEASE_SECONDS", 0 if program != "cat" else 60)
    one = job.held_steps.tie(made, ["/bin/bash", "-c", program])
    job.held_steps.release(made)
    assert not job.processes.runs(one.process)
    assert not made.held


def test_a_mount_is_not_waited_for_as_long_as_copies(
    job: SimpleNamespace, made: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """srun waits for a node that is lost, and the job held all others for two minutes after its verdict."""
    waited: list[float] = []
    monkeypatch.setattr(job.held_steps.processes, "wait_or_kill", lambda _number, seconds: waited.append(seconds))
    monkeypatch.setattr(job.sealed_steps.Mount, "step", lambda *_: ["cat"])
    job.held_steps.tie(made, ["cat"])
    job.sealed_steps.Mount(str(tmp_path), "node01", "60").hold(made)
    job.held_steps.release(made)
    # The last one first.
    assert [round(seconds) for seconds in waited] == [10, 120]


# --- requeue


def test_times_of_a_preemption_before_this_attempt_say_nothing(
    job: SimpleNamespace, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: dict[str, str] = {}
    monkeypatch.setattr(job.processes, "output_of", lambda *_: (0, said["text"]))
    for preempted, expected in (("None", False), ("2026-01-01T10:00:00", False), ("2026-01-01T12:00:00", True)):
        said["text"] = f"JobId=7 PreemptTime={preempted} StartTime=2026-01-01T11:00:00 Requeue=1"
        assert job.slurm.preempted(made) is expected


@pytest.mark.parametrize(
    ("version", "expected"), [("slurm 22.05.8", False), ("slurm 24.11.0", True), ("slurm 26.05.1", True), ("", False)]
)
def test_which_releases_requeue_by_themselves(
    job: SimpleNamespace, made: Any, monkeypatch: pytest.MonkeyPatch, version: str, expected: bool
) -> None:
    monkeypatch.setattr(job.slurm, "query", lambda *_words, **_how: (0, version))
    assert job.slurm.requeues_by_itself(made) is expected


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, "checkpoint.requeue is not true"),
        ({"RANKZERO_MAX_RESTARTS": "0"}, "this was attempt 1 of at most 1 (checkpoint.max_restarts)"),
        ({"RANKZERO_MAX_RESTARTS": "1"}, ""),
    ],
)
def test_why_a_job_is_not_requeued(job: SimpleNamespace, made: Any, env: dict[str, str], expected: str) -> None:
    made.env.update(env)
    assert job.restart.why_not(made) == expected


def failed_node(
    job: SimpleNamespace, made: Any, monkeypatch: pytest.MonkeyPatch, asked: str, nodes: int, requeue: int
) -> list[str]:
    """What Slurm is told by a job that is to be requeued, one of whose nodes has failed; filled while it is."""
    told: list[str] = []

    def said_by(_seconds: float, words: list[str], _env: object, both: bool = False) -> tuple[int, str]:
        line = " ".join(words)
        if line.startswith("scontrol show hostnames"):
            return 0, words[-1].replace(",", "\n")
        if words[0] == "sinfo":
            return 0, "n1\nnode03"
        if "show job" in line:
            return 0, f"JobId=7 Requeue={int(not requeue)} ReqNodeList={asked} ExcNodeList=node09"
        told.append(line)
        return (0, "77;lab") if words[0] == "sbatch" else (requeue if "requeue" in words else 0, "")

    monkeypatch.setattr(job.processes, "output_of", said_by)
    monkeypatch.setattr(job.verdict, "write", lambda *_: 143)
    made.env |= {"SLURM_JOB_PARTITION": "batch", "SLURM_JOB_NUM_NODES": str(nodes), "RANKZERO_MAX_RESTARTS": "2"}
    made.failed_nodes, made.to_requeue, made.requeue_reason = ["node03"], True, "node03 failed"
    return told


@pytest.mark.parametrize("asked,nodes,excluded", [("(null)", 1, "node09,node03"), ("node03", 1, ""), ("(null)", 2, "")])
def test_a_job_that_goes_back_into_the_queue_leaves_out_what_has_failed(
    job: SimpleNamespace, made: Any, monkeypatch: pytest.MonkeyPatch, asked: str, nodes: int, excluded: str
) -> None:
    """Not where it asks for one of them by name, or where too few would be left."""
    told = failed_node(job, made, monkeypatch, asked, nodes, 0)
    job.requeue.requeue(made)
    update = [f"scontrol update JobId=7 ExcNodeList={excluded}"] if excluded else []
    assert told == ["scontrol requeue 7", *update]


def test_another_job_that_goes_on_leaves_it_out_too(
    job: SimpleNamespace, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = failed_node(job, made, monkeypatch, "(null)", 1, 1)
    job.requeue.requeue(made)
    assert " --exclude=node09,node03 " in told[-1]
    assert Path(made.path("claim")).read_text(encoding="utf-8") == "1 lab 77\n"
    assert Path(made.path(".uncounted")).read_text(encoding="utf-8") == "1\n"


# --- the script beside the conductor


def test_a_request_is_read_when_it_is_there_as_a_whole(job: SimpleNamespace) -> None:
    whole = b"3\0launch\0\0two\nlines\0" + b"A=1\0B=x\ny\0" + b"\0"
    for length in range(len(whole)):
        assert job.script._complete(whole[:length]) is None
    words, entries, rest = job.script._complete(whole + b"1\0")
    assert (words, rest) == (["launch", "", "two\nlines"], b"1\0")
    assert job.script.parsed(entries) == {"A": "1", "B": "x\ny"}


def test_the_next_step_of_the_ranks_has_other_nodes_and_another_log(job: SimpleNamespace, made: Any) -> None:
    made.env |= {"RANKZERO_LOGS": "/run/logs/1", "RANKZERO_NODELIST": "n2"}
    words = ["srun", "--nodes=1", "--nodelist=n1", "--output=/run/logs/0/step.log", "program", "--nodelist=n3"]
    assert job.spare.next_words(made, words, "/run/logs/0", "n1") == [
        "srun", "--overlap", "--mem=0", "--nodes=1", "--nodelist=n2", "--output=/run/logs/1/step.log", "program",
        "--nodelist=n3",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "beside"),
    [
        ("srun --nodes=1 a --exclusive", "srun --overlap --mem=0 --nodes=1 a --exclusive"),
        ("srun --exclusive --nodes=1 a", "srun --overlap --mem=0 --nodes=1 a"),
        ("srun --mem-per-cpu=1G a", "srun --overlap --mem-per-cpu=1G a"),
        ("srun --overlap --mem=0 --nodes=1 a", "srun --overlap --mem=0 --nodes=1 a"),
    ],
)
def test_a_step_beside_one_that_has_ended_shares_its_place(job: SimpleNamespace, words: str, beside: str) -> None:
    assert job.slurm.beside(words.split()) == beside.split()


def test_a_link_in_the_run_directory_ends_the_script(job: SimpleNamespace, made: Any) -> None:
    job.claim.distrust(made)
    Path(made.path("claim")).symlink_to("/etc/hostname")
    with pytest.raises(job.state.Ended) as end:
        job.claim.distrust(made)
    assert end.value.code == 77
