# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exactly one admitted job: every way in which a submission can go on, with a Slurm that answers as it is told."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.errors import RankzeroError, SlurmError, SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import CommandResult, Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.journal import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.parse import FIELD, RECORD
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.request import Request
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.submit import Launcher
from ansible_collections.rankzero.slurm.plugins.plugin_utils.launching import RUNTIME

TOKEN = "GENERATION-" + "0" * 24  # the place holder of the generation
NOW = time.time()
SILENT = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
PLACE_HOLDER_SINFO = (
    "batch",
    "batch*",
    "up",
    "infinite",
    "1:00:00",
    "1-infinite",
    "8",
    "16",
    "64000",
    "gpu:8",
    "idle",
    "x",
)


class Cluster:
    """A Slurm with a table of jobs: what each command says, and what it was asked."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.asked: list[list[str]] = []
        self.down = False
        #: What sbatch does: returns (rc, stdout, stderr). The default submits.
        self.sbatch: Callable[[Sequence[str]], tuple[int, str, str]] = self.submit
        self.before: dict[str, Callable[[], None]] = {}
        self.accounting = True
        self.help = ""  # what srun says of itself
        self.slept = 0.0

    def submit(self, argv: Sequence[str]) -> tuple[int, str, str]:
        script = next(word for word in argv if word.endswith("job.sbatch"))
        name = re.findall("--job-name=(.*)", Path(script).read_text(encoding="utf-8"))[0]
        return 0, f"{self.add(name)}\n", ""

    def add(self, name: str, state: str = "PENDING", **more: Any) -> str:
        job_id = str(100 + len(self.jobs) + 1)
        self.jobs[job_id] = {
            "name": name,
            "state": state,
            "squeue": True,
            "exit": 0,
            "submit": int(time.time()),
            **more,
        }
        return job_id

    def __call__(
        self, argv: Sequence[str], timeout: float, environment: Mapping[str, str], stdin: str | None, cwd: str | None
    ) -> CommandResult:
        command = argv[0].rsplit("/", 1)[-1]
        self.asked.append([command, *argv[1:]])
        self.before.pop(command, lambda: None)()
        if self.down and command != "sacct":
            return CommandResult(tuple(argv), 1, "", "error: Unable to contact slurm controller (connect failure)\n")
        rc, out, err = getattr(self, f"_{command}")(argv[1:])
        return CommandResult(tuple(argv), 124 if rc == "timeout" else rc, out, err, rc == "timeout")

    def _sbatch(self, argv: Sequence[str]) -> tuple[int, str, str]:
        if "--test-only" in argv:
            return 0, "", f"sbatch: Job 7 to start at {int(NOW)} using 1 processors on nodes node[01-02] in partition x"
        return self.sbatch(argv)

    def _quota(self, argv: Sequence[str]) -> tuple[int, str, str]:
        return 0, "", ""

    def _srun(self, argv: Sequence[str]) -> tuple[int, str, str]:
        return 0, self.help, ""

    def _sinfo(self, argv: Sequence[str]) -> tuple[int, str, str]:
        return 0, FIELD.join(PLACE_HOLDER_SINFO) + RECORD + "\n", ""

    def _squeue(self, argv: Sequence[str]) -> tuple[int, str, str]:
        rows = [self._row(number, job) for number, job in self._chosen(argv) if job["squeue"]]
        return 0, "".join(row + RECORD + "\n" for row in rows), ""

    def _chosen(self, argv: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
        ids = next((word.split("=", 1)[1].split(",") for word in argv if word.startswith("--jobs=")), None)
        names = next((word.split("=", 1)[1].split(",") for word in argv if word.startswith("--name=")), None)
        return [
            (number, job)
            for number, job in self.jobs.items()
            if (ids is None or number in ids) and (names is None or job["name"] in names)
        ]

    @staticmethod
    def _row(number: str, job: Mapping[str, Any]) -> str:
        end = int(NOW) - 900 if job["state"] not in ("PENDING", "RUNNING", "REQUEUED") else "N/A"
        times = (job["submit"], job["submit"], "N/A", end, "0:00")
        place = ("1", "node01", "batch", "root", "root", "lab", job.get("work_dir", "/x"), job["name"])
        return FIELD.join(map(str, (number, job["state"], "None", job["exit"] * 256, 0, *times, *place)))

    def _scontrol(self, argv: Sequence[str]) -> tuple[int, str, str]:
        if argv[-1] in ("config", "partition"):
            return 0, "", ""
        return 1, "", "slurm_load_jobs error: Invalid job id specified\n"

    def _sacct(self, argv: Sequence[str]) -> tuple[int, str, str]:
        if not self.accounting:
            return 1, "", "sacct: error: Problem talking to the database: Connection refused\n"
        rows = [
            FIELD.join(
                (
                    number,
                    job["state"],
                    "None",
                    f"{job['exit']}:0",
                    str(job["submit"]),
                    "Unknown",
                    "Unknown",
                    "Unknown",
                    "0",
                )
                + ("1", "node01", "batch", "root", "root", "lab", "/x", job["name"])
            )
            for number, job in self._chosen(argv)
        ]
        return 0, "".join(row + "\n" for row in rows), ""

    def _scancel(self, argv: Sequence[str]) -> tuple[int, str, str]:
        self.jobs[argv[0]]["state"] = "CANCELLED"
        return 0, "", ""

    @property
    def commands(self) -> list[str]:
        return [words[0] for words in self.asked]


class Bench:
    """One launch, asked for as often as a test wants."""

    def __init__(self, root: Path) -> None:
        self.cluster = Cluster()
        self.store = root / "store"
        self.store.mkdir()
        self.runs = root / "state" / "runs" / "job" / "0123456789abcdef"
        self.time = NOW
        self.request = Request(
            name="job",
            key="0123456789abcdef" + "0" * 48,
            token=TOKEN,
            runs_dir=str(self.runs),
            job_name=f"job.0123456789abcdef.{TOKEN}",
            files={
                "job.sbatch": f"#!/bin/bash\n#SBATCH --job-name=job.0123456789abcdef.{TOKEN}\n# {TOKEN}\n",
                "launch.json": "{}\n",
                "contract.json": '{"artifact": null}\n',
            },
            refs=[{"kind": "code", "key": "k", "path": str(self.store)}],
            relaunch="on_failure",
            limits={"nodes": 2, "partition": None, "time_minutes": 60.0},
            submitter=f"{socket.gethostname()}:{os.getpid()}",
        )

    def launcher(self, check_mode: bool = False, **changes: Any) -> Launcher:
        def sleep(seconds: float) -> None:
            self.time += seconds

        slurm = Slurm(self.cluster, environment={"PATH": "/bin"}, which=lambda name, _path: f"/usr/bin/{name}")
        request = replace(self.request, **changes)
        return Launcher(request, slurm, check_mode=check_mode, sleep=sleep, clock=lambda: self.time)

    def launch(self, check_mode: bool = False, **changes: Any) -> dict[str, Any]:
        return self.launcher(check_mode, **changes).launch()

    def run(self, generation: int = 1) -> RunDirectory:
        return RunDirectory(str(self.runs / str(generation)))

    def name(self, generation: int = 1) -> str:
        return f"job.0123456789abcdef.{generation}"

    def ends(self, success: bool, generation: int = 1, ended_by: str = "program", attempt: int = 0) -> None:
        """What the job itself leaves: its claim and its verdict."""
        run = self.run(generation)
        job_id = run.job_id() or "101"
        Path(run.file("claim")).write_text(f"{generation} lab {job_id}\n", encoding="utf-8")
        outcome = {"success": success, "ended_by": ended_by, "attempt": attempt, "message": "so it ended"}
        Path(run.file("outcome.json")).write_text(json.dumps(outcome), encoding="utf-8")

    def leaves(self, state: str, generation: int = 1, **more: Any) -> None:
        self.cluster.jobs[self.run(generation).job_id() or ""].update(state=state, **more)

    def intent(self, submitter: str, age: float = 0.0) -> None:
        """A generation whose submitter was killed before it recorded a job id."""
        self.cluster.sbatch = lambda argv: ("timeout", "", "")  # type: ignore[return-value]
        with pytest.raises(SlurmUnavailable):
            self.launch(submitter=submitter)
        journal = Path(self.run().file("journal.jsonl"))
        event = {"time": self.time - age, "event": "intent", "submitter": submitter}
        journal.write_text(json.dumps(event) + "\n", encoding="utf-8")
        self.cluster.sbatch = self.cluster.submit
        self.cluster.asked.clear()

    def events(self, generation: int = 1) -> list[str]:
        return [event["event"] for event in self.run(generation).events()]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def tree(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


# --- fresh, adopted, kept, anew


def test_a_fresh_launch(bench: Bench) -> None:
    result = bench.launch()
    run = bench.run()
    diff = result.pop("diff")
    assert result == {
        "name": "job",
        "key": bench.request.key,
        "generation": 1,
        "run_dir": run.path,
        "changed": True,
        "excluded": [],
        "launch_state": "submitted",
        "standing": "active",
        "message": "",
        "job_id": "101",
        "missing": [],
        "allocation": None,
    }
    assert bench.cluster.commands == ["sinfo", "scontrol", "scontrol", "sbatch"]
    assert bench.cluster.asked[-1][1:] == [
        "--parsable",
        run.file("job.sbatch"),
        "--submission",
        bench.request.submitter,
    ]
    assert bench.events() == ["intent", "submitted"]
    # The generation stands where its token stood, everywhere.
    assert TOKEN not in Path(run.file("job.sbatch")).read_text(encoding="utf-8")
    assert os.path.isdir(run.file("logs"))
    assert [entry["after_header"] for entry in diff] == [run.file(name) for name in bench.request.files]
    assert {entry["before"] for entry in diff} == {""}
    assert [path.name for path in bench.runs.iterdir()] == ["1"]


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED", "PREEMPTED"])
@pytest.mark.parametrize("relaunch", ["on_failure", "always", "never"])
def test_an_active_job_is_adopted_under_every_policy(bench: Bench, state: str, relaunch: str) -> None:
    bench.launch()
    bench.leaves(state)
    bench.cluster.jobs["101"]["submit"] = int(time.time())
    if state == "PREEMPTED":
        # Not the end: Slurm may requeue it. It was preempted just now.
        bench.cluster._row = lambda number, job: Cluster._row(number, job).replace(
            str(int(NOW) - 900), str(int(time.time()))
        )  # type: ignore[method-assign]
    launcher = bench.launcher(relaunch=relaunch)
    result = launcher.launch()
    assert (result["launch_state"], result["changed"], result["job_id"]) == ("adopted", False, "101")
    assert bench.cluster.commands.count("sbatch") == 1
    assert bool(launcher.slurm.notes) is (relaunch == "always")


def test_a_launch_that_succeeded_is_left_alone_without_asking_slurm(bench: Bench) -> None:
    bench.launch()
    bench.ends(True)
    bench.cluster.asked.clear()
    bench.cluster.down = True
    result = bench.launch()
    assert (result["launch_state"], result["standing"], result["changed"]) == ("unchanged", "succeeded", False)
    assert (result["message"], result["job_id"], result["diff"]) == ("so it ended", "101", [])
    assert bench.cluster.asked == []


@pytest.mark.parametrize(
    ("relaunch", "success", "state"),
    [
        ("always", True, "submitted"),
        ("always", False, "submitted"),
        ("on_failure", False, "submitted"),
        ("never", False, "unchanged"),
        ("never", True, "unchanged"),
        ("on_failure", True, "unchanged"),
    ],
)
def test_policy_decides_about_a_launch_that_has_ended(bench: Bench, relaunch: str, success: bool, state: str) -> None:
    bench.launch()
    bench.ends(success)
    bench.leaves("COMPLETED" if success else "FAILED")
    result = bench.launch(relaunch=relaunch)
    assert result["launch_state"] == state
    assert result["generation"] == (2 if state == "submitted" else 1)
    if state == "submitted":
        assert bench.cluster.jobs["102"]["name"] == bench.name(2)
        assert {entry["before_header"] for entry in result["diff"]} == {
            bench.run(1).file(n) for n in bench.request.files
        }
        assert "# 1\n" in result["diff"][0]["before"]
        assert "# 2\n" in result["diff"][0]["after"]


def test_a_job_that_left_no_verdict_has_failed_in_slurms_words(bench: Bench) -> None:
    bench.launch()
    bench.leaves("NODE_FAIL")
    result = bench.launch(relaunch="never")
    assert (result["launch_state"], result["standing"]) == ("unchanged", "failed")
    assert "node" in result["message"].lower()
    assert bench.launch()["generation"] == 2


def test_a_job_that_no_source_knows_any_more_has_failed(bench: Bench) -> None:
    bench.launch()
    bench.cluster.jobs.clear()
    result = bench.launch(relaunch="never")
    assert (result["standing"], result["message"]) == ("failed", "the job is gone from Slurm and left no verdict")


def test_a_verdict_that_was_written_between_two_looks_counts(bench: Bench) -> None:
    bench.launch()
    bench.leaves("COMPLETED")
    bench.cluster.before["squeue"] = lambda: bench.ends(True)
    result = bench.launch()
    assert (result["launch_state"], result["standing"]) == ("unchanged", "succeeded")


def test_a_verdict_by_signal_is_the_end_only_when_slurm_agrees(bench: Bench) -> None:
    bench.launch()
    bench.ends(False, ended_by="signal")
    bench.leaves("REQUEUED")
    assert bench.launch()["launch_state"] == "adopted"
    bench.leaves("TIMEOUT")
    assert bench.launch()["generation"] == 2


def test_a_job_requeued_after_its_verdict_is_adopted(bench: Bench) -> None:
    """Else two generations of one launch would be in the queue."""
    bench.launch()
    bench.ends(False)
    bench.leaves("PENDING")
    assert bench.launch()["launch_state"] == "adopted"


def test_a_job_that_is_just_clearing_up_after_its_verdict_is_over(bench: Bench) -> None:
    bench.launch()
    bench.ends(False)
    bench.leaves("COMPLETING")
    assert bench.launch()["generation"] == 2


def test_a_new_attempt_makes_the_old_verdict_void(bench: Bench) -> None:
    bench.launch()
    bench.ends(True, attempt=0)
    Path(bench.run().file("started.json")).write_text('{"attempt": 1}', encoding="utf-8")
    bench.leaves("RUNNING")
    assert bench.launch()["launch_state"] == "adopted"


def test_the_claim_decides_which_job_is_followed(bench: Bench) -> None:
    bench.launch()
    other = bench.cluster.add(bench.name(), "RUNNING")
    Path(bench.run().file("claim")).write_text(f"1 lab {other}\n", encoding="utf-8")
    assert bench.launch()["job_id"] == other


def test_generations_are_numbers_and_not_words(bench: Bench) -> None:
    bench.launch()
    for generation in range(1, 11):
        bench.ends(False, generation)
        bench.leaves("FAILED", generation)
        bench.launch()
    assert bench.launch()["generation"] == 11


# --- intents without an id


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
def test_a_job_whose_id_was_never_recorded_is_found_by_its_name(bench: Bench, state: str) -> None:
    bench.intent("elsewhere:1")
    job_id = bench.cluster.add(bench.name(), state)
    result = bench.launch()
    assert (result["launch_state"], result["job_id"]) == ("adopted", job_id)
    assert bench.events() == ["intent", "adopted"]
    assert "sbatch" not in bench.cluster.commands


def test_a_lost_job_that_has_ended_is_an_end_and_not_lost(bench: Bench) -> None:
    bench.intent("elsewhere:1")
    bench.cluster.add(bench.name(), "CANCELLED", squeue=False)
    result = bench.launch()
    assert (result["generation"], result["launch_state"]) == (2, "submitted")


def test_a_job_of_the_same_launch_under_another_state_root_is_another_job(bench: Bench) -> None:
    bench.intent(f"{socket.gethostname()}:{_dead_pid()}")
    bench.cluster.add(bench.name(), "RUNNING", work_dir=f"/elsewhere/runs/job/{bench.runs.name}/1")
    result = bench.launch()
    assert (result["launch_state"], result["job_id"]) == ("submitted", "102")


def test_the_run_directory_by_another_path_is_the_same(bench: Bench, tmp_path: Path) -> None:
    bench.intent("elsewhere:1")
    (tmp_path / "link").symlink_to(tmp_path / "state")
    job_id = bench.cluster.add(bench.name(), "RUNNING", work_dir=f"{tmp_path}/link/runs/job/{bench.runs.name}/1")
    assert bench.launch()["job_id"] == job_id


def test_a_lost_submission_is_repeated_under_the_same_generation(bench: Bench) -> None:
    bench.intent(f"{socket.gethostname()}:{_dead_pid()}")
    result = bench.launch()
    assert (result["generation"], result["launch_state"], result["job_id"]) == (1, "submitted", "101")
    assert bench.cluster.jobs["101"]["name"] == bench.name(1)
    # A third submitter must see that this one was at work just now.
    assert bench.events() == ["intent", "intent", "submitted"]


def test_a_repeated_submission_takes_what_is_new_outside_of_the_key(bench: Bench) -> None:
    bench.intent("elsewhere:1", age=600)
    script = bench.request.files["job.sbatch"] + "#SBATCH --partition=other\n"
    secret = Path(bench.store / "secret")
    secret.write_bytes(b"TOKEN=eA==\n")
    bench.launch(files={**bench.request.files, "job.sbatch": script}, secrets_file=str(secret))
    assert "--partition=other" in Path(bench.run().file("job.sbatch")).read_text(encoding="utf-8")
    assert Path(bench.run().file("secrets.env")).read_bytes() == b"TOKEN=eA==\n"
    assert stat.S_IMODE(os.stat(bench.run().file("secrets.env")).st_mode) == 0o600
    assert [path.name for path in bench.runs.iterdir()] == ["1"]


def test_a_repeated_submission_needs_what_any_submission_needs(bench: Bench) -> None:
    bench.intent("elsewhere:1", age=600)
    bench.store.rmdir()
    result = bench.launch()
    assert (result["launch_state"], result["generation"]) == ("missing", 1)
    assert "sbatch" not in bench.cluster.commands


def test_another_submitter_that_may_be_at_work_is_waited_for(bench: Bench) -> None:
    bench.intent("elsewhere:1", age=3)

    def recorded() -> None:
        bench.cluster.add("something-else", "RUNNING")
        bench.run().record("submitted", job_id=bench.cluster.add(bench.name(), "RUNNING"))

    # Its job shows up in the journal while we wait, between two looks at the queue.
    bench.cluster.before["sacct"] = recorded
    result = bench.launch()
    assert (result["launch_state"], result["job_id"]) == ("adopted", "102")


def test_another_submitter_that_never_says_is_given_up(bench: Bench) -> None:
    bench.intent("elsewhere:1")
    result = bench.launch()
    assert (result["launch_state"], result["generation"]) == ("submitted", 1)
    # Not before it had the time that sbatch itself has.
    assert bench.time - NOW > 60


def test_a_living_submitter_of_this_host_is_waited_for_and_a_dead_one_is_not(bench: Bench) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        bench.intent(f"{socket.gethostname()}:{process.pid}")
        begun = bench.time
        bench.launcher()._find_lost(bench.run(), begun)
        assert bench.time > begun
        process.kill()
        process.wait()
        bench.intent(f"{socket.gethostname()}:{process.pid}")
        begun = bench.time
        bench.launcher()._find_lost(bench.run(), begun)
        assert bench.time == begun


def test_another_submitter_that_was_refused_is_a_refusal(bench: Bench) -> None:
    bench.intent("elsewhere:1")
    bench.cluster.before["sacct"] = lambda: bench.run().record("rejected", message="Invalid account")
    result = bench.launch()
    assert result["generation"] == 2


# --- what sbatch says


def test_a_refusal_is_journalled_and_raised(bench: Bench) -> None:
    secret = bench.store / "secret"
    secret.write_bytes(b"TOKEN=eA==\n")
    bench.cluster.sbatch = lambda argv: (1, "", "sbatch: error: invalid partition specified: nope\n")
    with pytest.raises(SlurmError, match="invalid partition specified: nope") as caught:
        bench.launch(secrets_file=str(secret))
    assert caught.value.partial["generation"] == 1
    assert bench.events() == ["intent", "rejected"]
    assert not os.path.exists(bench.run().file("secrets.env"))
    kept = bench.launch(relaunch="never")
    assert (kept["launch_state"], kept["standing"]) == ("unchanged", "failed")
    assert kept["message"] == "Slurm refused it: sbatch: error: invalid partition specified: nope"
    bench.cluster.sbatch = bench.cluster.submit
    assert bench.launch()["generation"] == 2


@pytest.mark.parametrize(
    "answer", [("timeout", "", ""), (1, "", SILENT), (0, "Welcome to the cluster\n", ""), (1, "7\n", SILENT)]
)
def test_an_unclear_answer_of_sbatch_is_looked_up(bench: Bench, answer: tuple[Any, str, str]) -> None:
    def enqueues(argv: Sequence[str]) -> tuple[Any, str, str]:
        bench.cluster.submit(argv)
        return answer

    bench.cluster.sbatch = enqueues
    result = bench.launch()
    assert (result["launch_state"], result["job_id"]) == ("submitted", "101")
    assert bench.events() == ["intent", "submitted"]


@pytest.mark.parametrize("answer", [("timeout", "", ""), (1, "", SILENT), (0, "", "")])
def test_an_unclear_submission_that_is_not_found_is_raised_and_repeated_later(bench: Bench, answer: Any) -> None:
    bench.cluster.sbatch = lambda argv: answer
    with pytest.raises(SlurmUnavailable, match="did not say whether it submitted the job") as caught:
        bench.launch()
    assert caught.value.partial["run_dir"] == bench.run().path
    assert bench.events() == ["intent"]
    bench.cluster.sbatch = bench.cluster.submit
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    assert bench.launch(submitter="x:1")["generation"] == 1
    assert len(bench.cluster.jobs) == 1


def test_a_queue_that_falls_silent_after_sbatch_is_asked_again(bench: Bench) -> None:
    def enqueues(argv: Sequence[str]) -> tuple[Any, str, str]:
        bench.cluster.submit(argv)
        bench.cluster.down = True
        bench.cluster.before["squeue"] = lambda: bench.cluster.before.update(squeue=up)
        return "timeout", "", ""

    def up() -> None:
        bench.cluster.down = False

    bench.cluster.sbatch = enqueues
    assert bench.launch()["job_id"] == "101"


def test_banners_and_the_long_sentence_are_understood(bench: Bench) -> None:
    bench.cluster.sbatch = lambda argv: (0, "Welcome\nSubmitted batch job 4711 on cluster lab\n", "")
    result = bench.launch()
    assert result["job_id"] == "4711"
    assert bench.run().events()[-1]["cluster"] == "lab"


def test_a_job_id_that_cannot_be_written_down_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    record = RunDirectory.record

    def full(run: RunDirectory, event: str, **details: object) -> None:
        if event == "submitted":
            raise OSError(28, "No space left on device")
        record(run, event, **details)

    monkeypatch.setattr(RunDirectory, "record", full)
    with pytest.raises(RankzeroError, match=r"job 101 was submitted, but .* No space left on device") as caught:
        bench.launch()
    assert caught.value.partial["job_id"] == "101"
    monkeypatch.undo()
    assert bench.launch()["launch_state"] == "adopted"


# --- races, silence, what is missing


def test_of_two_submitters_one_makes_the_generation_and_the_other_adopts(bench: Bench) -> None:
    bench.cluster.before["sinfo"] = lambda: bench.launch(submitter="elsewhere:1") and None
    result = bench.launch()
    assert (result["launch_state"], result["generation"], result["job_id"]) == ("adopted", 1, "101")
    assert len(bench.cluster.jobs) == 1
    assert [path.name for path in bench.runs.iterdir()] == ["1"]


@pytest.mark.parametrize("prepared", ["nothing", "active", "failed", "intent"])
def test_while_slurm_is_silent_nothing_is_submitted(bench: Bench, prepared: str) -> None:
    if prepared == "intent":
        bench.intent("elsewhere:1")
    elif prepared != "nothing":
        bench.launch()
        if prepared == "failed":
            bench.ends(False)
    before = tree(bench.runs)
    bench.cluster.asked.clear()
    bench.cluster.down = True
    with pytest.raises(SlurmUnavailable):
        bench.launch()
    assert "sbatch" not in bench.cluster.commands
    assert tree(bench.runs) == before


def test_an_end_that_only_silent_accounting_could_tell_is_not_guessed(bench: Bench) -> None:
    bench.launch()
    bench.cluster.jobs["101"]["squeue"] = False
    bench.cluster.accounting = False
    with pytest.raises(SlurmUnavailable, match="accounting is silent: its end is unknown") as caught:
        bench.launch()
    assert caught.value.partial["job_id"] == "101"
    assert bench.cluster.commands.count("sbatch") == 1


def test_what_is_missing_is_named_and_nothing_is_written_or_asked(bench: Bench) -> None:
    refs = [*bench.request.refs, {"kind": "code", "key": "e", "path": str(bench.store / "nowhere")}]
    result = bench.launch(refs=refs)
    assert (result["launch_state"], result["changed"], result["generation"]) == ("missing", False, 1)
    assert result["missing"] == [refs[1]]
    assert bench.cluster.asked == []
    assert not bench.runs.exists()


@pytest.mark.parametrize(("kind", "refused"), [("runtime", False), ("environment", True)])
def test_a_store_of_others_will_do_where_only_the_runtime_is_missing(
    bench: Bench, tmp_path: Path, kind: str, refused: bool
) -> None:
    """The runtime is kept under state_root."""
    (tmp_path / "a-file").touch()
    roots = {"state_root": str(tmp_path), "store_root": str(tmp_path / "a-file" / "store")}
    refs = [*bench.request.refs, {"kind": kind, "key": "e", "path": str(tmp_path / "nowhere")}]
    given = {"refs": refs, "places": {"roots": roots, "min_free_kib": 0, "sources": []}}
    if refused:
        with pytest.raises(RankzeroError, match="store_root: "):
            bench.launch(**given)
    else:
        assert bench.launch(**given)["launch_state"] == "missing"


def test_no_environment_is_built_for_a_job_that_is_refused_then(bench: Bench) -> None:
    refs = [*bench.request.refs, {"kind": "environment", "key": "e", "path": str(bench.store / "nowhere")}]
    assert bench.launch(refs=refs)["launch_state"] == "missing"
    assert bench.cluster.commands == ["sinfo", "scontrol", "scontrol"]
    with pytest.raises(RankzeroError, match=r"resources.nodes: 9 asked"):
        bench.launch(refs=refs, limits={"nodes": 9, "partition": None, "time_minutes": 60.0})
    assert not bench.runs.exists()


def test_a_job_that_can_never_run_is_refused_before_anything_is_written(bench: Bench) -> None:
    with pytest.raises(RankzeroError, match=r"the cluster cannot run this job:\n  - resources.nodes"):
        bench.launch(limits={"nodes": 9, "partition": None, "time_minutes": 60.0})
    assert not bench.runs.exists()
    assert bench.cluster.commands == ["sinfo", "scontrol", "scontrol"]


def test_a_container_that_the_cluster_cannot_run_is_refused_before_anything_is_written(bench: Bench) -> None:
    wanted = {"runtime": "pyxis", "own_setup": False}
    with pytest.raises(RankzeroError, match=r"the cluster cannot run this job:\n  - container.runtime: pyxis is not"):
        bench.launch(container=wanted)
    assert not bench.runs.exists()
    assert bench.cluster.commands == ["sinfo", "scontrol", "scontrol", "srun"]
    bench.cluster.help = "  --container-image=PATH\n"
    assert bench.launch(container=wanted)["launch_state"] == "submitted"


@pytest.mark.parametrize("prepared", ["nothing", "active", "succeeded", "failed", "intent", "lost", "missing"])
def test_check_mode_writes_nothing_at_all(bench: Bench, prepared: str) -> None:
    refs = list(bench.request.refs)
    if prepared in ("intent", "lost"):
        bench.intent("elsewhere:1")
        if prepared == "lost":
            bench.cluster.add(bench.name(), "RUNNING")
    elif prepared == "missing":
        refs.append({"kind": "environment", "key": "e", "path": "/nowhere"})
    elif prepared != "nothing":
        secret = bench.store / "secret"
        secret.write_bytes(b"A=eA==\n")
        bench.launch(secrets_file=str(secret))
        if prepared != "active":
            bench.ends(prepared == "succeeded")
            bench.leaves("FAILED")
    before = tree(bench.runs.parents[3])
    begun = bench.time
    result = bench.launch(check_mode=True, refs=refs)
    expected = {"active": "adopted", "lost": "adopted", "succeeded": "unchanged"}.get(prepared, "planned")
    assert result["launch_state"] == expected
    assert result["changed"] is (expected == "planned")
    assert result["generation"] == (2 if prepared == "failed" else 1)
    assert bool(result["missing"]) is (prepared == "missing")
    assert tree(bench.runs.parents[3]) == before
    assert bench.time == begun
    if prepared == "nothing":
        assert not bench.runs.parents[2].exists()


def test_a_state_root_that_cannot_be_written_is_named(bench: Bench) -> None:
    blocked = bench.runs.parents[3] / "file"
    blocked.write_text("", encoding="utf-8")
    with pytest.raises(RankzeroError, match=r"state_root: cannot write .*Not a directory.*launch_cluster.state_root"):
        bench.launch(runs_dir=str(blocked / "runs"))
    assert "sbatch" not in bench.cluster.commands


# --- cancel


def test_cancel(bench: Bench) -> None:
    bench.launch()
    planned = bench.launcher(check_mode=True).cancel()
    assert (planned["changed"], planned["job_id"], bench.cluster.jobs["101"]["state"]) == (True, "101", "PENDING")
    assert bench.launcher().cancel() == planned
    assert bench.cluster.asked[-1] == ["scancel", "101"]
    assert bench.events() == ["intent", "submitted", "cancelled"]
    again = bench.launcher().cancel()
    assert (again["changed"], again["launch_state"], again["generation"]) == (False, "absent", 1)


def test_cancel_where_nothing_was_ever_launched(bench: Bench) -> None:
    result = bench.launcher().cancel()
    assert (result["changed"], result["generation"], result["run_dir"]) == (False, None, None)
    assert bench.cluster.asked == []


def test_cancel_finds_a_job_whose_id_was_never_recorded(bench: Bench) -> None:
    bench.intent("elsewhere:1")
    job_id = bench.cluster.add(bench.name(), "RUNNING")
    assert bench.launcher().cancel()["job_id"] == job_id
    assert bench.cluster.jobs[job_id]["state"] == "CANCELLED"


# --- secrets and leftovers


def test_secrets_are_written_0600_from_the_controller_and_from_files_of_the_cluster(bench: Bench) -> None:
    shipped, file = bench.store / "shipped", bench.store / "token"
    shipped.write_bytes(b"A=eA==\n")
    file.write_bytes(b"value\r\n")
    previous = os.umask(0)
    try:
        bench.launch(secrets_file=str(shipped), secret_files={"B": str(file)})
    finally:
        os.umask(previous)
    path = Path(bench.run().file("secrets.env"))
    assert path.read_bytes() == b"A=eA==\nB=" + base64.b64encode(b"value") + b"\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_secrets_there_is_no_file(bench: Bench) -> None:
    bench.launch()
    assert not os.path.exists(bench.run().file("secrets.env"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"secrets.B: the file \S+ cannot be read on the cluster: No such file"),
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"a\0b", "holds a NUL character"),
    ],
)
def test_a_secrets_file_of_the_cluster_that_will_not_do(bench: Bench, content: bytes | None, message: str) -> None:
    path = bench.store / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RankzeroError, match=message):
        bench.launch(secret_files={"B": str(path)})
    assert list(bench.runs.iterdir()) == []
    assert "sbatch" not in bench.cluster.commands


@pytest.mark.parametrize(("success", "state"), [(True, "COMPLETED"), (False, "FAILED")])
def test_secrets_of_a_launch_that_has_ended_are_removed(bench: Bench, success: bool, state: str) -> None:
    shipped = bench.store / "shipped"
    shipped.write_bytes(b"A=eA==\n")
    bench.launch(secrets_file=str(shipped))
    assert os.path.exists(bench.run().file("secrets.env"))
    bench.launch()
    assert os.path.exists(bench.run().file("secrets.env")), "its job is active"
    bench.ends(success)
    bench.leaves(state)
    bench.launch(relaunch="never")
    assert not os.path.exists(bench.run().file("secrets.env"))


def test_what_a_killed_submitter_left_half_made_is_removed_once_it_is_old(bench: Bench) -> None:
    old, young = bench.runs / ".new-host-1-1", bench.runs / ".new-host-2-2"
    for folder in (old, young):
        folder.mkdir(parents=True)
        (folder / "secrets.env").write_text("A=eA==\n", encoding="utf-8")
    os.utime(old, (1, 1))
    bench.launch()
    assert sorted(path.name for path in bench.runs.iterdir()) == [".new-host-2-2", "1"]


def _dead_pid() -> int:
    with subprocess.Popen(["true"]) as process:
        process.wait()
        return process.pid


# --- nodes that were not fit


def test_a_submission_leaves_out_nodes_that_were_not_fit_besides_the_jobs_own(bench: Bench) -> None:
    folder = bench.runs.parents[2] / "clusters" / "lab" / "nodes"
    folder.mkdir(parents=True)
    text = {"node": "node07", "reason": "no code", "job_id": "9", "time": NOW - 5, "expires": NOW + 5}
    (folder / "node07.json").write_text(json.dumps(text), encoding="utf-8")
    asked: dict[str, str] = {"show config": "ClusterName = lab\n", "show hostnames": "node01\nnode02\n"}
    real = bench.cluster._scontrol
    bench.cluster._scontrol = lambda argv: (0, asked[" ".join(argv[:2])], "") if argv[0] == "show" else real(argv)  # type: ignore[method-assign]
    rows = [(f"node0{number}", "16", "1000", "", "idle", "batch*", "") for number in range(1, 9)]
    sinfo = bench.cluster._sinfo
    bench.cluster._sinfo = lambda argv: (  # type: ignore[method-assign]
        (0, "".join(FIELD.join(row) + RECORD + "\n" for row in rows), "") if "--Node" in argv else sinfo(argv)
    )
    placement = {"exclude": ["node[01-02]"], "nodelist": "", "constraint": None, "reservation": None}
    planned = bench.launch(check_mode=True, placement=placement)
    result = bench.launch(placement=placement)
    assert planned["excluded"] == result["excluded"] == [text]
    (words,) = [words for words in bench.cluster.asked if words[0] == "sbatch" and "--parsable" in words]
    assert "--exclude=node[01-02],node07" in words
    # Slurm's own word is on the same nodes.
    (words,) = [words for words in bench.cluster.asked if words[0] == "sbatch" and "--test-only" in words]
    assert "--exclude=node[01-02],node07" in words
    bench.time = NOW + 6
    assert bench.launch(placement=placement)["excluded"] == []


def test_a_job_that_has_put_itself_back_into_the_queue_is_still_ours(bench: Bench) -> None:
    bench.launch()
    bench.ends(False, ended_by="requeue")
    bench.leaves("REQUEUED")
    result = bench.launch()
    assert (result["launch_state"], result["standing"]) == ("adopted", "active")


# --- nodes that see no store


def packing(bench: Bench) -> dict[str, Any]:
    """The parts of a request whose code must be packed (P5)."""
    (bench.store / "train.py").write_text("x = 1\n" * 99, encoding="utf-8")
    archive = bench.store.parent / "state" / "archives" / "code-k.tar"
    refs = [*bench.request.refs, {"kind": "runtime", "key": "r", "path": RUNTIME}]
    return {"refs": refs, "archives": [{"folder": str(bench.store), "archive": str(archive)}]}


def test_what_the_nodes_do_not_see_is_packed_before_the_job_is_submitted(bench: Bench) -> None:
    changes = packing(bench)
    archive = Path(changes["archives"][0]["archive"])
    bench.launch(check_mode=True, **changes)
    assert not archive.exists()
    bench.cluster.before["sbatch"] = lambda: known.append(archive.stat())
    known: list[os.stat_result] = []
    assert bench.launch(**changes)["launch_state"] == "submitted"
    assert known and Path(f"{archive}.json").exists()
    bench.ends(True)
    assert bench.launch(relaunch="always", **changes)["generation"] == 2
    assert archive.stat().st_mtime_ns == known[0].st_mtime_ns, "packed once"


def test_what_cannot_be_packed_is_not_submitted(bench: Bench) -> None:
    changes = packing(bench)
    (bench.store.parent / "state").mkdir()
    (bench.store.parent / "state" / "archives").touch()
    with pytest.raises(RankzeroError, match=r"state_root: cannot pack \S+/store as .*launch_cluster.store_shared"):
        bench.launch(**changes)
    assert "sbatch" not in bench.cluster.commands
    assert not bench.runs.exists()


# --- what is not this launch's, or is so without its folder


def test_a_job_that_has_got_the_number_meanwhile_is_not_this_launchs(bench: Bench) -> None:
    """Job ids are reused over months; a slurmctld that crashed may do so at once."""
    bench.launch()
    bench.cluster.jobs["101"].update(name="another", state="RUNNING")
    kept = bench.launch(relaunch="never")
    assert (kept["standing"], kept["message"]) == ("failed", "the job is gone from Slurm and left no verdict")
    anew = bench.launch()
    assert (anew["launch_state"], anew["generation"], anew["job_id"]) == ("submitted", 2, "102")


@pytest.mark.parametrize(
    "shown", [{"name": "job.0123456789abcdef.7"}, {"name": "mine", "work_dir": "/x/runs/job/0123456789abcdef/1"}]
)
def test_a_script_that_was_submitted_by_hand_is_known_by_its_name_or_its_folder(
    bench: Bench, shown: Mapping[str, str]
) -> None:
    bench.launch()
    bench.cluster.jobs["101"].update(state="RUNNING", **shown)
    assert bench.launch()["launch_state"] == "adopted"


def test_a_job_that_waits_is_the_launch_also_when_its_run_directory_was_removed(bench: Bench) -> None:
    bench.launch()
    shutil.rmtree(bench.run().path)
    result = bench.launch()
    assert (result["launch_state"], result["job_id"], result["generation"]) == ("adopted", "101", 1)
    assert bench.events() == ["intent", "adopted"]
    assert bench.cluster.commands.count("sbatch") == 1


def test_beside_a_job_whose_run_directory_was_removed_nothing_is_submitted(bench: Bench) -> None:
    bench.launch()
    bench.leaves("RUNNING")
    shutil.rmtree(bench.run().path)
    with pytest.raises(
        RankzeroError, match=r"job 101 of this launch is RUNNING, but its run directory .*/1 was removed"
    ):
        bench.launch()
    assert not os.path.isdir(bench.run().path) and bench.cluster.commands.count("sbatch") == 1
    bench.cluster.jobs["101"].update(state="CANCELLED")
    assert bench.launch()["launch_state"] == "submitted"


def test_a_folder_that_another_submitter_puts_in_place_meanwhile_is_no_fault(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the listing, and gone when one looks at its age."""
    real = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path=".": real(path) + ([".new-gone"] if "runs" in str(path) else []))
    assert bench.launch()["launch_state"] == "submitted"


def test_a_journal_that_is_not_seen_yet_is_not_a_dead_submitter(bench: Bench) -> None:
    """A network file system shows the generation's folder before what is in it: nothing may be submitted again."""
    bench.intent("elsewhere:1")
    journal = Path(bench.run().file("journal.jsonl"))
    kept = journal.read_text(encoding="utf-8")
    journal.unlink()
    began = bench.time

    def appears() -> None:
        if bench.time > began + 3:
            journal.write_text(
                kept.replace("intent", "submitted").replace("{", '{"job_id": "101", ', 1), encoding="utf-8"
            )
            bench.cluster.jobs.setdefault(
                "101",
                {
                    **bench.cluster.jobs.get("101", {}),
                    "name": bench.name(),
                    "state": "RUNNING",
                    "squeue": True,
                    "exit": 0,
                    "submit": int(time.time()),
                },
            )
        else:
            bench.cluster.before["squeue"] = appears

    bench.cluster.before["squeue"] = appears
    result = bench.launch()
    assert (result["launch_state"], result["job_id"]) == ("adopted", "101")
    assert "sbatch" not in bench.cluster.commands


def test_an_adoption_that_cannot_be_written_down_is_one_all_the_same(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.intent("elsewhere:1")
    job_id = bench.cluster.add(bench.name(), "RUNNING")

    def fails(*_arguments: object, **_details: object) -> None:
        raise OSError(2, "No such file or directory")

    monkeypatch.setattr(RunDirectory, "record", fails)
    launcher = bench.launcher()
    assert launcher.launch()["job_id"] == job_id
    assert "was adopted cannot be noted there" in launcher.slurm.notes[0]


def test_a_verdict_that_is_not_seen_yet_is_waited_for(bench: Bench) -> None:
    """The script ended with 0, so there is one; a network file system may hide it for a while."""
    bench.launch()
    bench.leaves("COMPLETED")
    bench.time = NOW - 895  # the job ended at NOW - 900
    launcher = bench.launcher()
    slept = launcher.sleep

    def sleep(seconds: float) -> None:
        slept(seconds)
        if bench.time > NOW - 880:
            bench.ends(True)

    launcher.sleep = sleep
    result = launcher.launch()
    assert (result["launch_state"], result["standing"]) == ("unchanged", "succeeded")
    assert bench.cluster.commands.count("sbatch") == 1
