# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast the steps of a run go, and when it stands still."""

from __future__ import annotations

import math

from ansible_collections.rankzero.slurm.plugins.module_utils.watch.pace import Pace


def paced(steps: int, seconds: float) -> Pace:
    """Steps 1 to `steps` of 100, one each so many seconds from 0 on."""
    pace = Pace()
    pace.begin(0.0)
    for step in range(1, steps + 1):
        pace.heard = step * seconds
        pace.step(step, 100, step * seconds)
    return pace


def test_the_end_is_known_after_some_seconds_of_steps() -> None:
    assert paced(5, 1.0).ends is None
    assert paced(21, 1.0).ends == 21.0 + 79.0
    assert paced(100, 1.0).ends is None, "nothing is left"


def test_no_step_for_ten_usual_ones_and_a_minute_stands_still() -> None:
    quick, slow = paced(10, 0.5), paced(10, 30.0)
    assert (
        quick.stands(5.0 + 59.0) == "" and quick.stands(5.0 + 61.0) == "no step for 1 min 01 s, where a step took 0.5 s"
    )
    assert slow.stands(300.0 + 200.0) == "" and slow.stands(300.0 + 301.0) != ""


def test_after_the_last_step_a_run_saves_its_model_and_is_only_looked_at() -> None:
    pace = paced(100, 1.0)
    assert pace.stands(399.0) == "" and next(second for second in range(101, 399) if pace.silent(float(second))) == 160
    assert not pace.late(399.0) and pace.due(110.0) == 50.0
    assert pace.stands(401.0) == "no line in its log for 5 min 01 s"
    pace.step(1, 100, 402.0)
    assert pace.stands(500.0) == "no step for 1 min 38 s, where a step took 1 s", "another epoch"


def test_a_late_step_leaves_no_estimate() -> None:
    quick, slow = paced(10, 0.5), paced(10, 30.0)
    assert [quick.late(5.0 + age) for age in (9.0, 11.0)] == [False, True]
    assert [slow.late(300.0 + age) for age in (119.0, 121.0)] == [False, True]
    assert not Pace().late(1e6)


def test_a_step_that_is_printed_again_is_none() -> None:
    pace = paced(10, 1.0)
    for second in range(11, 80):
        pace.heard = float(second)
        pace.step(10, 100, float(second))
    assert pace.stands(79.0) == "no step for 1 min 09 s, where a step took 1 s"


def test_it_is_news_when_it_begins_and_when_it_has_lasted_twice_as_long() -> None:
    pace = paced(10, 1.0)
    told = [second for second in range(10, 400) if pace.news(float(second))]
    assert told == [70, 130, 250]
    pace.step(11, 100, 400.0)
    assert pace.stands(401.0) == ""
    assert [second for second in range(401, 500) if pace.news(float(second))] == [460]


def test_lines_after_the_newest_step_do_not_make_the_same_stall_news_again() -> None:
    pace, told = paced(10, 1.0), []
    for second in range(11, 400):
        if second == 30:
            pace.heard = 30.0
        if pace.events(float(second), ""):
            told.append(second)
            pace.blame(float(second), "rank 3 sleeps")
    assert told == [70, 130, 250]


def test_a_run_without_steps_stands_still_when_its_log_is_silent() -> None:
    pace = Pace()
    pace.begin(0.0)
    assert pace.stands(299.0) == "" and pace.stands(301.0) == "no line in its log for 5 min 01 s"
    pace.heard = 301.0
    assert pace.stands(302.0) == ""


def test_a_run_without_steps_is_looked_at_when_its_log_is_silent() -> None:
    pace = Pace()
    pace.begin(0.0)
    # Ranks that imported their modules for two minutes hung in the third one.
    looks = [second for second in range(1, 1300) if pace.silent(float(second))]
    assert looks == [60, 120, 180, 240, 300, 600, 1200]
    pace.blame(260.0)
    assert pace.stands(261.0) == "no line in its log for 4 min 21 s"
    pace.heard = 262.0
    assert pace.stands(400.0) == "", "it has gone on"
    assert not pace.silent(321.0) and pace.silent(322.0), "a line begins another silence"
    assert not any(paced(10, 1.0).silent(float(second)) for second in range(11, 400)), "its steps have a time"


def test_a_second_hang_in_the_same_silence_is_looked_for_each_minute_and_told_of_once() -> None:
    """A rank came late to its process group, and then its DataLoader hung: no line came between the two."""
    pace = Pace()
    pace.begin(0.0)
    kinds, told = {}, []
    for second in range(1, 420):
        event = next(iter(pace.events(float(second), "")), None)
        if event is not None:
            kinds[second] = event.kind
            if pace.blame(float(second), "rank 3 sleeps" if second < 130 else "rank 2 waits"):
                told.append(second)
    assert kinds == {60: "quiet", 120: "stalled", 180: "quiet", 240: "stalled", 300: "quiet"}
    assert told == [60, 180]
    pace.heard = 420.0
    assert pace.blame(481.0, "rank 2 waits"), "another silence"


def test_a_wait_that_begins_late_takes_over_what_the_log_shows() -> None:
    pace = Pace()
    pace.begin(0.0, 360.0)
    pace.step(41, 100, 0.0)
    pace.attach(-300.0, [1, 21, 41])
    assert pace.stands(5.0) == "", "another line may come at once, where the clocks differ"
    assert pace.stands(11.0) == "no step for 5 min 11 s, where a step took 1.5 s"
    pace.step(42, 100, 12.0)
    assert pace.stands(13.0) == ""


def test_a_look_that_names_no_rank_is_repeated_soon_and_a_few_times() -> None:
    """The nodes of a busy cluster answered late once, and the next look came after twice the silence."""
    pace, looks = paced(10, 0.5), []
    for second in range(6, 180):
        if pace.events(float(second), ""):
            looks.append(second)
            pace.unnamed(float(second))
    assert looks == [65, 85, 105, 125], "the last of these is that of a silence twice as long"
    pace.step(11, 100, 180.0)
    assert [second for second in range(181, 239) if pace.events(float(second), "")] == []


def test_a_look_is_due_when_a_silence_is_long_enough_and_when_one_is_repeated() -> None:
    pace = paced(10, 0.5)
    assert pace.due(5.0) == 60.0 and pace.due(64.0) == 1.0
    assert pace.due(65.0) == math.inf, "it was looked at"
    pace.unnamed(67.0)
    assert pace.due(70.0) == 17.0
    quiet = Pace()
    quiet.begin(0.0)
    assert quiet.due(10.0) == 50.0
