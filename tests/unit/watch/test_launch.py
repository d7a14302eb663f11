# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state machine of a wait, poll by poll."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import Metrics
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import Claim
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.launch import (
    CLOSING,
    HOPELESS_AFTER,
    SETTLE,
    Watch,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.poll import LogChunk, Poll, Target, View
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.schedule import SPENT

RUN = "/state/runs/gpt/0123456789abcdef/1"


def record(state: str = "RUNNING", **more: Any) -> JobRecord:
    name = more.pop("name", "gpt.0123456789abcdef.1")
    return JobRecord(job_id=more.pop("job_id", "7"), name=name, state=state, **more)


def seen(*records: JobRecord, asked: bool = True, silent: str = "", **view: Any) -> Poll:
    return Poll(True, asked, silent, {one.job_id: one for one in records}, (View(exists=True, **view),))


STARTED = {"job_id": "7", "attempt": 0, "nodes": ["node01", "node02"], "world_size": 4}
GOOD = {"job_id": "7", "attempt": 0, "success": True}
BAD = {"job_id": "7", "attempt": 0, "success": False}


def kinds(watch: Watch, poll: Poll, now: float) -> list[str]:
    return [event.kind for event in watch.feed(poll, now)]


def test_the_life_of_a_launch_in_words() -> None:
    watch = Watch(RUN, "7")
    (event,) = watch.feed(seen(record("PENDING", reason="Resources")), 0.0)
    assert event.kind == "pending" and "free nodes" in event.text
    assert watch.feed(seen(record("PENDING", reason="Resources")), 1.0) == [], "said once"
    assert kinds(watch, seen(record("PENDING", reason="Priority")), 2.0) == ["pending"]
    assert kinds(watch, seen(record(node_list="node[01-02]")), 3.0) == ["queued"]
    (event,) = watch.feed(seen(asked=False, started=STARTED), 4.0)
    assert event.text == "started on 2 nodes (node01, node02), 4 ranks"
    (event,) = watch.feed(seen(asked=False, started=STARTED, log=LogChunk(0, 0, 14, "step 1 loss 3\n")), 5.0)
    assert (event.kind, event.text) == ("metrics", "step 1 loss 3")
    watch.feed(seen(asked=False, started=STARTED, log=LogChunk(0, 14, 24, "loss 2.5\n")), 5.5)
    assert watch.metrics == Metrics(1, None, 2.5), "a line without a step leaves the step as it was"
    assert not watch.done
    assert watch.feed(seen(asked=False, started=STARTED, outcome=GOOD), 6.0) == []
    assert watch.done
    watch.feed(seen(asked=False, started={**STARTED, "attempt": 1}), 7.0)
    assert watch.metrics is None, "the steps of an attempt are not those of the next one"


def test_of_the_lines_of_one_look_the_last_one_with_a_step_is_shown() -> None:
    watch = Watch(RUN, "7")
    watch.feed(seen(record(), started=STARTED), 0.0)
    log = "loss 9\nstep 1/2 loss 3\nstep 2/2 loss 2\nresult loss 1.5\n"
    (event,) = watch.feed(seen(asked=False, started=STARTED, log=LogChunk(0, 0, len(log), log), outcome=GOOD), 1.0)
    assert (event.kind, event.text) == ("metrics", "step 2/2 loss 2")
    assert watch.metrics == Metrics(2, 2, 1.5)


def test_a_job_that_slurm_has_not_considered_yet_is_queued_without_a_reason() -> None:
    watch = Watch(RUN, "7")
    assert watch.feed(seen(record("PENDING", reason="None")), 0.0) == []
    (event,) = watch.feed(seen(record("PENDING", reason="None")), 9.0)
    assert "not considered it yet" in event.text


def test_until_started() -> None:
    watch = Watch(RUN, "7", until="started")
    watch.feed(seen(record()), 0.0)
    assert not watch.done, "Slurm's word alone does not start the ranks"
    watch.feed(seen(asked=False, started=STARTED), 1.0)
    assert watch.done


def test_until_started_ends_with_the_job() -> None:
    watch = Watch(RUN, "7", until="started")
    watch.feed(seen(record("CANCELLED", start=None)), 0.0)
    assert watch.done


def test_a_failure_waits_for_slurm_to_agree() -> None:
    watch = Watch(RUN, "7")
    watch.feed(seen(record(), started=STARTED), 0.0)
    watch.feed(seen(asked=False, started=STARTED, outcome=BAD), 1.0)
    assert not watch.done and watch.ask_queue(1.0)
    watch.feed(seen(record("COMPLETING"), started=STARTED, outcome=BAD), 2.0)
    assert not watch.done
    watch.feed(seen(record("FAILED"), started=STARTED, outcome=BAD), 3.0)
    assert watch.done


def test_a_failure_that_slurm_requeues_is_not_the_end() -> None:
    watch = Watch(RUN, "7")
    watch.feed(seen(record(), started=STARTED), 0.0)
    assert kinds(watch, seen(record("REQUEUED", restarts=1), started=STARTED, outcome=BAD), 1.0) == ["requeued"]
    for now in range(2, 3 * CLOSING):
        watch.feed(seen(record("PENDING", reason="BeginTime"), started=STARTED, outcome=BAD), float(now))
    assert not watch.done
    again = {**STARTED, "attempt": 1}
    (event,) = [e for e in watch.feed(seen(record(), started=again), 500.0) if e.kind == "started"]
    assert event.text.startswith("attempt 2 started")
    watch.feed(seen(asked=False, started=again, outcome=BAD), 501.0)
    assert not watch.done, "a failure of the attempt before decides nothing"
    watch.feed(seen(asked=False, started=again, outcome={**GOOD, "attempt": 1}), 502.0)
    assert watch.done


def test_a_proof_of_an_older_attempt_ends_the_wait() -> None:
    watch = Watch(RUN, "7")
    watch.feed(seen(record(), started={**STARTED, "attempt": 1}), 0.0)
    watch.feed(seen(asked=False, started={**STARTED, "attempt": 1}, outcome={**GOOD, "attempt": 0}), 1.0)
    assert watch.done and watch.ended


def test_a_requeue_is_told_once_whether_or_not_the_queue_was_asked_while_the_job_ran() -> None:
    watch = Watch(RUN, "7")
    waits = {"reason": "BeginTime", "restarts": 1}
    assert kinds(watch, seen(asked=False, started=STARTED), 0.0) == ["started"]
    assert kinds(watch, seen(record("PENDING", **waits), started=STARTED), 1.0) == ["requeued", "pending"]
    assert kinds(watch, seen(record("PENDING", **waits), started=STARTED), 2.0) == []
    assert kinds(watch, seen(record(restarts=1), started={**STARTED, "attempt": 1}), 3.0) == ["started"]
    assert kinds(watch, seen(record("PENDING", reason="BeginTime", restarts=2)), 4.0) == ["requeued", "pending"]
    assert kinds(Watch(RUN, "7"), seen(record("PENDING", reason="BeginTime", restarts=0)), 0.0) == ["pending"]


def test_a_requeue_whose_restart_slurm_counts_later_is_told_once() -> None:
    """As `scontrol requeuehold` does it."""
    watch, held = Watch(RUN, "7"), {"reason": "job_requeued_in_held_state", "restarts": 0}
    assert kinds(watch, seen(record(restarts=0), started=STARTED), 0.0) == ["started"]
    assert kinds(watch, seen(record("PENDING", **held), started=STARTED), 1.0) == ["requeued", "stuck"]
    assert kinds(watch, seen(record("PENDING", **held), started=STARTED), 2.0) == []
    assert "requeued" not in kinds(watch, seen(record(restarts=1)), 3.0)


def test_a_requeue_is_told_where_the_queue_was_not_asked_while_the_job_waited() -> None:
    """Once, and before the start that follows it. A start that the files have told of already says enough."""
    watch, again = Watch(RUN, "7"), {**STARTED, "attempt": 1}
    assert kinds(watch, seen(record(), started=STARTED), 0.0) == ["started"]
    assert kinds(watch, seen(record(restarts=1), started=again), 1.0) == ["requeued", "started"]
    assert kinds(watch, seen(record(restarts=2)), 2.0) == ["requeued"], "the third attempt is being set up"
    third = {**STARTED, "attempt": 2}
    assert kinds(watch, seen(asked=False, started=third), 3.0) == ["started"]
    assert kinds(watch, seen(record(restarts=None), started=third), 4.0) == []
    assert kinds(watch, seen(asked=False, started={**STARTED, "attempt": 3}), 5.0) == ["started"]
    assert kinds(watch, seen(record(restarts=3), started={**STARTED, "attempt": 3}), 6.0) == []
    assert kinds(Watch(RUN, "7"), seen(record(restarts=1), started=again), 0.0) == ["started"], "what was before"


def test_an_end_that_may_become_a_requeue_must_stay() -> None:
    watch = Watch(RUN, "7", outcome_grace=0)
    watch.feed(seen(record("NODE_FAIL"), started=STARTED), 0.0)
    assert not watch.done
    watch.feed(seen(record("PENDING", reason="BeginTime"), started=STARTED), SETTLE - 1.0)
    watch.feed(seen(record("NODE_FAIL"), started=STARTED), SETTLE + 1.0)
    assert not watch.done, "the count began anew"
    watch.feed(seen(record("NODE_FAIL"), started=STARTED), 2 * SETTLE + 1.0)
    assert watch.done


def test_an_outcome_may_be_late_on_a_network_file_system() -> None:
    watch = Watch(RUN, "7", outcome_grace=40)
    watch.feed(seen(record("COMPLETED", start=1.0, end=9.0), started=STARTED), 0.0)
    watch.feed(seen(asked=False, started=STARTED), 39.0)
    assert not watch.done
    watch.feed(seen(asked=False, started=STARTED), 40.0)
    assert watch.done


def test_a_job_cancelled_in_the_queue_leaves_nothing_to_wait_for() -> None:
    watch = Watch(RUN, "7")
    watch.feed(seen(record("CANCELLED", start=5.0, end=5.0)), 0.0)
    assert watch.done


def test_a_job_whose_log_slurm_could_not_open_leaves_nothing_to_wait_for() -> None:
    watch = Watch(RUN, "7")
    watch.feed(seen(record("FAILED", start=5.0, end=6.0, exit_code=15, signal=53)), 0.0)
    assert watch.done
    for begun in ({"started": STARTED}, {"claim": Claim(1, "lab", "7")}):
        watch = Watch(RUN, "7")
        watch.feed(seen(record("FAILED", start=5.0, end=6.0, exit_code=15, signal=53), **begun), 0.0)
        assert not watch.done, "its script ran, so its outcome may still appear"


def test_a_job_that_leaves_no_trace_is_told_once() -> None:
    """Its nodes have another folder of that name. A job that is prepared, or leaves a trace, is not suspected."""
    watch = Watch(RUN, "7")
    events = [event for now in range(100) for event in watch.feed(seen(record(node_list="node[01-02]")), float(now))]
    assert [event.kind for event in events] == ["queued", "silent"]
    assert "30 s on node[01-02]" in events[1].text and "launch_cluster.state_root" in events[1].text
    for view in ({"claim": Claim(1, "lab", "7")}, {"started": STARTED}):
        watch = Watch(RUN, "7")
        assert "silent" not in [kind for now in range(100) for kind in kinds(watch, seen(record(), **view), float(now))]
    watch = Watch(RUN, "7")
    assert kinds(watch, seen(record("CONFIGURING")), 0.0) + kinds(watch, seen(record("CONFIGURING")), 99.0) == [
        "queued"
    ]


def test_on_a_disk_of_the_host_a_job_without_a_trace_is_told_sooner_and_not_waited_for() -> None:
    """There, what the nodes write is seen at once: nothing of an ended job can still appear."""
    watch = Watch(RUN, "7")
    running = [(now, e.kind) for now in range(20) for e in watch.feed(seen(record(), local=True), float(now))]
    assert running == [(0, "queued"), (10, "silent")]
    for local, waited in ((True, SETTLE), (False, 40.0)):
        watch = Watch(RUN, "7", outcome_grace=40)
        watch.feed(seen(record("FAILED", start=5.0, end=6.0, exit_code=78), local=local), 0.0)
        watch.feed(seen(asked=False, local=local), waited - 1.0)
        assert not watch.done
        watch.feed(seen(asked=False, local=local), waited)
        assert watch.done


def test_one_empty_answer_is_not_gone() -> None:
    watch = Watch(RUN, "7", outcome_grace=10)
    watch.feed(seen(record(), started=STARTED), 0.0)
    watch.feed(seen(started=STARTED), 1.0)
    watch.feed(seen(record(), started=STARTED), 2.0)
    watch.feed(seen(started=STARTED), 3.0)
    watch.feed(seen(started=STARTED), 12.0)
    assert not watch.done
    watch.feed(seen(started=STARTED), 13.0)
    assert watch.done


def test_a_silent_slurmctld_is_told_once_and_ends_nothing() -> None:
    watch = Watch(RUN, "7", outcome_grace=1)
    (event,) = watch.feed(seen(silent="Unable to contact slurm controller"), 0.0)
    assert event.kind == "silent" and "the job is not affected" in event.text
    for now in range(1, 1000):
        assert watch.feed(seen(silent="Unable to contact slurm controller"), float(now)) == []
    assert not watch.done
    assert kinds(watch, seen(record()), 1000.0) == ["answered", "queued"]


def test_a_failure_while_slurm_is_silent_ends_after_a_bounded_time() -> None:
    watch = Watch(RUN, "7")
    watch.feed(seen(silent="x", started=STARTED, outcome=BAD), 0.0)
    watch.feed(seen(silent="x", started=STARTED, outcome=BAD), CLOSING - 1.0)
    assert not watch.done
    watch.feed(seen(silent="x", started=STARTED, outcome=BAD), CLOSING + 1.0)
    assert watch.done


def test_the_owner_of_the_claim_is_followed() -> None:
    watch = Watch(RUN, "8")
    watch.feed(seen(record("COMPLETED", job_id="8"), outcome=None), 0.0)
    (event,) = watch.feed(seen(record(), claim=Claim(1, "lab", "7"), asked=False), 1.0)
    assert event.kind == "followed" and "job 7 owns this launch" in event.text
    assert watch.job_id == "7" and watch.target().job_id == "7" and watch.ask_queue(1.0)
    assert not watch.done


def test_what_can_never_start_is_given_up_and_a_hold_is_not() -> None:
    never = seen(record("PENDING", reason="DependencyNeverSatisfied"))
    watch = Watch(RUN, "7")
    (event,) = watch.feed(never, 0.0)
    assert event.kind == "stuck" and "will not start by itself" in event.text
    watch.feed(never, HOPELESS_AFTER - 1.0)
    assert not watch.done
    watch.feed(never, HOPELESS_AFTER + 0.0)
    assert watch.done and watch.hopeless is not None and watch.hopeless.code == "DependencyNeverSatisfied"

    held = seen(record("PENDING", reason="JobHeldUser"))
    watch = Watch(RUN, "7")
    assert kinds(watch, held, 0.0) == ["stuck"]
    watch.feed(held, 9999.0)
    assert not watch.done


def test_lines_torn_between_polls_are_joined_and_attempts_are_not() -> None:
    watch = Watch(RUN, "7")
    watch.feed(seen(asked=False, log=LogChunk(0, 0, 10, "step 1\nste")), 0.0)
    assert watch.target() == Target(RUN, "7", 0, 10)
    (event,) = watch.feed(seen(asked=False, log=LogChunk(0, 10, 24, "p 2 loss 1.5\nx")), 1.0)
    assert event.text == "step 2 loss 1.5"
    assert watch.feed(seen(asked=False, log=LogChunk(1, 0, 9, " step 9\rn")), 2.0)[0].text == "step 9"


def test_the_first_line_of_a_skipped_part_is_not_trusted() -> None:
    watch = Watch(RUN, "7")
    assert watch.feed(seen(asked=False, log=LogChunk(0, 500, 520, "step 12\n")), 0.0) == []


def test_looks_and_squeue_become_rare_while_it_runs() -> None:
    watch = Watch(RUN, "7", poll_min=0.5, poll_max=10)
    now, asked = 0.0, 0
    while now < 120:
        ask = watch.ask_queue(now)
        asked += ask
        watch.feed(seen(record(), started=STARTED) if ask else seen(asked=False, started=STARTED), now)
        now += watch.delay()
        assert now > 60 or watch.delay() <= 5.0, "somebody watches"
    assert watch.delay() == 10.0 and asked <= 20
    watch.feed(seen(asked=False, started=STARTED, outcome={"attempt": 0, "success": False}), now)
    assert watch.delay() == 1.0, "it may be over"
    assert watch.delay(round_trip=2.0) == 8.0


def test_polls_slow_down_while_it_is_pending() -> None:
    watch = Watch(RUN, "7", poll_min=0.5, poll_max=10)
    pending = seen(record("PENDING", reason="Priority"))
    watch.feed(pending, 0.0)
    assert watch.delay() == 0.5
    for now in range(1, 60):
        watch.feed(pending, float(now))
    assert watch.delay() == 5.0
    watch.feed(pending, 60.0)
    assert watch.delay() == 10.0
    capped = Watch(RUN, "7", poll_min=0.1, poll_max=0.2)
    for now in range(20):
        capped.feed(pending, float(now))
    assert capped.delay() == 0.2


def test_when_slurm_expects_it_to_start_is_told_and_told_again_when_it_moves() -> None:
    watch = Watch(RUN, "7")
    wall = 1_700_000_000.0

    def texts(start: float | None, now: float) -> list[str]:
        poll = seen(record("PENDING", reason="Resources", start=start))
        return [event.text for event in watch.feed(poll, now, wall=wall + now)]

    (text,) = texts(None, 0.0)
    assert "expects" not in text
    (text,) = texts(wall + 1800, 1.0)
    assert text.startswith("pending; Slurm expects it to start at ") and text.endswith(", in about 30 min")
    assert texts(wall + 1900, 2.0) == [], "nearly the same"
    (text,) = texts(wall + 6003, 3.0)
    assert text.endswith(", in about 1 h 40 min")
    assert texts(wall - 5, 4.0) == [], "what is past is no expectation"


def test_the_pace_of_the_steps_says_when_they_will_be_done() -> None:
    watch = Watch(RUN, "7")

    def line(step: int, now: float) -> tuple[str, float | None]:
        chunk = LogChunk(0, watch._offset, watch._offset + 1, f"step {step}/100 loss 3\n")
        (event,) = watch.feed(seen(asked=False, log=chunk), now)
        return event.text, event.fraction

    watch.feed(seen(record(), started=STARTED), 0.0)
    assert line(10, 1.0) == ("step 10/100 loss 3", 0.1)
    assert line(20, 5.0) == ("step 20/100 loss 3", 0.2), "too early to tell"
    assert line(30, 21.0) == ("step 30/100 loss 3 (about 70 s left)", 0.3)
    assert line(100, 91.0) == ("step 100/100 loss 3", 1.0)
    # A restart counts anew.
    assert line(10, 95.0) == ("step 10/100 loss 3", 0.1)


def test_until_a_line_matches() -> None:
    watch = Watch(RUN, "7", until="pattern", pattern=re.compile(r"saved checkpoint at (\d+)"))
    assert watch.target().whole
    watch.feed(seen(record(), started=STARTED, log=LogChunk(0, 0, 20, "step 1\nsaved check")), 0.0)
    assert not watch.done
    (event,) = watch.feed(seen(asked=False, started=STARTED, log=LogChunk(0, 20, 40, "point at 7\n")), 1.0)
    assert (event.kind, event.text) == ("matched", "the log says: saved checkpoint at 7")
    assert watch.done and not watch.ended and watch.matched == "saved checkpoint at 7"


def test_a_launch_that_is_over_is_read_to_the_end_of_its_log() -> None:
    watch = Watch(RUN, "7", until="pattern", pattern=re.compile("never"))
    watch.feed(seen(record("COMPLETED"), started=STARTED, outcome=GOOD, log=LogChunk(0, 0, 5, "more\n")), 0.0)
    assert not watch.done
    watch.feed(seen(record("COMPLETED"), started=STARTED, outcome=GOOD, log=LogChunk(0, 5, 5, "")), 1.0)
    assert watch.done and watch.ended and watch.matched is None


def test_until_the_artifact_is_valid() -> None:
    watch = Watch(RUN, "7", until="artifact", artifact="/run/work/result.json")
    assert watch.target().artifact == "/run/work/result.json"
    watch.feed(seen(record(), started=STARTED), 0.0)
    assert not watch.done
    assert kinds(watch, seen(asked=False, started=STARTED, proven=True), 1.0) == ["proven"]
    assert watch.done and not watch.ended and watch.target().artifact == ""


def test_a_spent_budget_is_asked_for_again_later() -> None:
    watch = Watch(RUN, "7")
    watch.feed(Poll(True, asked=False, views=(View(exists=True, started=STARTED),), spent=True), 0.0)
    assert not watch.ask_queue(SPENT - 1) and watch.ask_queue(SPENT)
