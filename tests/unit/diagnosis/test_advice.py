# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a diagnosis says, on the screen and as data, and what Slurm's word adds to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import advice, cause, scan
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.cause import HEALTHY
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.diagnosis import Diagnosis
from ansible_collections.rankzero.slurm.plugins.module_utils.explain import diagnose
from ansible_collections.rankzero.slurm.plugins.module_utils.explain.diagnosis_report import (
    SCREEN_LINES,
    DiagnosisReport,
    screen,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.checklist import Answer, Stall
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport

NO_FILE = "[rank{0}]: FileNotFoundError: [Errno 2] No such file or directory: '/data/x.npy'\n"
TRACE = '[rank{0}]: Traceback (most recent call last):\n[rank{0}]:   File "t.py", line 1\n'


LAUNCH = LaunchReport("a", "k", 1, "running", "running on n[1-2]", "/runs/a", "/runs/a/logs", job_id="7", active=True)


def diagnosed(folder: Path, text: str) -> Diagnosis:
    (folder / "job.log").write_text(text)
    found = scan.scan(scan.find_logs(str(folder)))
    return advice.diagnosis_of(cause.find_cause(found.logs), found, str(folder))


def test_cause_where_evidence_and_remedy_fit_the_screen(tmp_path: Path) -> None:
    text = "".join((TRACE + NO_FILE).format(rank) for rank in range(4, 20)) + "x" * 5000
    found = diagnosed(tmp_path, text + "\n[rank0]: RuntimeError: NCCL error in: x, ncclRemoteError\n")
    lines = screen(DiagnosisReport(found), "/runs/a/diagnosis.json")
    assert len(lines) <= SCREEN_LINES
    shown = "\n".join(lines)
    for words in ("a file is missing: /data/x.npy", "rank", "job.log:3", "HF_HOME", "diagnosis.json"):
        assert words in shown
    assert found.ranks[0] == 4
    assert found.chain[0].endswith("a file is missing: /data/x.npy")
    assert any("another rank went away" in link for link in found.chain)


@pytest.mark.parametrize("witness", [True, False])
def test_a_node_is_blamed_where_a_witness_says_that_its_device_failed(tmp_path: Path, witness: bool) -> None:
    """A program can print the same line, and any node's name before it."""
    (tmp_path / "job.log").write_text("node07: RuntimeError: CUDA error: uncorrectable ECC error encountered\n")
    read = scan.scan([str(tmp_path / "job.log")])
    for log in read.logs:
        log.events = [replace(event, witness=witness) for event in log.events]
    found = advice.diagnosis_of(cause.find_cause(read.logs), read, str(tmp_path))
    assert (found.family, found.nodes, found.retry) == ("cuda_device", ["node07"], True)
    assert found.blame == (["node07"] if witness else [])


@pytest.mark.parametrize(
    ("text", "retry"),
    [("CUDA error: uncorrectable ECC error encountered", True), ("CUDA error: invalid device ordinal", False)],
)
def test_what_the_launch_itself_must_change_is_not_to_be_tried_again(tmp_path: Path, text: str, retry: bool) -> None:
    found = diagnosed(
        tmp_path, f'Traceback (most recent call last):\n  File "a.py", line 1, in b\nRuntimeError: {text}\n'
    )
    assert (found.family, found.retry) == ("cuda_device", retry)


@pytest.mark.parametrize(("name", "shown"), [("Slurm", "Slurm"), ("{folder}/logs/job.1.log", "logs/job.1.log")])
def test_a_witness_is_shown_by_its_name_and_a_log_by_its_path(tmp_path: Path, name: str, shown: str) -> None:
    (tmp_path / "job.log").write_text("node07: RuntimeError: CUDA error: uncorrectable ECC error encountered\n")
    found = scan.scan(scan.find_logs(str(tmp_path)))
    file = name.format(folder=tmp_path)
    logs = [replace(log, file=file, events=[replace(one, file=file) for one in log.events]) for log in found.logs]
    told = advice.diagnosis_of(cause.find_cause(logs), replace(found, logs=logs), str(tmp_path))
    assert [one.file for one in told.evidence] == [shown] and told.root and told.root.file == shown


def test_a_healthy_log_says_so(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, "step 1 loss 2.0\nTraining completed\n")
    assert found.healthy
    assert screen(DiagnosisReport(found)) == ["no failure: 1 log read; the program ended normally"]


def test_a_log_without_any_sign_is_not_called_healthy(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, "loading the model\n")
    assert not found.healthy
    assert screen(DiagnosisReport(found)) == [
        "no cause found in these logs: 1 log read, without a line that is known as a failure or a normal end"
    ]


def test_a_hole_that_nothing_fills_goes() -> None:
    assert advice.filled("a package is missing: {module}", None) == "a package is missing"


def test_a_step_that_slurm_ends_for_a_dead_rank_was_not_cancelled_by_anybody(tmp_path: Path) -> None:
    cancelled = "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***\n"
    found = diagnosed(tmp_path, (TRACE + NO_FILE).format(3) + cancelled + "srun: error: n1: task 0: Terminated\n")
    assert found.chain == ["rank 3: a file is missing: /data/x.npy", "the launcher ended the other ranks"]


@pytest.mark.parametrize(
    ("after", "then"),
    [
        ('Traceback (most recent call last):\n  File "/x/a.py", line 3, in <module>\n    train_epoch(1)\n', []),
        ("terminate called after throwing an instance of 'c10::Error'\n", []),
        ("srun: error: n1: task 0: Exited with exit code 1\n", ["the launcher reported that it failed"]),
        (
            "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n",
            ["the launcher ended the other ranks"],
        ),
    ],
)
def test_only_a_launchers_own_line_says_that_it_ended_the_others(tmp_path: Path, after: str, then: list[str]) -> None:
    found = diagnosed(tmp_path, (TRACE + NO_FILE).format(3) + after)
    assert found.chain == ["rank 3: a file is missing: /data/x.npy", *then]


def test_a_running_job_shows_its_state_and_who_is_behind() -> None:
    answer = Answer("world size", "8", True)
    stall = Stall(age=90.0, median=2.0, step=7, behind=(5,))
    found = DiagnosisReport(
        Diagnosis(HEALTHY, files=8), [answer, replace(answer, ok=None)], LAUNCH, running=True, stall=stall
    )
    lines = screen(found, "/runs/a/logs")
    assert lines[:3] == [
        "state     running on n[1-2] (job 7, attempt 1)",
        "check     ok  world size: 8",
        "          ?   world size: 8",
    ]
    assert "behind: rank 5" in lines[3] and "py-spy" in " ".join(lines)
    assert lines[-1] == "story     /runs/a/logs"
    assert len(screen(replace(found, checklist=[answer] * 40), "s")) == SCREEN_LINES


def test_a_failure_that_a_running_job_shows_already_comes_with_its_state(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, (TRACE + NO_FILE).format(3))
    lines = screen(DiagnosisReport(found, launch=LAUNCH, running=True))
    assert lines[0].startswith("state ") and lines[1].startswith("cause ")


def test_the_logs_of_the_newest_attempt_come_rank_by_rank(tmp_path: Path) -> None:
    for name in ("0/rank-0000.log", "1/rank-0002.log", "1/rank-0010.log", "1/step.log", "job.7.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    found = [str(Path(path).relative_to(tmp_path)) for path in diagnose.newest_logs(str(tmp_path), 1)]
    assert found == ["1/rank-0002.log", "1/rank-0010.log", "1/step.log", "job.7.log"]
