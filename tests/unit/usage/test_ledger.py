# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hours went to: the parts add up to what Slurm allocated, and each part is what the logs tell."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import significant
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.from_logs import Span
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import Allocation
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.attempt_spans import AttemptSpan
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.attempt_times import PARTS, AttemptTimes, Limits
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.launch_ledger import Reading, with_steps
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.ledger import Ledger, ledger
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.step_times import StepTimes, read_step_times
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.tables import csv_text
from tests.unit.page.runs import stamp

LIMITS = Limits(10.0, 60.0)
BEGAN = 1_700_000_000.0


def steps(first: int, last: int, began: float, seconds: float = 1.0, every: int = 1) -> list[tuple[int, float, bool]]:
    """Steps that are logged, the first one at `began`."""
    return [(step, began + (step - first) * seconds, True) for step in range(first, last + 1, every)]


def made(*attempts: AttemptTimes, allocations: list[Allocation] | None = None, accounted: bool = True) -> Ledger:
    return ledger(allocations or [], attempts, limits=LIMITS, accounted=accounted)


def test_all_parts_of_a_launch_with_a_requeue_a_checkpoint_and_a_stall() -> None:
    first = AttemptTimes(
        0, BEGAN, BEGAN + 250, job_id="7", nodes=4, ranks=BEGAN + 20, followed=True, resumed=101,
        # The checkpoint after step 100 takes 9 seconds more than a step.
        times=StepTimes([*steps(1, 100, BEGAN + 50), *steps(101, 180, BEGAN + 159)], [BEGAN + 158]),
    )  # fmt: skip
    second = AttemptTimes(
        1, BEGAN + 300, BEGAN + 1000, job_id="7", nodes=4, ranks=BEGAN + 310, proven=BEGAN + 980,
        times=StepTimes([*steps(101, 200, BEGAN + 330), *steps(201, 300, BEGAN + 830)]),
    )  # fmt: skip
    result = made(first, second)
    assert {part: seconds and round(seconds / 4, 6) for part, seconds in result.parts.items()} == {
        "set-up": 20 + 10,
        "waiting for roles": None,
        "start-up": 30 + 20,
        "steps": 99 + 1 + 99 + 1 + 99 + 51,
        # From the checkpoint, which was complete a second before step 101, to the end of the attempt.
        "lost": 1 + 250 - 159,
        "checkpoints": 8,
        "stalls": 400,
        "idle": 20,
        "not known": 0,
    }
    assert result.node_seconds == 4 * (250 + 700) and result.queue == 50
    assert result.sentence == (
        "1.06 node-hours: 42 % stalled, 37 % steps, 10 % lost to a restart, 5 % start-up, 3 % set-up, 2 % idle at the "
        "end, 1 % checkpoints; queue 50 s"
    )


@pytest.mark.parametrize("begun", [True, False])
def test_the_deciding_role_waits_for_others_before_it_starts(begun: bool) -> None:
    """A role that is never ready: all that remains is a wait for it."""
    times = StepTimes(steps(1, 50, BEGAN + 150, 1.0)) if begun else StepTimes()
    attempt = AttemptTimes(
        0, BEGAN, BEGAN + 200, job_id="7", nodes=4, ranks=BEGAN + 20, succeeded=begun,
        waited=BEGAN + (140 if begun else 200), waited_for=["rollout", "judge"], times=times,
    )  # fmt: skip
    result = made(attempt)
    parts = {part: round(seconds / 4, 6) for part, seconds in result.parts.items() if seconds}
    assert parts["set-up"] == 20 and parts["waiting for roles"] == (120 if begun else 180)
    assert parts.get("start-up") == (10 if begun else None)
    assert ("60 %" if begun else "90 %") + " waiting for rollout and judge" in result.sentence


def test_each_role_has_the_time_of_its_nodes_over_all_attempts() -> None:
    first = AttemptTimes(0, BEGAN, BEGAN + 60, job_id="7", nodes=4, followed=True, of_roles={"trainer": 60.0})
    second = AttemptTimes(
        1, BEGAN + 60, BEGAN + 120, job_id="7", nodes=4, of_roles={"trainer": 60.0, "rollout": 90.0}, same_job=True
    )
    result = made(first, second)
    assert result.as_dict()["roles"] == [
        {"role": "trainer", "node_seconds": 120.0}, {"role": "rollout", "node_seconds": 90.0}
    ]  # fmt: skip
    assert "node-minutes of roles: trainer 2, rollout 1.5" in result.sentence
    alone = made(AttemptTimes(0, BEGAN, BEGAN + 60, job_id="7", nodes=4, of_roles={"trainer": 60.0}))
    assert "roles" not in alone.sentence


def test_attempts_on_a_spare_node_share_one_allocation() -> None:
    job = Allocation("7", BEGAN, BEGAN + 1000, 3, elapsed=1000.0, gpus=24, joules=7_200_000)
    first = AttemptTimes(
        0, BEGAN + 1, BEGAN + 400, "7", 3, ranks=BEGAN + 10, followed=True, resumed=21,
        times=StepTimes(steps(1, 30, BEGAN + 20, 10.0)),
    )  # fmt: skip
    second = AttemptTimes(
        1, BEGAN + 410, BEGAN + 998, "7", 2, ranks=BEGAN + 430, succeeded=True, same_job=True,
        times=StepTimes(steps(21, 70, BEGAN + 450, 10.0)),
    )  # fmt: skip
    result = made(first, second, allocations=[job])
    assert result.node_seconds == 3000 and result.gpu_seconds == 24_000 and result.joules == 7_200_000
    # Set-up: before the ranks of each attempt, with the time between the two. Lost: steps 21 to 30, and what followed.
    assert result.parts["set-up"] == 3 * (10 + 30) and result.parts["lost"] == 3 * 190
    assert result.parts["stalls"] == 0 and result.queue == 0
    # Without Slurm's word, the attempts of one job are one allocation, which ends with the last of them.
    assert made(first, second).node_seconds == 3 * (998 - 1)


def test_a_requeue_of_which_the_queue_shows_the_last_start_only() -> None:
    newest = Allocation("7", BEGAN + 500, BEGAN + 10_000, 2)
    attempts = [
        AttemptTimes(0, BEGAN, BEGAN + 100, "7", 2, BEGAN + 10, followed=True),
        AttemptTimes(1, BEGAN + 502, BEGAN + 10_000, "7", 2, BEGAN + 510, runs=True),
    ]
    result = made(*attempts, allocations=[newest], accounted=False)
    assert [held.began for held in result.allocations] == [BEGAN, BEGAN + 500]
    assert result.node_seconds == 2 * (100 + 9500) and result.queue == 400


def test_without_steps_the_rest_is_not_known_and_no_part_is_zero() -> None:
    result = made(AttemptTimes(0, BEGAN, BEGAN + 100, "7", 2, BEGAN + 25))
    assert result.parts == {**dict.fromkeys(PARTS), "set-up": 50, "not known": 150}
    assert result.sentence == "3.3 node-minutes: 75 % running (no times of steps), 25 % set-up"
    proven = made(AttemptTimes(0, BEGAN, BEGAN + 100, "7", 2, BEGAN + 25, proven=BEGAN + 90))
    assert proven.parts == {**dict.fromkeys(PARTS), "set-up": 50, "not known": 130, "idle": 20}
    assert proven.sentence.endswith("65 % running (no times of steps), 25 % set-up, 10 % idle at the end")
    nothing = made(AttemptTimes(0, BEGAN, BEGAN + 100, "7", 2))
    assert nothing.parts == {**dict.fromkeys(PARTS), "not known": 200}
    lines = csv_text(("part", "node_seconds", "share"), nothing.rows()).splitlines()
    assert lines[0] == "part,node_seconds,share" and lines[1] == "set-up,," and lines[-1] == "not known,200,1"
    lost = made(allocations=[Allocation("7", BEGAN, BEGAN + 100, 2)])
    assert lost.sentence == "3.3 node-minutes: 100 % not known"
    assert made().sentence == "" and made().parts == {**dict.fromkeys(PARTS), "not known": 0}


def test_a_stall_at_the_end_and_a_launch_that_still_runs() -> None:
    times = StepTimes(steps(1, 50, BEGAN + 50))
    hung = made(AttemptTimes(0, BEGAN, BEGAN + 900, "7", 1, BEGAN + 10, times=times))
    assert hung.parts["stalls"] == 900 - 99 - 1 and hung.parts["idle"] == 0
    runs = made(AttemptTimes(0, BEGAN, BEGAN + 110, "7", 1, BEGAN + 10, runs=True, times=times))
    assert runs.parts["steps"] == 60 and runs.parts["idle"] == 0 and runs.parts["lost"] == 0
    # The limits are those that a diagnosis or a wait was given.
    strict = ledger([], [AttemptTimes(0, BEGAN, BEGAN + 110, "7", 1, BEGAN + 10, times=times)], limits=Limits(2, 5))
    assert strict.parts["stalls"] == 10


def test_a_suspended_job_is_charged_what_slurm_counts() -> None:
    job = Allocation("7", BEGAN, BEGAN + 1000, 2, elapsed=700.0)
    times = StepTimes([*steps(1, 100, BEGAN + 50), *steps(101, 200, BEGAN + 450)])
    result = made(AttemptTimes(0, BEGAN, BEGAN + 1000, "7", 2, BEGAN + 10, times=times), allocations=[job])
    assert result.node_seconds == 1400 and result.parts["steps"] == 2 * 200


@pytest.mark.parametrize("seed", range(200))
def test_the_parts_always_add_up_to_what_was_allocated(seed: int) -> None:
    dice = random.Random(seed)
    allocations, attempts, at = [], [], BEGAN
    for number in range(dice.randint(1, 4)):
        began = at + dice.choice([0.0, 30.0, 4000.0])
        ended = began + dice.uniform(0, 3000)
        elapsed = dice.choice([None, ended - began, (ended - began) * dice.random()])
        allocations.append(Allocation("7", began, ended, dice.randint(1, 9), elapsed=elapsed, gpus=dice.randint(0, 8)))
        inside = began + dice.uniform(-10, 10)
        for _ in range(dice.randint(0, 3)):
            until = dice.uniform(inside, ended + 20) if dice.random() < 0.9 else inside - 5
            # Clocks that are apart, in any order: a log may say anything.
            moments = sorted(dice.uniform(began - 50, ended + 50) for _ in range(dice.choice([0, 1, 2, 40])))
            numbers = [dice.randint(0, 99) if dice.random() < 0.1 else index for index in range(len(moments))]
            attempts.append(
                AttemptTimes(
                    len(attempts), inside, until, "7", 2,
                    ranks=dice.choice([None, dice.uniform(began - 9, ended + 9)]),
                    proven=dice.choice([None, dice.uniform(began - 9, ended + 9)]),
                    resumed=dice.choice([None, dice.randint(0, 60)]),
                    followed=dice.random() < 0.5, runs=dice.random() < 0.2, same_job=number > 0,
                    times=StepTimes(
                        [(step, moment, dice.random() < 0.9) for step, moment in zip(numbers, moments)],
                        sorted(dice.uniform(began, ended) for _ in range(dice.choice([0, 3]))),
                    ),
                )
            )  # fmt: skip
            inside = max(inside, min(until, ended - 1))
        at = ended
    result = made(*attempts, allocations=allocations)
    allocated = sum(
        min(held.ended - held.began, held.ended - held.began if held.elapsed is None else held.elapsed) * held.nodes
        for held in allocations
        if held.ended is not None
    )
    assert result.node_seconds == pytest.approx(allocated)
    assert sum(seconds or 0.0 for seconds in result.parts.values()) == pytest.approx(allocated)
    assert all(seconds is None or seconds >= 0 for seconds in result.parts.values())
    if allocated:
        assert sum(result.share(part) or 0.0 for part in PARTS) == pytest.approx(1)
    for one, other in zip(result.segments, result.segments[1:]):
        assert one.began <= one.ended <= other.began


def test_steps_and_checkpoints_are_read_from_the_first_rank_that_logs_them(tmp_path: Path) -> None:
    lines = [f"{stamp(BEGAN + 10 + step)} step {step}/50 loss 2.{step}\n" for step in range(1, 6)]
    lines.insert(3, f"{stamp(BEGAN + 13.5)} Saved checkpoint to /scratch/step3\n")
    lines.insert(3, f"{stamp(BEGAN + 13.5)} saving checkpoint at iteration 3 to /scratch\n")
    (tmp_path / "rank-0000.log").write_text("loading\n")
    (tmp_path / "rank-0001.log").write_text("step 1 loss 2\n")
    (tmp_path / "rank-0002.log").write_text("".join(lines))
    times = read_step_times(Beneath(str(tmp_path)), Span(0, BEGAN, BEGAN + 100))
    assert list(times.steps) == [(step, BEGAN + 10 + step, True) for step in range(1, 6)]
    assert list(times.saves) == [BEGAN + 13] * 2
    # A program that logs in another time zone: the time that its start took remains.
    away = read_step_times(Beneath(str(tmp_path)), Span(0, BEGAN + 7200, BEGAN + 7300))
    assert away.steps[0] == (1, BEGAN + 7200 + 11, True)
    # Dates in the text, and clocks that are days apart, are no times of steps.
    odd = ["0001-01-01 00:00:00", "9999-12-31 23:59:59", "2001-02-03 04:05:06"]
    lines = [*(f"{date} step 0 loss 1\n" for date in odd), *lines, f"{odd[1]} step 6 loss 1\n"]
    (tmp_path / "rank-0002.log").write_text("".join(lines))
    assert read_step_times(Beneath(str(tmp_path)), Span(0, BEGAN, BEGAN + 100)) == times
    assert read_step_times(Beneath(str(tmp_path / "none")), Span(0, BEGAN, None)) == StepTimes()


def test_a_program_whose_logs_have_no_times_may_tell_them_in_its_metrics(tmp_path: Path) -> None:
    """Two attempts write into one file; the second one repeats two steps."""
    logs, work = tmp_path / "logs", tmp_path / "work"
    spans = [
        AttemptSpan(0, BEGAN, BEGAN + 100, nodes=1, ranks=BEGAN + 5, followed=True),
        AttemptSpan(1, BEGAN + 200, BEGAN + 300, nodes=1, ranks=BEGAN + 205),
    ]
    for attempt in (0, 1):
        (logs / str(attempt)).mkdir(parents=True)
        (logs / str(attempt) / "rank-0000.log").write_text("step 1 loss 2\n")
    work.mkdir()
    times = [(1, 10), (2, 20), (3, 30), (2, 210), (3, 220), (4, 230)]
    rows = [f'{{"step": {step}, "loss": 1, "_timestamp": {BEGAN + at}}}\n' for step, at in times]
    (work / "metrics.jsonl").write_text("".join(rows))
    assert not any(attempt.times.steps for attempt in with_steps(Beneath(str(logs)), spans, Reading(most=1 << 20)))
    attempts = with_steps(Beneath(str(logs)), spans, Reading(most=1 << 20), Beneath(str(work)))
    assert [attempt.times.steps[0][0] for attempt in attempts] == [1, 2] and attempts[0].resumed == 2
    parts = made(*attempts).parts
    assert (parts["start-up"], parts["lost"]) == (5 + 5, 100 - 20 + 10) and parts["not known"] == 0


def test_many_node_hours_are_written_out() -> None:
    held = [Allocation("7", BEGAN, BEGAN + 3600 * 100, 64)]
    assert made(allocations=held).sentence.startswith("6400 node-hours: 100 % not known")
    assert [significant(value) for value in (1234567, 12.345, 0.012345, 0)] == ["1230000", "12.3", "0.0123", "0"]
