# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The attempts of a launch, from what each left and what accounting recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.run import attempts
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.documents import Left, Outcome, Started
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import Attempt
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord
from tests.writers import Run


def row(start: float, end: float, state: str = "REQUEUED", **more: Any) -> JobRecord:
    return JobRecord("7", "job.k.1", state, start=start, end=end, node_list="node[01-02]", source="sacct", **more)


def job(*rows: JobRecord) -> JobRecord:
    return JobRecord("7", "job.k.1", "RUNNING", start=500.0, source="squeue", restarts=len(rows), earlier=rows)


def started(number: int, time: float, job_id: str = "7") -> Started:
    return Started(attempt=number, job_id=job_id, time=time, nodes=["node01", "node02"])


def outcome(number: int, time: float, ended_by: str = "signal", **more: Any) -> Outcome:
    ended: Any = {"attempt": number, "time": time, "ended_by": ended_by, "exit_code": 0, "message": "so it ended"}
    return Outcome(**{**ended, **more})


def test_a_requeued_attempt_has_the_word_of_both() -> None:
    left: dict[int, Left] = {0: {"started": started(0, 101.0), "outcome": outcome(0, 190.0, exit_code=143)}}
    assert attempts.earlier(1, left, job(row(100.0, 200.0))) == [
        Attempt(
            attempt=0,
            job_id="7",
            slurm_state="REQUEUED",
            started_at=101.0,
            finished_at=190.0,
            node_list="node[01-02]",
            nodes=["node01", "node02"],
            exit_code=143,
            reason="so it ended",
        )
    ]


def test_an_attempt_that_died_at_once_is_told_by_accounting() -> None:
    """Its node failed: no outcome was written."""
    left: dict[int, Left] = {0: {"started": started(0, 102.0)}}
    (found,) = attempts.earlier(1, left, job(row(100.0, 200.0, "NODE_FAIL")))
    assert (found.slurm_state, found.finished_at, found.nodes) == ("NODE_FAIL", 200.0, ["node01", "node02"])
    assert found.reason == "NODE_FAIL: one of its nodes failed" and found.exit_code is None


def test_attempts_inside_one_job_share_its_row_and_the_last_one_ends_with_it() -> None:
    left: dict[int, Left] = {
        0: {"started": started(0, 101.0), "outcome": outcome(0, 150.0, "restart", exit_code=1)},
        1: {"started": started(1, 151.0)},
    }
    first, second = attempts.earlier(2, left, job(row(100.0, 200.0, "PREEMPTED")))
    assert (first.slurm_state, first.finished_at, first.exit_code) == ("NODE_FAIL", 150.0, 1)
    assert (second.slurm_state, second.finished_at, second.started_at) == ("PREEMPTED", 200.0, 151.0)


def test_an_attempt_of_the_job_before_this_one_and_one_that_nobody_knows() -> None:
    left: dict[int, Left] = {0: {"started": started(0, 50.0, "3"), "outcome": outcome(0, 60.0, job_id="3")}}
    first, second = attempts.earlier(2, left, job())
    assert (first.job_id, first.slurm_state, first.finished_at) == ("3", None, 60.0)
    assert (second.job_id, second.started_at, second.nodes, second.reason) == (None, None, None, "")


def test_without_files_accounting_alone_tells_them_in_order() -> None:
    """An older run, or one whose directory was purged in part."""
    found = attempts.earlier(2, {}, job(row(100.0, 200.0), row(300.0, 400.0, "PREEMPTED")))
    assert [(one.slurm_state, one.started_at, one.finished_at) for one in found] == [
        ("REQUEUED", 100.0, 200.0),
        ("PREEMPTED", 300.0, 400.0),
    ]
    assert attempts.earlier(1, {}, None)[0].slurm_state is None


def test_what_attempts_leave_is_read_by_their_own_number(tmp_path: Path) -> None:
    run = Run.below(tmp_path).started().ended(by="signal").numbered(1).numbered(2).ended(by="signal", number=2)
    run.numbered(3).ended(by="signal", number=3)
    (run.path / "outcome.before-attempt-2.json").write_text("half of i")
    left = RunDirectory(str(run.path)).before()
    assert {number: sorted(parts) for number, parts in left.items()} == {0: ["outcome", "started"], 2: ["outcome"]}
    assert RunDirectory(str(tmp_path / "gone")).before() == {}
