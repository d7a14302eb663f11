# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many launches at once: what a poll costs, who is looked at, and what it is called."""

from __future__ import annotations

from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import about, duration, moment, short_list
from ansible_collections.rankzero.slurm.plugins.module_utils.run.documents import Outcome
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.listing import HEAD, listing
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.launch import Watch
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.many import BATCH, IDLE, Waits
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.poll import Poll, View

GOOD = Outcome(attempt=0, success=True)
STARTED = {"attempt": 0, "nodes": ["node01"]}


def run_dir(number: int) -> str:
    return f"/shared/project/a-rather-long-name-of-a-project/rankzero/state/runs/gpt-{number}/0123456789abcdef/1"


def waits(count: int, first: int | None = None) -> Waits:
    return Waits([Watch(run_dir(number), str(number)) for number in range(count)], first)


def queue(*states: str) -> dict[str, JobRecord]:
    return {
        str(number): JobRecord(str(number), f"gpt-{number}.0123456789abcdef.1", state, reason="Priority")
        for number, state in enumerate(states)
    }


class Cluster:
    """Jobs that are as a test says, polled on a clock of its own."""

    def __init__(self, all_of_them: Waits, states: list[str]) -> None:
        self.waits, self.states, self.now = all_of_them, states, 0.0
        self.asked = self.polls = self.looked = 0
        self.outcomes: set[str] = set()

    def poll(self) -> list[tuple[int, str]]:
        ask = self.waits.ask_queue(self.now)
        targets = self.waits.targets(self.now)
        self.polls, self.asked, self.looked = self.polls + 1, self.asked + ask, self.looked + len(targets)
        views = []
        for target in targets:
            running = self.states[int(target.job_id)] != "PENDING"
            outcome = GOOD if target.job_id in self.outcomes else None
            views.append(View(exists=True, started=STARTED if running else None, outcome=outcome))
        seen = Poll(True, ask, queue=queue(*self.states) if ask else {}, views=tuple(views))
        events = self.waits.feed(seen, self.now, wall=0.0)
        self.now += max(0.1, self.waits.delay())
        return [(index, event.kind) for index, event in events]


def test_a_poll_of_a_thousand_costs_one_question_and_a_bounded_look() -> None:
    cluster = Cluster(waits(1000), ["RUNNING"] * 1000)
    while cluster.now < 60:
        cluster.poll()
    assert cluster.looked <= cluster.polls * BATCH
    assert cluster.polls <= 60 / 5 + 5 and cluster.asked <= 60 / 10 + 10, (
        "about six a minute once it runs, however many there are"
    )
    targets = cluster.waits.targets(cluster.now)
    assert len(targets) == BATCH


def test_everybody_gets_a_turn_and_who_may_be_over_goes_first() -> None:
    cluster = Cluster(waits(3 * BATCH), ["RUNNING"] * 3 * BATCH)
    seen: set[str] = set()
    for _number in range(3):
        cluster.poll()
        seen |= {target.job_id for target in cluster.waits.targets(cluster.now)}
    assert len(seen) >= 2 * BATCH
    cluster.states[-1] = "COMPLETED"
    while cluster.waits.watches[-1].rank != 0:
        cluster.poll()
    assert cluster.waits.targets(cluster.now)[0].job_id == str(3 * BATCH - 1)


def test_folders_of_launches_that_wait_in_the_queue_are_left_alone() -> None:
    cluster = Cluster(waits(5), ["RUNNING"] + ["PENDING"] * 4)
    cluster.poll()
    looked = cluster.looked
    for _number in range(5):
        cluster.poll()
    assert cluster.looked == looked + 5
    cluster.now += IDLE
    assert len(cluster.waits.targets(cluster.now)) == 5


def test_each_event_belongs_to_its_launch_and_the_end_of_all_is_the_end() -> None:
    cluster = Cluster(waits(3), ["RUNNING", "PENDING", "RUNNING"])
    kinds = cluster.poll()
    assert (0, "started") in kinds and (2, "started") in kinds and (1, "pending") in kinds
    assert cluster.waits.summary() == "0 of 3 over, 2 running, 1 waiting"
    cluster.outcomes = {"0", "2"}
    while len(cluster.waits.left) > 1:
        cluster.poll()
    assert cluster.waits.jobs() == ["1"] and not cluster.waits.done
    cluster.states[1], cluster.outcomes = "RUNNING", {"1"}
    while not cluster.waits.done:
        cluster.poll()
    assert cluster.waits.summary() == "3 of 3 over" and cluster.waits.targets(cluster.now) == []


def launch(**more: Any) -> dict[str, Any]:
    base = {
        "name": "gpt", "key": "0123", "generation": 1, "job_id": "7", "standing": "running", "active": True,
        "slurm_state": "RUNNING", "completed": False, "success": False, "started_at": 100.0, "finished_at": None,
        "nodes": ["node01"], "attempt": 0, "message": "running on node01",
    }  # fmt: skip
    return {**base, **more}


def test_a_listing_has_the_active_ones_first_and_then_the_newest() -> None:
    over = {
        "active": False,
        "completed": True,
        "standing": "succeeded",
        "slurm_state": "COMPLETED",
        "success": True,
        "message": "proven",
    }
    found = [
        launch(name="old", finished_at=200.0, **over),
        launch(name="new", finished_at=300.0, **over),
        launch(
            name="run",
            attempt=1,
            journal=[{"event": "submitted", "time": 40.0}],
            progress={"step": 120, "total": 200, "loss": 0.30651, "seconds_left": 9.0},
        ),
        launch(name="hung", progress={"step": 4, "total": 9, "loss": None, "seconds_left": None, "step_age": 137.0}),
        launch(
            name="wait",
            standing="waiting",
            slurm_state="PENDING",
            started_at=None,
            nodes=[],
            message="pending: waiting",
            job_id=None,
        ),
    ]
    lines = listing(found, 160.0)
    assert lines[0].split() == list(HEAD)
    assert [line.split()[0] for line in lines[1:]] == ["run", "hung", "wait", "new", "old"]
    assert "1 min 00 s" in lines[1] and lines[1].endswith(
        "on node01, attempt 2, step 120/200, loss 0.3065, about 10 s left"
    )
    times = [moment(at, 160.0) for at in (40.0, 100.0)]
    assert lines.pop(2).endswith("step 4/9, last step 2 min 17 s ago")
    assert lines[1].split()[5:8] == [*times, "-"] and lines[2].split()[5:8] == ["-", "-", "-"]
    assert lines[3].split()[7] == moment(300.0, 160.0)
    assert lines[2].endswith("pending: waiting") and lines[3].endswith("proven")
    assert len({line.index(cell) for line, cell in zip(lines, ["standing", "running", "waiting"])}) == 1, "aligned"
    assert listing([], 0.0) == []


def test_times_and_lists_in_words() -> None:
    assert [duration(one) for one in (None, 42, 185, 7620)] == ["unknown", "42 s", "3 min 05 s", "2 h 07 min"]
    assert [about(one) for one in (3, 44, 720, 7620)] == [
        "about 10 s",
        "about 40 s",
        "about 12 min",
        "about 2 h 07 min",
    ]
    assert len(moment(1e9, 1e9 + 60)) == 5 and len(moment(1e9, 0)) == 16
    assert short_list(["a", "b"]) == "a, b" and short_list(list("abcdef")) == "a, b, c and 3 more"


def test_the_first_that_end_are_enough_whichever_they_are() -> None:
    cluster = Cluster(waits(4, first=2), ["RUNNING"] * 4)
    cluster.poll()
    cluster.outcomes = {"3"}
    while len(cluster.waits.left) > 3:
        cluster.poll()
    assert not cluster.waits.done
    cluster.outcomes |= {"1"}
    while not cluster.waits.done:
        cluster.poll()
    assert cluster.waits.left == [0, 2]


def test_one_launch_is_looked_at_when_it_is_silent_for_long_enough_and_many_are_not() -> None:
    one, two = waits(1), waits(2)
    for watch in (*one.watches, *two.watches):
        watch.silent_in = 2.0
    assert (one.delay(3.0), two.delay(3.0)) == (2.0, 12.0)
