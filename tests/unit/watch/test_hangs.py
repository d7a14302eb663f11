# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wait for a job that stood before the wait began, and for one that is silent before its first step."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.watch.launch import Watch
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.poll import LogChunk
from tests.unit.watch.test_launch import RUN, STARTED, record, seen


def test_a_job_that_stood_before_the_wait_began_is_seen_within_seconds() -> None:
    steps = "".join(f"step {number}/100 loss 3\n" for number in range(1, 41))
    watch, wall = Watch(RUN, "7"), 10_000.0
    started = {**STARTED, "time": wall - 400.0}
    log = LogChunk(0, 0, len(steps), steps, age=300.0)
    kinds = [event.kind for event in watch.feed(seen(record(), started=started, log=log), 0.0, wall=wall)]
    assert "stalled" not in kinds
    events = watch.feed(seen(asked=False, started=started), 15.0, wall=wall + 15)
    assert [event.kind for event in events] == ["stalled"] and "no step for 5 min 15 s" in events[0].text


def test_a_silent_start_makes_the_wait_look_at_the_ranks() -> None:
    watch = Watch(RUN, "7")
    watch.feed(seen(record(), started=STARTED), 0.0)
    assert watch.feed(seen(asked=False, started=STARTED), 50.0) == []
    (event,) = watch.feed(seen(asked=False, started=STARTED), 70.0)
    assert (event.kind, event.text, watch.stands) == ("quiet", "", "")
