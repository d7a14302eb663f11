# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job that stood still until it was cancelled is called a hang, if no step followed the last look; a slow job."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import advice, cause, scan
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.cause import HEALTHY
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.diagnosis import Diagnosis
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.event import Event
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.hangs import stragglers
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import LIMIT
from ansible_collections.rankzero.slurm.plugins.module_utils.explain import diagnose, evidence
from ansible_collections.rankzero.slurm.plugins.module_utils.explain.diagnosis_report import DiagnosisReport, screen
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics import checklist, slowdown
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport
from tests.writers import Run

LAUNCH = LaunchReport("a", "k", 1, "running", "running on n[1-2]", "/runs/a", "/runs/a/logs", job_id="7", active=True)
WAITS = (
    'Current thread 0x1 (most recent call first):\n  File "/e/site-packages/torch/distributed/distributed_c10d.py", '
    'line 2900 in all_reduce\n  File "/code/train.py", line 50 in main\n'
)
READS = 'Current thread 0x1 (most recent call first):\n  File "/code/data.py", line 42 in __next__\n'


STEPS = "step 7/99 loss 1.0 (500 ms)\nstep 8/99 loss 0.9 (500 ms)\n"


def diagnosed(tmp_path: Path, looked_at: float, text: str = STEPS) -> Any:
    """The diagnosis of a cancelled job whose newest line was at 1,000 and whose nodes looked at `looked_at`."""
    run = Run.below(tmp_path).started(ranks=3, at=900.0).path
    folder = run / "stacks" / "0"
    folder.mkdir(parents=True)
    rows = {"node01": [(0, WAITS), (1, WAITS)], "node02": [(2, READS)]}
    for node, stacks in rows.items():
        processes = [{"rank": rank, "state": "S", "cpu": 0.0, "stack": stack} for rank, stack in stacks]
        (folder / f"{node}.json").write_text(json.dumps({"time": looked_at, "node": node, "processes": processes}))
    log = checklist.RankLog("", text, 1000.0)
    testimony = evidence.Testimony()
    cancelled = Event("preempted_or_cancelled", LIMIT, "CANCELLED: cancelled by its user", 1, file="Slurm")
    testimony.add(cancelled)
    launch = cast(Any, SimpleNamespace(attempt=0))
    scanned = scan.Scan(logs=testimony.logs)
    logs = diagnose._Logs(scanned, {0: checklist.facts_of(log)})
    diagnose._of_hang(RunDirectory(str(run)), launch, logs)
    return advice.diagnosis_of(cause.find_cause(scanned.logs), scanned, str(run))


def test_the_rank_is_named_instead_of_the_cancellation(tmp_path: Path) -> None:
    diagnosis = diagnosed(tmp_path, 1075.0)
    assert diagnosis.family == "hang"
    assert diagnosis.what == (
        "the job stood still: no step for 75 s; rank 2 on node02 waits (/code/data.py:42, in __next__); "
        "2 other ranks wait in all_reduce (/code/train.py:50, in main)"
    )
    assert (diagnosis.ranks, diagnosis.nodes) == ([2], ["node02"])
    assert "`resources.exclude: [node02]`" in diagnosis.remedy and "requeue" not in diagnosis.remedy


@pytest.mark.parametrize("looked_at", [900.0, 1010.0], ids=["steps followed", "too soon"])
def test_a_job_that_made_steps_was_cancelled(tmp_path: Path, looked_at: float) -> None:
    assert diagnosed(tmp_path, looked_at).family == "preempted_or_cancelled"


@pytest.mark.parametrize(
    ("text", "since"), [("loading\n", "no step yet"), ("loading\nstep 1/99 loss 1.0\n", "no step after step 1")]
)
def test_a_job_that_stood_before_its_steps_had_a_time_is_a_hang(tmp_path: Path, text: str, since: str) -> None:
    diagnosis = diagnosed(tmp_path, 1075.0, text)
    assert (diagnosis.family, diagnosis.ranks, diagnosis.nodes) == ("hang", [2], ["node02"])
    assert since in diagnosis.what and "rank 2 on node02 waits (/code/data.py:42" in diagnosis.what


@pytest.mark.parametrize("moves", [False, True])
def test_a_silent_program_is_held_up_only_where_nothing_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: bool
) -> None:
    """One that prints nothing may be at work: two looks at its ranks tell."""
    rows = {"node01": [(0, WAITS), (1, WAITS)], "node02": [(2, READS)]}
    numbers = iter((811, 812 if moves else 811))

    def ask(_run: RunDirectory, _attempt: int) -> object:
        entry = {"process_group": ["0", "x"], "collective_seq_id": next(numbers), "profiling_name": "gloo:all_reduce"}
        return [
            {"node": node, "processes": [
                {"rank": rank, "state": "S", "cpu": 0.0, "stack": text, "trace": {"entries": [entry]}}
                for rank, text in stacks
            ]} for node, stacks in rows.items()
        ]  # fmt: skip

    monkeypatch.setattr(diagnose.rank_looks, "query_ranks", ask)
    run = RunDirectory(str(Run.below(tmp_path).started(ranks=3).path))
    verdict = diagnose._held_up(run, 0, run.started() or {}, steady=True)
    assert [rank.rank for rank in verdict.ranks] == [2] if verdict else moves


def test_ranks_that_all_evaluate_are_at_work_also_where_steps_have_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"rank": rank, "state": "R", "cpu": 1.0, "stack": READS} for rank in range(2)]
    looks = [{"node": "node01", "processes": rows}]
    monkeypatch.setattr(diagnose.rank_looks, "query_ranks", lambda _run, _attempt, **_seconds: looks)
    run = RunDirectory(str(Run.below(tmp_path).started(ranks=2).path))
    verdict = diagnose._held_up(run, 0, run.started() or {}, steady=True)
    assert verdict is not None and verdict.at_work and not verdict.ranks


@pytest.mark.parametrize("with_roles", [False, True])
def test_a_server_that_waits_for_requests_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_roles: bool
) -> None:
    """Only the ranks of the deciding role work together; the processes of the others are numbered after them."""
    rows = {"node01": [(0, WAITS), (1, WAITS)], "node02": [(2, READS)]}
    looks = [
        {"node": node, "processes": [{"rank": rank, "state": "S", "cpu": 0.0, "stack": text} for rank, text in stacks]}
        for node, stacks in rows.items()
    ]
    monkeypatch.setattr(diagnose.rank_looks, "query_ranks", lambda _run, _attempt: looks)
    made = Run.below(tmp_path)
    made.started(roles={"trainer": 2, "server": 1}) if with_roles else made.started(ranks=3)
    run = RunDirectory(str(made.path))
    verdict = diagnose._held_up(run, 0, run.started() or {}, steady=False)
    assert ([rank.rank for rank in verdict.ranks] if verdict else []) == ([] if with_roles else [2])


def test_a_slow_job_says_who_keeps_the_others_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    early = "".join(f"step {number}/999 loss 1.0 (100 ms)\n" for number in range(9))
    late = "".join(f"step {number}/999 loss 1.0 (900 ms)\n" for number in range(50, 70))
    rows = {"node01": [(0, WAITS), (1, WAITS)], "node02": [(2, READS)]}
    looks = [
        {"node": node, "processes": [{"rank": rank, "state": "S", "cpu": 0.0, "stack": text} for rank, text in stacks]}
        for node, stacks in rows.items()
    ]
    asked: list[int] = []

    def ask(_run: RunDirectory, _attempt: int, *, seconds: int) -> object:
        asked.append(seconds)
        return [{**look, "earlier": [look] * 20} for look in looks]

    monkeypatch.setattr(diagnose.rank_looks, "query_ranks", ask)
    run, log = RunDirectory(str(tmp_path)), tmp_path / "rank-0.log"
    log.write_text(early + late)
    odd, logs = {"node02": "memory 99 % full"}, {0: str(log)}
    facts = diagnose._slowness(run, 0, slowdown.find_slowdown(checklist.ends_by_rank(logs)), odd)
    slow = cast(Any, facts["slow"])
    assert slow["message"] == (
        "steps take 0.9 s, 9.0 times as long as before (0.1 s); "
        "rank 2 on node02 waits (/code/data.py:42, in __next__), on a node with memory 99 % full: "
        "the others wait in collectives while it works"
    )
    assert [row["rank"] for row in slow["straggler"]["ranks"]] == [2] and asked == [stragglers.SECONDS]
    log.write_text(early)
    usual = slowdown.find_slowdown(checklist.ends_by_rank(logs))
    assert diagnose._slowness(run, 0, usual, {}) == {} and len(asked) == 1
    lines = screen(DiagnosisReport(Diagnosis(HEALTHY), launch=LAUNCH, facts=facts, running=True), "s")
    assert lines[1].startswith("slow      steps take 0.9 s")
