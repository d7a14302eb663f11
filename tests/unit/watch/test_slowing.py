# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a wait notices that steps take longer than they did, from looks at the log of a program that goes in real order.

A program is a list of (seconds that something takes, line that it then prints). The wait looks every few seconds.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.watch.launch import Watch
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.poll import LogChunk
from tests.unit.watch.test_launch import RUN, STARTED, record, seen

Program = Sequence[tuple[float, str]]
#: Seconds of the start, and the quick steps after it.
IMPORT, EARLY = 12.0, 20


def steps(number: int, seconds: float, first: int = 1, every: int = 1, noise: float = 0.05, line: str = "") -> Program:
    """Steps that take so long, give or take, of which each `every`th is printed. `line`: more of it, with `{took}`."""
    chance = random.Random(number * first)
    rows, sum_of = [], 0.0
    for step in range(first, first + number):
        took = seconds * (1 + noise * chance.uniform(-1, 1))
        sum_of += took
        if step % every == 0:
            rows.append((sum_of, f"step {step}/90000 loss 2.5{line.format(took=took)}\n"))
            sum_of = 0.0
    return rows


def interrupted(seconds: float, each: int, pause: float, every: int = 1, line: str = "saved\n") -> Program:
    """Ten minutes of steps with an evaluation or a checkpoint after `each` of them."""
    chance = random.Random(each)
    cycles = int(600 / (each * seconds + pause)) + 1
    pauses = [pause * chance.uniform(0.9, 1.1) for _cycle in range(cycles)]
    parts = [[*steps(each, seconds, 1 + at * each, every), (took, line)] for at, took in enumerate(pauses)]
    return [row for part in parts for row in part]


def told(
    program: Program, phase: float, spacing: float = 5.0, *, unproven: bool = False
) -> Iterator[tuple[float, float, float]]:
    """(seconds, usual, new time of a step) of each event `slow` of a wait, which looks from `phase` on. `unproven`: no
    look at the ranks names one.
    """
    watch, written, end = Watch(RUN, "7"), [(0.0, "[rankzero] RANK=0\n")], IMPORT
    for took, line in program:
        end += took
        written.append((end, line))
    now, shown, size = phase, 0, 0
    while now < end:
        there = [at for at, _line in written if at <= now]
        text = "".join(line for _at, line in written[shown : len(there)])
        log = LogChunk(0, size, size + len(text), text, now - there[-1])
        shown, size = len(there), size + len(text)
        for event in watch.feed(seen(record(), started=STARTED, log=log), now):
            if event.kind == "slow":
                yield (now, *event.paces)
                if unproven:
                    watch.pace.slowing.unproven()
        now += spacing


PHASES = (0.4, 1.1, 1.9, 2.6, 3.3, 4.1, 4.8)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    ("quick", "times"),
    [(quick, times) for quick in (0.3, 1.0, 4.0) for times in (2.0, 4.0, 8.0)]
    + [(quick, times) for quick in (1.0, 4.0) for times in (1.35, 1.5)],
)
def test_a_job_that_becomes_slow_after_twenty_steps_is_noticed_within_150_seconds(
    quick: float, times: float, phase: float
) -> None:
    slow = steps(int(200 / (quick * times)), quick * times, EARLY + 1, noise=0.02)
    found = list(told([*steps(EARLY, quick, noise=0.02), *slow], phase))
    assert found and found[0][0] - IMPORT - EARLY * quick < 150
    assert found[0][2] / found[0][1] < 1.1 * times


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("times", [2.0, 4.0])
def test_two_seconds_of_quick_steps_are_enough_where_the_lines_give_times(times: float, phase: float) -> None:
    line = " ({took:.3f} s/it)"
    program = [*steps(EARLY, 0.1, line=line), *steps(int(1800 / times), 0.1 * times, EARLY + 1, line=line)]
    found = list(told(program, phase))
    assert found and found[0][0] - IMPORT - 0.1 * EARLY < 150


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    ("seconds", "each", "pause", "every"),
    [
        (0.05, 20, 6.0, 1), (0.05, 100, 40.0, 10), (0.1, 20, 15.0, 1), (0.3, 10, 6.0, 1), (0.3, 20, 15.0, 10),
        (0.3, 100, 15.0, 1), (0.3, 100, 40.0, 10), (0.3, 500, 40.0, 10), (1.0, 10, 3.0, 1), (1.0, 100, 40.0, 10),
        (4.0, 5, 15.0, 1), (4.0, 20, 40.0, 1),
    ],
)  # fmt: skip
def test_evaluations_and_checkpoints_make_no_job_slow(
    seconds: float, each: int, pause: float, every: int, phase: float
) -> None:
    assert list(told(interrupted(seconds, each, pause, every), phase)) == []


@pytest.mark.parametrize("phase", PHASES)
def test_first_steps_that_compile_make_no_job_slow(phase: float) -> None:
    again = [*steps(3, 15.0), *steps(60, 0.3, 4), *steps(1, 20.0, 64), *steps(600, 0.3, 65)]
    assert list(told(again, phase)) == []
    assert list(told([*steps(2, 40.0), *steps(100, 2.0, 3)], phase)) == []


def test_a_job_that_begins_slowly_is_measured_by_its_quick_steps() -> None:
    program = [*steps(10, 8.0), *steps(300, 0.3, 11), *steps(200, 0.9, 311)]
    found = list(told(program, 0.4))[-1]
    assert found[1] == pytest.approx(0.3, rel=0.1) and found[2] == pytest.approx(0.9, rel=0.1)


def test_lines_that_a_file_system_shows_late_tell_by_their_average() -> None:
    """All of 20 seconds at once."""
    quick, slow = steps(1200, 0.3), steps(400, 1.2, 1201)
    at, shown, program = 0.0, 0.0, []
    for took, line in [*quick, *slow]:
        at += took
        late = 20.0 * (at // 20.0 + 1)
        program.append((late - shown, line))
        shown = late
    (found,) = told(program, 0.4)
    assert found[1:] == (pytest.approx(0.3, rel=0.1), pytest.approx(1.2, rel=0.1))


def test_what_is_slow_is_told_once_and_again_when_it_has_grown() -> None:
    program = [*steps(100, 0.3), *steps(400, 0.6, 101), *steps(300, 2.4, 501)]
    assert [round(took, 1) for _now, _usual, took in told(program, 0.4)] == [0.6, 2.4]


def test_what_no_look_at_the_ranks_has_proven_is_told_again_where_it_lasts() -> None:
    program = [*steps(100, 0.3), *steps(1000, 0.6, 101)]
    (once,) = told(program, 0.4)
    first, second, *_later = told(program, 0.4, unproven=True)
    assert first == once and 110 < second[0] - first[0] < 150
    assert second[1:] == (pytest.approx(0.3, rel=0.1), pytest.approx(0.6, rel=0.1))
