# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.journal import Claim
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.lookup import SQUEUE_COLUMNS, JobRecord
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.watch import (
    CLOSING,
    HOPELESS_AFTER,
    SETTLE,
    LogChunk,
    Metrics,
    Poll,
    Target,
    View,
    Watch,
    parse_metrics,
    parse_poll,
    poll_script,
    printable,
    short_list,
)

MARKER = "@@mark"
RUN = "/state/runs/gpt/0123456789abcdef/1"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("step 10", Metrics(step=10)),
        ("step=10/100 loss=2.31", Metrics(10, 100, 2.31)),
        (
            " iteration       10/     100 | consumed samples: 160 | lm loss: 2.312345E+00 | loss scale: 1.0 |",
            Metrics(10, 100, 2.312345),
        ),
        ("Epoch 0:  10%| global_step=40, reduced_train_loss=2.3, train_step_timing in s=1.2", Metrics(40, None, 2.3)),
        ("{'loss': 2.31, 'grad_norm': 0.5, 'learning_rate': 5e-05, 'epoch': 0.1}", Metrics(None, None, 2.31)),
        ("step 7 loss 3.2 (1,812.5 tokens/s)", Metrics(7, None, 3.2, 1812.5)),
        ("step: 5 | loss: 4.1e+0 | tok/s: 12.5k", Metrics(5, None, 4.1, 12500.0)),
        ("step 5 tokens_per_second=88", Metrics(5, None, None, 88.0)),
        (" 12%|█▏        | 12/100 [00:03<00:21,  4.1it/s, loss=1.5]", Metrics(12, 100, 1.5)),
        ("val/loss: 0.25", Metrics(None, None, 0.25)),
        ("loading weights: 10 of 12", None),
        ("footstep 5", None),
        ("Loss scale: 4096", None),
        ("no data loss so far", None),
        ("the next step is hard", None),
        ("", None),
    ],
)
def test_numbers_of_progress(line: str, expected: Metrics | None) -> None:
    assert parse_metrics(line) == expected


def test_a_loss_that_is_not_a_number_is_still_news() -> None:
    found = parse_metrics("step 3 loss: nan")
    assert found is not None and found.loss != found.loss


@given(st.text())
def test_any_line_is_read(line: str) -> None:
    parse_metrics(line)
    assert "\n" not in printable(line) and "\x1b" not in printable(line)


def test_what_goes_to_the_screen_is_harmless_and_short() -> None:
    assert printable("\x1b[31mstep 1\x1b[0m\a\x00 loss\t2\r") == "step 1   loss 2"
    assert len(printable("x" * 10000)) == 200
    assert short_list(["a", "b", "c", "d"]) == "a, b, c, d"
    assert short_list([f"n{i}" for i in range(8)]) == "n0, n1, n2 and 5 more"
    assert short_list([]) == "none"


# -- the poll itself, by a real shell ----------------------------------------------------------------------------------


def shell(script: str, path: str = "") -> str:
    environment = {"PATH": f"{path}:{os.environ['PATH']}", "SQUEUE_FORMAT": "leaked", "SLURM_CONF": "/kept"}
    return subprocess.run(["/bin/sh", "-c", script], env=environment, capture_output=True, check=True).stdout.decode(
        "utf-8", "replace"
    )


def poll(target: Target, *, ask_queue: bool = False, log_bytes: int = 100, path: str = "") -> Poll:
    script = poll_script([target], marker=MARKER, ask_queue=ask_queue, log_bytes=log_bytes)
    return parse_poll(shell(script, path), 1, MARKER)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run directory in a folder that would break a shell line without quotes."""
    folder = tmp_path / "it's $(touch pwned) *" / "runs" / "gpt" / "0123456789abcdef" / "1"
    (folder / "logs" / "0").mkdir(parents=True)
    return folder


def test_a_poll_reads_what_the_job_wrote(run_dir: Path) -> None:
    (run_dir / "claim").write_text("1 lab 7\n")
    (run_dir / "started.json").write_text('{"job_id": "7", "attempt": 0, "nodes": ["node01"]}\n')
    (run_dir / "outcome.json").write_text('{"job_id": "7", "attempt": 0, "success": true}')
    (run_dir / "logs" / "0" / "rank-0000.log").write_bytes(b"step 1\nstep 2\npart")
    seen = poll(Target(str(run_dir), "7"))
    (view,) = seen.views
    assert seen.whole and not seen.asked and view.exists
    assert view.claim == Claim(1, "lab", "7")
    assert view.started == {"job_id": "7", "attempt": 0, "nodes": ["node01"]}
    assert view.outcome == {"job_id": "7", "attempt": 0, "success": True}
    assert view.log == LogChunk(0, 0, 18, "step 1\nstep 2\npart")
    assert not list(run_dir.parents[3].glob("**/pwned"))


def test_a_poll_moves_new_bytes_only_and_bounds_them(run_dir: Path) -> None:
    log = run_dir / "logs" / "0" / "rank-0000.log"
    log.write_bytes(b"0123456789")
    assert poll(Target(str(run_dir), "7", 0, 4)).views[0].log == LogChunk(0, 4, 10, "456789")
    assert poll(Target(str(run_dir), "7", 0, 10)).views[0].log == LogChunk(0, 10, 10, "")
    # Written anew, then flooded, then another attempt.
    assert poll(Target(str(run_dir), "7", 0, 99)).views[0].log == LogChunk(0, 0, 10, "0123456789")
    log.write_bytes(b"a" * 1000 + b"b" * 100)
    assert poll(Target(str(run_dir), "7", 0, 10)).views[0].log == LogChunk(0, 1000, 1100, "b" * 100)
    (run_dir / "logs" / "10").mkdir()
    (run_dir / "logs" / "10" / "rank-0000.log").write_bytes(b"new")
    assert poll(Target(str(run_dir), "7", 0, 1100)).views[0].log == LogChunk(10, 0, 3, "new")


def test_offsets_count_bytes_whatever_they_are(run_dir: Path) -> None:
    (run_dir / "logs" / "0" / "rank-0000.log").write_bytes(b"\xff\xfe\x00step 1\n" + "ü".encode())
    chunk = poll(Target(str(run_dir), "7")).views[0].log
    assert chunk is not None and chunk.size == 12
    assert "step 1" in chunk.text


def test_an_empty_or_missing_place_is_no_error(tmp_path: Path) -> None:
    assert poll(Target(str(tmp_path / "gone"), "7")).views == (View(),)
    assert poll(Target(str(tmp_path), "7")).views == (View(exists=True),)
    (tmp_path / "started.json").write_text("{ torn")
    assert poll(Target(str(tmp_path), "7")).views == (View(exists=True),)


def fake_squeue(folder: Path, body: str, rc: int = 0) -> str:
    program = folder / "squeue"
    (folder / "answer").write_text(body)
    program.write_text(
        f'#!/bin/sh\nenv > "{folder}/env"; echo "$@" > "{folder}/args"; cat "{folder}/answer"; exit {rc}\n'
    )
    program.chmod(0o755)
    return str(folder)


def row(job_id: str = "7", state: str = "RUNNING", **more: str) -> str:
    values = dict.fromkeys(SQUEUE_COLUMNS, "N/A") | {"JobArrayID": job_id, "State": state, "Name": "gpt.0.1"} | more
    return parse.FIELD.join(values.values()) + parse.RECORD + "\n"


def test_one_squeue_for_all_targets_in_a_clean_environment(tmp_path: Path) -> None:
    path = fake_squeue(tmp_path, row("7") + row("8", "PENDING", Reason="Priority"))
    targets = [Target("/none/1", "7"), Target("/none/2", "8"), Target("/none/3", "7")]
    output = shell(poll_script(targets, marker=MARKER, ask_queue=True), path)
    seen = parse_poll(output, 3, MARKER)
    assert seen.asked and not seen.silent and len(seen.views) == 3
    assert {key: record.state for key, record in seen.queue.items()} == {"7": "RUNNING", "8": "PENDING"}
    assert "--jobs=7,8" in (tmp_path / "args").read_text()
    environment = (tmp_path / "env").read_text()
    assert "leaked" not in environment and "SLURM_CONF=/kept" in environment
    assert "SLURM_TIME_FORMAT=%s" in environment and "LC_ALL=C" in environment


@pytest.mark.parametrize(
    ("body", "rc", "silent"),
    [
        ("slurm_load_jobs error: Invalid job id specified\n", 1, False),
        ("slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", 1, True),
        ("", 127, True),
        ("", 124, True),
    ],
)
def test_a_queue_without_an_answer_is_silent_not_empty(tmp_path: Path, body: str, rc: int, silent: bool) -> None:
    seen = poll(Target("/none", "7"), ask_queue=True, path=fake_squeue(tmp_path, body, rc))
    assert seen.asked and seen.queue == {}
    assert bool(seen.silent) == silent


def test_noise_of_a_wrapper_is_a_warning(tmp_path: Path) -> None:
    seen = poll(Target("/none", "7"), ask_queue=True, path=fake_squeue(tmp_path, "maintenance!\n" + row("7")))
    assert seen.queue["7"].state == "RUNNING"
    assert "maintenance!" in seen.warnings[0]


def test_an_answer_that_was_cut_short_is_not_believed(run_dir: Path) -> None:
    (run_dir / "outcome.json").write_text('{"success": true}')
    output = shell(poll_script([Target(str(run_dir), "7")], marker=MARKER, ask_queue=False))
    watch = Watch(RUN, "7")
    cut = parse_poll(output[: output.rindex(MARKER)], 1, MARKER)
    assert not cut.whole
    assert watch.feed(cut, 0.0) == [] and not watch.done


def test_a_terminal_between_does_no_harm(run_dir: Path) -> None:
    (run_dir / "started.json").write_text('{"attempt": 0}\n')
    output = shell(poll_script([Target(str(run_dir), "7")], marker=MARKER, ask_queue=False))
    assert parse_poll("banner\r\n" + output.replace("\n", "\r\n"), 1, MARKER).views[0].started == {"attempt": 0}


# -- the state machine -------------------------------------------------------------------------------------------------


def record(state: str = "RUNNING", **more: Any) -> JobRecord:
    return JobRecord(job_id=more.pop("job_id", "7"), name="gpt", state=state, **more)


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
    assert not watch.done
    assert watch.feed(seen(asked=False, started=STARTED, outcome=GOOD), 6.0) == []
    assert watch.done
    assert watch.metrics == Metrics(1, None, 3.0)


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
    assert kinds(watch, seen(record("REQUEUED"), started=STARTED, outcome=BAD), 1.0) == ["requeued"]
    for now in range(2, 3 * CLOSING):
        watch.feed(seen(record("PENDING", reason="BeginTime"), started=STARTED, outcome=BAD), float(now))
    assert not watch.done
    again = {**STARTED, "attempt": 1}
    (event,) = [e for e in watch.feed(seen(record(), started=again), 500.0) if e.kind == "started"]
    assert event.text.startswith("attempt 2 started")
    watch.feed(seen(asked=False, started=again, outcome={**GOOD, "attempt": 0}), 501.0)
    assert not watch.done, "an outcome of the attempt before decides nothing"
    watch.feed(seen(asked=False, started=again, outcome={**GOOD, "attempt": 1}), 502.0)
    assert watch.done


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


def test_polls_are_frequent_while_it_runs_and_squeue_is_rare() -> None:
    watch = Watch(RUN, "7", poll_min=0.5, poll_max=10)
    now, asked = 0.0, 0
    while now < 120:
        ask = watch.ask_queue(now)
        asked += ask
        watch.feed(seen(record(), started=STARTED) if ask else seen(asked=False, started=STARTED), now)
        assert watch.delay() <= 1.0
        now += watch.delay()
    assert asked <= 20
    assert watch.delay(round_trip=2.0) == 8.0


def test_polls_slow_down_while_it_is_pending() -> None:
    watch = Watch(RUN, "7", poll_min=0.5, poll_max=10)
    pending = seen(record("PENDING", reason="Priority"))
    watch.feed(pending, 0.0)
    assert watch.delay() == 0.5
    for now in range(1, 60):
        watch.feed(pending, float(now))
    assert watch.delay() == 5.0
    capped = Watch(RUN, "7", poll_min=0.1, poll_max=0.2)
    for now in range(20):
        capped.feed(pending, float(now))
    assert capped.delay() == 0.2
