# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The phases of a launch and its marks, from a ledger."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.report import timeline as timeline_module
from ansible_collections.rankzero.slurm.plugins.module_utils.report.marks import MOST_CHECKPOINTS, marks
from ansible_collections.rankzero.slurm.plugins.module_utils.report.timeline import timeline
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import Allocation
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.attempt_times import AttemptTimes, Limits
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.ledger import Ledger, ledger
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.step_times import StepTimes

LIMITS = Limits(10.0, 60.0)


def attempt(number: int, began: float, ended: float, times: StepTimes, **more: Any) -> AttemptTimes:
    return AttemptTimes(number, began, ended, job_id="7", nodes=2, ranks=began + 10, times=times, **more)


def steps(first: int, at: float, count: int, saves: tuple[float, ...] = ()) -> StepTimes:
    return StepTimes([(first + index, at + index, True) for index in range(count)], saves)


def divided(*attempts: AttemptTimes, held_from: float | None = None) -> Ledger:
    held = [Allocation("7", held_from or attempts[0].began, attempts[-1].ended, 2)]
    return ledger(held, attempts, limits=LIMITS, submitted=attempts[0].began - 60)


def kinds(
    *attempts: AttemptTimes, prepared: Any = (), held_from: float | None = None
) -> list[tuple[str, float, float]]:
    launch: Any = SimpleNamespace(
        attempts=[
            SimpleNamespace(attempt=row.attempt, node_list="", nodes=["a"], started_at=row.began) for row in attempts
        ],
        journal=[{"event": "submitted", "time": attempts[0].began - 60}],
    )
    phases = timeline(launch, divided(*attempts, held_from=held_from), dict(prepared))
    assert [phase.began for phase in phases[1:]] == [phase.ended for phase in phases[:-1]]
    return [(phase.kind, phase.began, phase.ended) for phase in phases]


def test_checkpoints_stalls_and_the_time_after_the_artifact_are_phases() -> None:
    """Ten steps of a second; a checkpoint of four seconds; a stall of two minutes; the artifact; ten idle seconds."""
    times = StepTimes(
        [*steps(0, 1020, 10).steps, *steps(10, 1034, 10).steps, *steps(20, 1164, 5).steps], saves=[1033.0]
    )
    found = kinds(attempt(0, 1000, 1180, times, proven=1170.0, succeeded=True))
    assert found == [
        ("queued", 940, 1000), ("set-up", 1000, 1010), ("start-up", 1010, 1020), ("training", 1020, 1030),
        ("checkpoints", 1030, 1034), ("training", 1034, 1044), ("stalled", 1044, 1164), ("training", 1164, 1170),
        ("after the artifact", 1170, 1180),
    ]  # fmt: skip


def test_a_last_checkpoint_comes_before_the_artifact() -> None:
    times = StepTimes(steps(0, 1020, 10).steps, saves=[1033.0])
    found = kinds(attempt(0, 1000, 1060, times, proven=1040.0, succeeded=True))
    assert found[-3:] == [("checkpoints", 1029, 1033), ("training", 1033, 1040), ("after the artifact", 1040, 1060)]


def test_the_set_up_is_divided_by_what_was_done() -> None:
    one = attempt(0, 1000, 1100, steps(0, 1020, 10))
    both = {0: [("preflight", 1002.0, 1008.0), ("staging", 1004.0, 1006.0)]}
    assert [kind for kind, _began, _ended in kinds(one, prepared=both)][:6] == [
        "queued", "set-up", "preflight", "staging", "preflight", "set-up",
    ]  # fmt: skip
    # The batch script begins after the allocation: that is one set-up.
    late = replace(attempt(0, 1003, 1100, steps(0, 1020, 10)), ranks=1010.0)
    assert kinds(late, prepared={0: [("preflight", 1005.0, 1010.0)]}, held_from=1000.0)[1:3] == [
        ("set-up", 1000, 1005), ("preflight", 1005, 1010),
    ]  # fmt: skip
    # Another clock: what lies outside is not shown, and nothing is counted twice.
    apart = {0: [("preflight", 900.0, 1004.0), ("staging", 5000.0, 6000.0)]}
    assert kinds(one, prepared=apart)[1:3] == [("preflight", 1000, 1004), ("set-up", 1004, 1010)]


def test_of_too_many_checkpoints_the_shortest_are_training(monkeypatch: Any) -> None:
    monkeypatch.setattr(timeline_module, "MOST_PHASES", 2)
    times, saves, at = [], [], 1020.0
    for number in range(20):
        times.append((number, at, True))
        # Every second step saves, and each save takes longer than the one before.
        at += 1.0 if number % 2 else 2.0 + number
        saves += [] if number % 2 else [at]
    found = kinds(attempt(0, 1000, at + 1, StepTimes(times, saves)))
    assert [kind for kind, _began, _ended in found].count("checkpoints") == 2


def test_marks_say_what_a_restart_was() -> None:
    first = attempt(0, 1000, 1100, steps(0, 1020, 5, (1022.0, 1024.0)), followed=True)
    spare = attempt(1, 1100, 1200, steps(5, 1120, 5), followed=True, same_job=True)
    again = attempt(2, 1300, 1400, steps(8, 1320, 5), proven=1390.0, succeeded=True)
    found = marks([first, spare, again], {0: ["n1", "n2"], 1: ["n1", "n3"], 2: ["n1", "n2"]})
    assert [(mark.kind, mark.at, mark.attempt, mark.text) for mark in found] == [
        ("first step", 1020, 0, "step 0"), ("checkpoint", 1022, 0, ""), ("checkpoint", 1024, 0, ""),
        ("spare node", 1100, 1, "n3 for n2"), ("first step", 1120, 1, "step 5"), ("requeue", 1300, 2, ""),
        ("first step", 1320, 2, "step 8"), ("artifact", 1390, 2, ""),
    ]  # fmt: skip


def test_the_marks_of_a_million_checkpoints_are_few() -> None:
    saves = tuple(1020.0 + number / 1e4 for number in range(1_000_000))
    found = marks([attempt(0, 1000, 1200, steps(0, 1020, 5, saves))], {})
    assert len([mark for mark in found if mark.kind == "checkpoint"]) <= MOST_CHECKPOINTS
