# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wait for a job that stood before the wait began, and for one that is silent before its first step."""

from __future__ import annotations

from typing import Any

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


def test_a_launch_that_waits_for_a_role_does_not_stand_still() -> None:
    """A server may load its model for longer than a rank may be silent. From its readiness on, the ranks count."""
    watch, answer = Watch(RUN, "7"), "rollout (1 not ready; node02:7: it answers with 503)"
    gate = {"name": "rollout", "first_rank": 1, "hosts": ["node02:7"], "began": 5.0, "restarts": 0}
    trainer = {"name": "trainer", "first_rank": 0, "hosts": ["node01:7"], "waits_for": ["rollout"]}
    started: dict[str, Any] = {**STARTED, "launched": 4.0, "roles": [trainer, gate]}
    told = watch.feed(seen(record(), started=started, gate=answer), 0.0)
    for now in range(10, 2000, 10):
        told += watch.feed(seen(asked=False, started=started, gate=answer), float(now))
    assert [event.kind for event in told] == ["started"] and watch.gate == answer
    started["roles"][1] = {**gate, "restarts": 1}
    (event,) = watch.feed(seen(asked=False, started=started, gate=answer), 2000.0)
    assert (event.kind, event.text) == ("role", "role rollout: restart 1")
    started["roles"][1] = {**gate, "restarts": 1, "ready": 2005.0}
    (event,) = watch.feed(seen(asked=False, started=started), 2010.0)
    assert event.text == "role rollout is ready"
    assert watch.feed(seen(asked=False, started=started), 2050.0) == []
    assert [event.kind for event in watch.feed(seen(asked=False, started=started), 2080.0)] == ["quiet"]


def test_a_silent_start_makes_the_wait_look_at_the_ranks() -> None:
    watch = Watch(RUN, "7")
    watch.feed(seen(record(), started=STARTED), 0.0)
    assert watch.feed(seen(asked=False, started=STARTED), 50.0) == []
    (event,) = watch.feed(seen(asked=False, started=STARTED), 70.0)
    assert (event.kind, event.text, watch.stands) == ("quiet", "", "")


def test_a_silence_begins_when_the_log_was_written_and_not_at_the_look_that_saw_it() -> None:
    """Unless the clocks are wrong: what is new was not there at the look before."""
    for age, since in ((4.0, 36.0), (1000.0, 30.0)):
        watch = Watch(RUN, "7")
        watch.feed(seen(record(), started=STARTED), 0.0)
        watch.feed(seen(asked=False, started=STARTED, log=LogChunk(0, 0, 4, "one\n")), 30.0)
        watch.feed(seen(asked=False, started=STARTED, log=LogChunk(0, 4, 8, "two\n", age=age)), 40.0)
        assert watch.feed(seen(asked=False, started=STARTED), since + 59.0) == []
        assert [event.kind for event in watch.feed(seen(asked=False, started=STARTED), since + 60.0)] == ["quiet"]
