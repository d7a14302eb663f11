# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Slurm says of a step, alive and over; how it is cancelled; how it is started and let go."""

from __future__ import annotations

import importlib.util
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError, SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.run import steps
from ansible_collections.rankzero.slurm.plugins.module_utils.run.answers import ask_slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.documents import Outcome
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launches import report
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import CommandResult, Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.parse import FIELD, RECORD, parse_records
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.start_step import Start, Starter, step_argv
from ansible_collections.rankzero.slurm.plugins.module_utils.watch import remote_poll
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.launch import Watch
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.poll import Poll, Request, Target, View
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME
from tests.unit.run.test_launches import KEY, NOW, entry, make_run, started
from tests.unit.slurm.recorded import NO_ACCOUNTING, NO_CONTROLLER, UNKNOWN_ID, FakeSlurm, said
from tests.writers import Run

NAME = f"gpt.{KEY}.1"


def step_row(step_id: str, name: str = NAME, state: str = "RUNNING") -> str:
    return (
        FIELD.join((step_id, state, str(int(NOW) - 60), "1:00", "node[01-02]", "batch", "root", name)) + RECORD + "\n"
    )


def job_row(job_id: str, state: str = "RUNNING") -> str:
    end = "N/A" if state == "RUNNING" else str(int(NOW) - 900)
    times = (str(int(NOW) - 3600), str(int(NOW) - 3600), str(int(NOW) - 3600), end, "1:00")
    rest = ("2", "node[01-02]", "batch", "root", "root", "lab", "/x", "inter")
    return FIELD.join((job_id, state, "None", "0", "0", *times, *rest)) + RECORD + "\n"


def told(step_id: str, state: str, code: str = "0:0", name: str = NAME) -> CommandResult:
    return said(FIELD.join((step_id, state, code, str(int(NOW) - 60), str(int(NOW)), "node01", name)) + "\n")


def answers(**more: Any) -> FakeSlurm:
    return FakeSlurm(**{"sacct": NO_ACCOUNTING, "scontrol": UNKNOWN_ID, **more})


@pytest.mark.parametrize(
    ("text", "is_one"), [("2.0", True), ("2", False), ("2_1", False), ("2.x", False), (None, False)]
)
def test_a_step_is_told_from_a_job(text: str | None, is_one: bool) -> None:
    assert steps.is_step(text) is is_one


def test_jobs_and_steps_are_found_by_one_squeue_each() -> None:
    fake = answers(squeue=[said(job_row("7")), said(step_row("2.3") + step_row("2.4", NAME + ".ranks"))])
    found = steps.find(fake.slurm(), {"7": "other", "2.3": NAME})
    assert {job_id: (one.state, one.name) for job_id, one in found.items()} == {
        "7": ("RUNNING", "inter"),
        "2.3": ("RUNNING", NAME),
    }
    assert fake.programs == ["squeue", "squeue"]
    assert found["2.3"].node_list == "node[01-02]"


def test_a_step_of_another_name_is_not_ours() -> None:
    """The job was requeued and counts its steps from 0 again."""
    fake = answers(
        squeue=[said(step_row("2.3", "somebody")), said(job_row("2"))], sacct=told("2.3", "RUNNING", "0:0", "x")
    )
    found = steps.find(fake.slurm(), {"2.3": NAME})
    assert found["2.3"].final
    assert "job 2 around it continues" in steps.describe_end(found["2.3"])


@pytest.mark.parametrize(
    ("job", "accounted", "state", "explained"),
    [
        ("RUNNING", NO_ACCOUNTING, "CANCELLED", "CANCELLED: job 2 around it continues: the step was cancelled, or"),
        ("RUNNING", told("2.3", "CANCELLED by 0", "0:9"), "CANCELLED", "CANCELLED: it was cancelled, signal 9"),
        ("RUNNING", told("2.3", "NODE_FAIL", "1:0"), "NODE_FAIL", "NODE_FAIL: one of its nodes failed, exit code 1"),
        ("TIMEOUT", NO_ACCOUNTING, "CANCELLED", "CANCELLED: job 2 around it has ended (TIMEOUT: it reached"),
        ("NODE_FAIL", told("2.3", "CANCELLED"), "CANCELLED", "job 2 around it has ended (NODE_FAIL: one of its nodes"),
        (None, told("2.3", "FAILED", "3:0"), "FAILED", "FAILED: the batch script failed, exit code 3"),
    ],
)  # fmt: skip
def test_a_step_that_is_over_is_explained(
    job: str | None, accounted: CommandResult, state: str, explained: str
) -> None:
    around = said(job_row("2", job)) if job else UNKNOWN_ID
    # Where no queue knows the job, accounting is asked for it, too.
    fake = answers(squeue=[said(""), around], sacct=accounted if job else [said(""), accounted])
    found = steps.find(fake.slurm(), {"2.3": NAME})["2.3"]
    assert (found.state, found.final) == (state, True)
    assert explained in steps.describe_end(found)


def test_a_step_of_a_job_that_nobody_knows_is_missing() -> None:
    fake = answers(squeue=[said(""), UNKNOWN_ID])
    assert steps.find(fake.slurm(), {"2.3": NAME}) == {}


def test_silence_is_no_answer() -> None:
    with pytest.raises(SlurmUnavailable):
        steps.find(answers(squeue=NO_CONTROLLER).slurm(), {"2.3": NAME})


def test_a_launch_ends_with_its_outcome_and_not_with_what_slurm_still_closes() -> None:
    (record,) = steps.running(answers(squeue=said(step_row("2.3"))).slurm(), ["2"])
    for outcome, state in (
        (Outcome(success=True, time=NOW), "COMPLETED"),
        (Outcome(success=False, ended_by="program", time=NOW), "FAILED"),
        (Outcome(success=False, ended_by="signal", time=NOW), "CANCELLED"),
    ):
        closed = steps.judged(record, outcome)
        assert closed is not None and (closed.state, closed.end) == (state, NOW)
    assert steps.judged(record, None) is record


# --- as the modules report it


def begun(root: Path) -> RunDirectory:
    """A generation whose script has taken its claim as step 2.3."""
    made = make_run(root, entry("intent", inside_job="2"), claim="1 lab 2.3\n", started_json=started())
    return RunDirectory(str(made))


def test_a_running_step_is_a_running_launch(tmp_path: Path) -> None:
    run = RunDirectory(
        str(make_run(tmp_path, entry("intent", inside_job="2"), claim="1 lab 2.3\n", started_json=started()))
    )
    fake = answers(squeue=[said(step_row("2.3"))])
    slurm = fake.slurm()
    found = report(slurm, run, ask_slurm(slurm, [run]))
    assert (found.job_id, found.slurm_state, found.active, found.completed) == ("2.3", "RUNNING", True, False)


def test_a_step_that_vanished_without_an_outcome_is_a_failure_with_an_explanation(tmp_path: Path) -> None:
    run = RunDirectory(
        str(make_run(tmp_path, entry("intent", inside_job="2"), claim="1 lab 2.3\n", started_json=started()))
    )
    slurm = answers(squeue=[said(""), said(job_row("2"))]).slurm()
    found = report(slurm, run, ask_slurm(slurm, [run]))
    assert (found.slurm_state, found.completed, found.success) == ("CANCELLED", True, False)
    assert found.message == (
        "step 2.3 ended without writing its outcome: CANCELLED: job 2 around it continues: the step was cancelled, or "
        "its node failed"
    )


def test_a_start_whose_id_was_never_recorded_is_found_by_its_name(tmp_path: Path) -> None:
    run = RunDirectory(str(make_run(tmp_path, entry("intent", inside_job="2"))))
    slurm = answers(squeue=[said(step_row("2.9", "x") + step_row("2.3"))], scontrol=said("node01\n")).slurm()
    found = report(slurm, run, ask_slurm(slurm, [run]))
    assert (found.job_id, found.slurm_state) == ("2.3", "RUNNING")


# --- polling


def test_a_poll_asks_for_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    squeue = tmp_path / "squeue"
    squeue.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$*\" >> {tmp_path}/asked\nprintf '%s' '{step_row('2.3')}'\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    poll = remote_poll.answer(Request((Target("/none", "2.3"),), jobs=("2.3",)))
    assert (poll.whole, poll.asked, poll.silent) == (True, True, "")
    assert poll.queue["2.3"].state == "RUNNING"
    assert "--steps --jobs=2\n" in (tmp_path / "asked").read_text()


def test_a_watch_believes_a_step_by_number_and_name() -> None:
    def polled(name: str) -> Poll:
        (row,), _warnings = parse_records(step_row("2.3", name), steps.SQUEUE_STEP_COLUMNS)
        return Poll(True, asked=True, queue={"2.3": steps.from_row(row)}, views=(View(),))

    watch = Watch(f"/state/runs/gpt/{KEY}/1", "2.3", outcome_grace=0)
    watch.feed(polled("somebody"), 0.0)
    assert watch.record is None
    watch.feed(polled("somebody"), 100.0)
    assert watch.done
    same = Watch(f"/state/runs/gpt/{KEY}/1", "2.3")
    same.feed(polled(NAME), 0.0)
    assert same.record is not None and not same.done


# --- cancelling

ALL = step_row("2.3") + step_row("2.4", NAME + ".ranks") + step_row("2.5", "gpt.other.1") + step_row("2.6", NAME + "0")


def test_a_cancel_tells_the_script_first_and_then_the_ranks() -> None:
    # 22.05 says that although the step got its signal.
    lie = said(stderr="scancel: error: Kill job error on job step id 2: Invalid job id specified\n", rc=225)
    fake = answers(squeue=said(ALL), scancel=lie)
    assert steps.cancel(fake.slurm(), "2", NAME, hard=False) == ["2.3", "2.4"]
    assert [asked[1:] for asked in fake.asked[1:]] == [["--signal=URG", "2.3"], ["--signal=TERM", "2.4"]]


@pytest.mark.parametrize(("text", "hard"), [(ALL, True), (ALL.split(RECORD + "\n", 1)[1], False)])
def test_what_has_no_script_or_does_not_listen_is_ended_at_once(text: str, hard: bool) -> None:
    fake = answers(squeue=said(text), scancel=said())
    ended = steps.cancel(fake.slurm(), "2", NAME, hard=hard)
    assert "2.4" in ended and "2.5" not in ended and "2.6" not in ended
    assert fake.asked[1][1:] == ended


def test_nothing_to_cancel_is_nothing_asked() -> None:
    fake = answers(squeue=said(""))
    assert steps.cancel(fake.slurm(), "2", NAME, hard=True) == []


def test_a_cancel_that_nobody_answered_is_not_called_one() -> None:
    with pytest.raises(SlurmUnavailable):
        steps.cancel(answers(squeue=said(ALL), scancel=NO_CONTROLLER).slurm(), "2", NAME, hard=True)


# --- starting


class Place:
    """A run directory and an srun that is a script of the test's."""

    def __init__(self, root: Path) -> None:
        self.path = root / "runs" / "gpt" / KEY / "1"
        (self.path / "logs").mkdir(parents=True)
        self.srun = root / "srun"
        self.run = RunDirectory(str(self.path))

    def start(self, program: str, **options: Any) -> Start:
        self.srun.write_text(f"#!/bin/bash\ncd {self.path}\n{program}\n")
        self.srun.chmod(self.srun.stat().st_mode | stat.S_IXUSR)
        slurm = Slurm(environment={"PATH": os.environ["PATH"], "SLURM_CPU_BIND": "leaked"}, which=self._which)
        return Starter(slurm, self.run, **options).start(["--jobid=2"])

    def _which(self, name: str, _path: str) -> str | None:
        return str(self.srun) if name == "srun" else None


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def gone(pid: int) -> bool:
    try:
        # A child of nobody's may be a zombie until it is reaped.
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_once_the_script_runs_srun_and_its_guard_are_gone(place: Place) -> None:
    program = 'sleep 600 & echo "$$ $!" > pids; echo "[rankzero] step 2.3"; echo "1 lab 2.3" > claim; env > env; wait'
    # The claim is there last, and the environment was written before it is looked for.
    assert place.start(
        program.replace('echo "1 lab 2.3" > claim; env > env', 'env > env; echo "1 lab 2.3" > claim')
    ) == (Start("2.3"))
    until = time.monotonic() + 20
    pids = [int(pid) for pid in (place.path / "pids").read_text().split()]
    while not all(map(gone, pids)):
        assert time.monotonic() < until
        time.sleep(0.01)
    assert "leaked" not in (place.path / "env").read_text()


def test_an_srun_that_is_refused_is_quoted(place: Place) -> None:
    program = "echo 'srun: error: Unable to confirm allocation for job 2: Invalid job id specified' >&2; exit 1"
    start = place.start(program)
    assert start.step_id is None
    assert "Unable to confirm allocation for job 2" in start.complaint


def test_an_srun_that_found_slurm_silent_is_no_refusal(place: Place) -> None:
    with pytest.raises(SlurmUnavailable):
        place.start("echo 'srun: error: Unable to contact slurm controller (connect failure)' >&2; exit 1")


def test_a_script_that_ends_before_its_claim_says_why(place: Place) -> None:
    words = "no python3 on node01: install it, or give the job an environment"
    start = place.start(f'echo "[rankzero] step 2.3"; echo "[rankzero] {words}" > logs/job.2.3.log; exit 78')
    assert start == Start(None, f"[rankzero] {words}")


def test_a_script_that_fails_a_moment_later_is_still_heard(place: Place) -> None:
    start = place.start('echo "[rankzero] step 2.3"; sleep 0.5; exit 78')
    assert start == Start(None, "step 2.3 ended with exit code 78")


def test_a_script_that_ended_well_is_not_waited_for(place: Place) -> None:
    """A network file system may hide its claim, and nothing more can come."""
    until = time.monotonic() + 20

    def sleep(_seconds: float) -> None:
        assert time.monotonic() < until, "it waits on for a script that has ended"
        time.sleep(0.02)

    assert place.start('echo "[rankzero] step 2.3"', clock=lambda: 0.0, sleep=sleep) == Start("2.3")


def test_a_script_that_was_quick_has_run(place: Place) -> None:
    assert place.start('echo "[rankzero] step 2.3"; echo "1 lab 2.3" > claim; exit 1') == Start("2.3")


def test_the_claim_of_another_step_of_the_launch_is_followed(place: Place) -> None:
    """A submitter was killed, its srun lived on, and was first."""
    (place.path / "claim").write_text("1 lab 2.1\n")
    assert place.start('echo "[rankzero] step 2.3"; exit 0') == Start("2.1")


def test_a_claim_that_a_network_file_system_hides_is_not_waited_for_for_ever(place: Place) -> None:
    times = iter(range(0, 10_000, 5))
    log = place.path / "logs" / "attach.log"
    # The time that the program takes to start is none.
    clock = lambda: float(next(times)) if log.exists() and log.read_text() else 0.0  # noqa: E731
    start = place.start('echo "[rankzero] step 2.3"; sleep 600', clock=clock)
    assert start == Start("2.3")


def test_a_step_that_never_begins_is_given_up(place: Place) -> None:
    times = iter(range(0, 10_000, 5))
    program = "echo 'srun: Job 2 step creation temporarily disabled, retrying (Requested nodes are busy)'; sleep 600"
    start = place.start(program, clock=lambda: float(next(times)), sleep=lambda _s: time.sleep(0.02))
    assert start.step_id is None
    assert start.complaint.startswith("no step began within 60 s")


def test_a_host_without_srun_is_named(tmp_path: Path) -> None:
    slurm = Slurm(environment={"PATH": ""}, which=lambda _name, _path: None)
    with pytest.raises(RankzeroError, match="the command srun is not on this host"):
        Starter(slurm, RunDirectory(str(tmp_path))).start([])


def test_the_script_takes_nothing_from_the_ranks() -> None:
    argv = step_argv(
        job_id="2", name=NAME, nodes=["b", "c"], run_dir="/a b/1", runtime="/store/runtime/4", nonce="head:1"
    )
    assert {"--jobid=2", "--overlap", "--nodes=1", "--ntasks=1", "--nodelist=b", "--gres=none", "--export=NIL"} < set(
        argv
    )
    assert argv[-5:] == ("/bin/bash", "/store/runtime/4/start/attach.sh", "/a b/1", "head:1", "b,c")


# --- a step that owns a folder of checkpoints


@pytest.mark.parametrize(("listed", "alive"), [(f"RUNNING|{NAME}", True), ("", False), ("RUNNING|other", False)])
def test_a_step_owns_its_checkpoints_as_long_as_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: str, alive: bool
) -> None:
    specification = importlib.util.spec_from_file_location("owner", f"{RUNTIME}/owner.py")
    assert specification is not None and specification.loader is not None
    owner = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(owner)
    squeue = tmp_path / "squeue"
    squeue.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" > {tmp_path}/asked\necho "{listed}"\n')
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    names = {"RANKZERO_ATTACHED": "2.3", "SLURM_JOB_ID": "2", "SLURM_JOB_NAME": NAME, "SLURM_CLUSTER_NAME": "lab"}
    for name, value in {**names, "RANKZERO_GENERATION": "1", "RANKZERO_ATTEMPT": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RANKZERO_RUN_DIR", str(tmp_path / "1"))
    mine = owner.myself()
    assert mine["job_id"] == "2.3"
    assert bool(owner.life(mine, mine)[0]) is alive
    assert "--steps=2.3" in (tmp_path / "asked").read_text()
    Run(tmp_path / "1", "2.3").ended(by="signal")
    assert owner.life(mine, mine)[0] is False, "a step is not requeued"
