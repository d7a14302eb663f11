# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wait ends within a minute of the end of its job, also where no outcome comes or Slurm cannot close the job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.run.documents import Outcome
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.ends import LEAST
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.launch import CLOSING, UNSEEN, Watch
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.poll import Poll, Request, View
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.remote_poll import answer

RUN = "/state/runs/gpt/0123456789abcdef/1"
STARTED = {"job_id": "7", "attempt": 0, "nodes": ["node01"], "world_size": 1}
FAILED = Outcome(job_id="7", attempt=0, success=False)
#: The cluster's time (epoch seconds) when a wait begins, and how late (seconds) a wait for nothing may end.
EPOCH, LATE = 1_800_000_000.0, 60.0
#: The module that is asked after the last poll takes so many of these seconds on a busy controller.
LAST_LOOK = 15.0


class Story:
    """A job that runs, ends at `end` seconds of the wait, completes until `closed`, and leaves `outcome` at its end.

    `ahead`: by how much (seconds) the clock of the host that is asked is ahead of Slurm's. `silent`: the times between
    which Slurm does not answer.
    """

    def __init__(
        self, end: float, closed: float, ahead: float = 0.0, silent: tuple[float, float] = (0, 0),
        outcome: Outcome | None = None,
    ) -> None:  # fmt: skip
        self.end, self.closed, self.ahead, self.silent, self.outcome = end, closed, ahead, silent, outcome
        self.watch = Watch(RUN, "7", outcome_grace=40)

    def poll(self, now: float) -> Poll:
        more: dict[str, Any] = {"start": EPOCH - 100}
        state = "RUNNING" if now < self.end else "COMPLETING"
        if now >= self.closed:
            state, more = "FAILED", {**more, "end": EPOCH + self.end}
        record = JobRecord("7", "gpt.0123456789abcdef.1", state, **more)
        clock = EPOCH + now + self.ahead
        view = View(exists=True, started=STARTED, outcome=self.outcome if now >= self.end else None)
        if self.silent[0] <= now < self.silent[1]:
            return Poll(True, True, "no answer", {}, (view,), clock=clock)
        return Poll(True, True, "", {"7": record}, (view,), clock=clock)

    def over(self) -> float:
        """When the wait ends, in seconds, where it asks at most every ten seconds."""
        now = 0.0
        while now < 10_000:
            poll = self.poll(now) if self.watch.ask_queue(now) else replace(self.poll(now), asked=False, queue={})
            self.watch.feed(poll, now)
            if self.watch.done:
                return now
            now += self.watch.delay()
        raise AssertionError("it did not end")


@pytest.mark.parametrize("ahead", [0.0, -20.0, 20.0])
def test_a_job_that_completes_for_long_is_not_waited_for_the_longer(ahead: float) -> None:
    """Slurm kills for up to a minute what a job has left, and counts the job as ended since before that."""
    story = Story(end=100.0, closed=147.0, ahead=ahead)
    assert story.closed + LEAST <= story.over() <= story.end + LATE + max(0.0, -ahead)


@pytest.mark.parametrize("silent", [(0, 0), (100.0, 1000.0)], ids=["completes", "no answer"])
def test_a_failure_that_slurm_does_not_close_is_waited_for_less_than_a_minute(silent: tuple[float, float]) -> None:
    """Slurm closes a job once it has heard of its nodes, and one that is lost says nothing."""
    story = Story(end=100.0, closed=1000.0, silent=silent, outcome=FAILED)
    assert story.end + 30.0 <= story.over() <= story.end + LATE - LAST_LOOK


def test_a_job_that_ended_while_slurm_was_silent_is_waited_for_from_its_end() -> None:
    story = Story(end=100.0, closed=101.0, silent=(99.0, 130.0))
    assert story.end + 40.0 <= story.over() <= story.end + LATE


@pytest.mark.parametrize("ahead", [86400.0, -7200.0])
def test_a_wrong_clock_neither_shortens_a_wait_nor_makes_it_last(ahead: float) -> None:
    """The job was alive at the look before, so it ended between the two looks, whatever a clock says."""
    story = Story(end=100.0, closed=100.0, ahead=ahead)
    assert story.end + 40.0 - 10.0 <= story.over() <= story.end + LATE


def test_what_ended_long_before_the_wait_is_still_looked_for() -> None:
    """A network file system may hide the outcome from this host, which has not looked before."""
    story = Story(end=-3600.0, closed=-3600.0)
    assert LEAST <= story.over() <= LEAST + 2.0


def test_a_requeue_begins_anew() -> None:
    story = Story(end=0.0, closed=0.0)
    story.watch.feed(story.poll(5.0), 5.0)
    story.end = story.closed = 300.0
    story.watch.feed(story.poll(6.0), 6.0)
    assert story.over() >= 300.0 + 30.0


def closed(written: float, looks: Sequence[float], ahead: float = 0.0) -> float:
    """When a wait ends whose job has failed and said so `written` seconds after its beginning, if Slurm says nothing.

    `looks`: when the wait looked before that.
    """
    watch = Watch(RUN, "7")
    outcome = Outcome(job_id="7", attempt=0, success=False, time=EPOCH + written)
    for now in [*looks, *range(200, 400)]:
        view = View(exists=True, started=STARTED, outcome=outcome if now >= 200 else None)
        watch.feed(Poll(True, True, "no answer", {}, (view,), clock=EPOCH + now + ahead), now)
        if watch.done:
            return now
    raise AssertionError("it did not end")


@pytest.mark.parametrize(("written", "looks", "ahead", "least"), [
    (190.0, (), 0.0, 190 + CLOSING),
    (100.0, (), 0.0, 200 + LEAST),
    (190.0, (195.0,), 86400.0, 195 + CLOSING),
    (190.0, (150.0,), -7200.0, 200 + CLOSING),
])  # fmt: skip
def test_slurm_s_silence_counts_from_when_the_job_said_how_it_ended(
    written: float, looks: Sequence[float], ahead: float, least: float
) -> None:
    assert closed(written, looks, ahead) == least


@pytest.mark.parametrize(("start", "before", "told"), [
    (-10.0, None, UNSEEN - 10),
    (-3600.0, None, LEAST),
    (-3600.0, "CONFIGURING", UNSEEN - 1),
    (None, None, UNSEEN),
])  # fmt: skip
def test_a_job_without_a_trace_is_told_so_long_after_its_start(
    start: float | None, before: str | None, told: float
) -> None:
    """Slurm counts a job as started while its nodes are prepared: the wait has seen that."""
    watch = Watch(RUN, "7")
    begun = None if start is None else EPOCH + start
    said = []
    for now in range(-1 if before else 0, 60):
        record = JobRecord("7", "gpt.0123456789abcdef.1", before if before and now < 0 else "RUNNING", start=begun)
        poll = Poll(True, True, "", {"7": record}, (View(exists=True),), clock=EPOCH + now)
        said += [now for event in watch.feed(poll, float(now)) if event.kind == "silent"]
    assert said == [told]


def test_the_controllers_clock_is_not_asked() -> None:
    """The expected start of a waiting job is told by the cluster's clock."""
    record = JobRecord("7", "gpt.0123456789abcdef.1", "PENDING", reason="Priority", start=EPOCH + 600)
    watch = Watch(RUN, "7")
    (event,) = watch.feed(Poll(True, True, "", {"7": record}, (View(exists=True),), clock=EPOCH), 0.0)
    assert "in about 10 min" in event.text


def test_a_poll_says_the_time_of_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: EPOCH)
    said = Poll.of(answer(Request(())).as_dict())
    assert said.clock == EPOCH
