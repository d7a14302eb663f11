# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which events of a launch are due, and what is said of each; the list of launches that a timer reads."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.explain import diagnose
from ansible_collections.rankzero.slurm.plugins.module_utils.notify import deliver, due
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import NOTIFY_SPEC
from ansible_collections.rankzero.slurm.plugins.module_utils.watch import pace
from ansible_collections.rankzero.slurm.plugins.modules import job_notify
from tests.receiver import Receiver
from tests.unit.run.test_launches import KEY, NOW, SUBMITTED, make_run, outcome, queue, started
from tests.unit.slurm.recorded import FakeSlurm
from tests.writers import Run

EVERYTHING = ["started", "first_step", "stalled", "failed", "proven"]
RUNNING = {"StartTime": str(int(NOW) - 91)}
ENDED = {**RUNNING, "EndTime": str(int(NOW) - 9)}
STEPS = "step 10/100 loss 2.5 1.0 s/step\nstep 20/100 loss 2.25 1.0 s/step\n"
LAST = "step 100/100 loss 2.0 1.0 s/step\n"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().running() as running:
        yield running


def launch(root: Path, log: str = "", age: float = 1.0, **files: Any) -> Path:
    receivers = [{"url_env": "RANKZERO_NOTIFY_X", "format": "json", "events": EVERYTHING}]
    run = make_run(root, *SUBMITTED, claim="1 lab 7\n", notify_json={"receivers": receivers}, **files)
    if log:
        (run / "logs" / "0").mkdir(exist_ok=True)
        path = run / "logs" / "0" / "rank-0000.log"
        path.write_text(log, encoding="utf-8")
        os.utime(path, (NOW - age, NOW - age))
    (root / "notify").mkdir()
    (root / "notify" / f"gpt.{KEY}.1").touch()
    return run


def tell(run: Path, fake: FakeSlurm, url: str = "", **more: Any) -> dict[str, Any]:
    sender = due.Sender({"RANKZERO_NOTIFY_X": url} if url else {}, now=NOW, **more)
    return due.send_due(fake.slurm(), [RunDirectory(str(run))], sender)


def entries(root: Path) -> list[str]:
    return os.listdir(root / "notify")


def test_a_launch_from_its_start_to_its_proof(tmp_path: Path, receiver: Receiver) -> None:
    run = launch(tmp_path)
    assert tell(run, queue("PENDING"), receiver.url)["messages"] == [] and not receiver.posts
    started(world_size=4)(Run(run))
    assert tell(run, queue("RUNNING", **RUNNING), receiver.url)["changed"] is True
    assert tell(run, queue("RUNNING", **RUNNING), receiver.url) == {
        "changed": False, "messages": [], "left": 1, "untrusted": {}
    }  # fmt: skip
    (run / "logs" / "0").mkdir(exist_ok=True)
    (run / "logs" / "0" / "rank-0000.log").write_text(STEPS, encoding="utf-8")
    tell(run, queue("RUNNING", **RUNNING), receiver.url)
    outcome()(Run(run))
    assert entries(tmp_path) == [f"gpt.{KEY}.1"]
    assert tell(run, queue("COMPLETED", **ENDED), receiver.url)["left"] == 0
    assert entries(tmp_path) == [], "nothing is left to tell"
    assert receiver.events() == ["started", "first_step", "proven"]
    texts = [body["text"].splitlines()[:-1] for _path, _headers, body in receiver.posts]
    assert texts == [
        ["on node01, node02, 4 ranks"],
        ["step 20, loss 2.25"],
        ["the artifact is proven; the program ended with exit code 0 after 1 min 22 s", "loss 1.5"],
    ]
    assert receiver.posts[2][2]["values"] == {"loss": 1.5}


def test_a_late_timer_tells_all_of_it_in_its_order(tmp_path: Path, receiver: Receiver) -> None:
    run = launch(tmp_path, STEPS, started_json=started(), outcome_json=outcome())
    tell(run, queue("COMPLETED", **ENDED), receiver.url)
    assert receiver.events() == ["started", "first_step", "proven"]


def test_a_failure_comes_with_its_cause(tmp_path: Path, receiver: Receiver) -> None:
    log = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity\n"
    run = launch(tmp_path, log, started_json=started(), outcome_json=outcome(False))
    result = tell(run, queue("FAILED", exit_code="768", Reason="NonZeroExitCode", **ENDED), receiver.url)
    assert [message["state"] for message in result["messages"]] == ["sent", "sent"]
    assert receiver.events() == ["started", "failed"]
    body = receiver.posts[1][2]
    assert body["cause"]["family"] == "cuda_oom" and body["cause"]["what"] in body["text"]
    assert "exit code 3" in body["message"]
    assert not (run / "diagnosis.json").exists(), "that is for a diagnosis with the site's own families"


def test_a_failure_without_a_cause_says_how_the_job_ended(tmp_path: Path, receiver: Receiver) -> None:
    run = launch(tmp_path, started_json=started(), outcome_json=outcome(False, message="the node ate it"))
    tell(run, queue("FAILED", **ENDED), receiver.url)
    assert "the node ate it" in receiver.posts[1][2]["text"]


def test_a_run_that_stands_still(tmp_path: Path, receiver: Receiver) -> None:
    """No step for 80 seconds, where a step takes one."""
    run = launch(tmp_path, STEPS, 80.0, started_json=started())
    tell(run, queue("RUNNING", **RUNNING), receiver.url)
    tell(run, queue("RUNNING", **RUNNING), receiver.url)
    assert receiver.events() == ["started", "first_step", "stalled"]
    assert receiver.posts[2][2]["text"].startswith("no step for 80 s, 80 times the median step of 1 s")


def test_a_run_that_is_silent_from_its_start(tmp_path: Path, receiver: Receiver) -> None:
    run = launch(tmp_path, "loading\n", 320.0, started_json=started())
    record = queue("RUNNING", StartTime=str(int(NOW) - 400))
    tell(run, record, receiver.url)
    assert receiver.posts[1][2]["text"].startswith("no line in its log for 5 min 20 s")


@pytest.mark.parametrize(("quiet", "told"), [(80.0, False), (320.0, True)])
def test_a_run_that_has_made_its_last_step_saves_its_model_for_a_while(
    tmp_path: Path, receiver: Receiver, quiet: float, told: bool
) -> None:
    run = launch(tmp_path, STEPS + LAST, quiet, started_json=started())
    tell(run, queue("RUNNING", StartTime=str(int(NOW) - 400)), receiver.url)
    assert ("stalled" in receiver.events()) == told
    assert not told or receiver.posts[2][2]["text"].startswith("no line in its log for 5 min 20 s")


def test_a_run_at_work_does_not_stand_still_and_a_wait_may_know_better(tmp_path: Path, receiver: Receiver) -> None:
    run = launch(tmp_path, STEPS, 2.0, started_json=started())
    tell(run, queue("RUNNING", **RUNNING), receiver.url)
    assert receiver.events() == ["started", "first_step"]
    tell(run, queue("RUNNING", **RUNNING), receiver.url, stalled={str(run): "no step for 2 min"})
    assert receiver.posts[2][2]["text"].startswith("no step for 2 min")


def test_the_limits_are_those_of_a_wait_and_of_a_diagnosis() -> None:
    assert (due.STALL_FACTOR, due.STALL_SECONDS, due.SILENT_SECONDS) == (
        pace.STALL_FACTOR, pace.STALL_SECONDS, pace.SILENT_SECONDS
    )  # fmt: skip
    assert (diagnose.STALL_FACTOR, diagnose.STALL_SECONDS) == (pace.STALL_FACTOR, pace.STALL_SECONDS)


def test_a_failure_that_slurm_may_still_requeue_is_not_told(tmp_path: Path, receiver: Receiver) -> None:
    run = launch(tmp_path, started_json=started(), outcome_json=outcome(False, by="signal"))
    assert tell(run, queue("PENDING"), receiver.url)["left"] == 1
    assert receiver.events() == ["started"]


def test_a_sender_without_the_address_leaves_it_to_others(tmp_path: Path, receiver: Receiver) -> None:
    run = launch(tmp_path, started_json=started(), outcome_json=outcome())
    result = tell(run, queue("COMPLETED", **ENDED))
    assert {message["state"] for message in result["messages"]} == {"skipped"}
    assert "RANKZERO_NOTIFY_X is not set" in result["messages"][0]["reason"] and result["left"] == 1
    assert entries(tmp_path) == [f"gpt.{KEY}.1"]
    tell(run, queue("COMPLETED", **ENDED), receiver.url)
    assert receiver.events() == ["started", "proven"] and entries(tmp_path) == []


def test_check_mode_shows_and_sends_nothing(tmp_path: Path, receiver: Receiver) -> None:
    run = launch(tmp_path, started_json=started())
    result = tell(run, queue("RUNNING", **RUNNING), receiver.url, check_mode=True)
    assert [(message["event"], message["state"]) for message in result["messages"]] == [("started", "due")]
    assert not receiver.posts and not (run / "notify").exists() and entries(tmp_path)


def test_secrets_in_a_message_become_asterisks(tmp_path: Path, receiver: Receiver) -> None:
    token = "hf_" + "a1B2" * 9
    run = launch(tmp_path, started_json=started(), outcome_json=outcome(False, message=f"HF_TOKEN={token} refused"))
    tell(run, queue("FAILED", **ENDED), receiver.url)
    assert token not in json.dumps(receiver.posts[1][2])


def test_what_another_user_could_have_written_is_not_told(tmp_path: Path, receiver: Receiver) -> None:
    run = launch(tmp_path, started_json=started())
    (run / "started.json").chmod(0o666)
    result = tell(run, queue("RUNNING", **RUNNING), receiver.url)
    assert list(result["untrusted"]) == [str(run)] and not receiver.posts


def test_the_list_of_a_timer(tmp_path: Path) -> None:
    run = launch(tmp_path)
    for name in ("not-a-launch", "gpt.x.", f"gpt.{KEY}.2"):
        (tmp_path / "notify" / name).touch()
    names = sorted(run.path for run in due.listed(str(tmp_path)))
    assert names == [str(run), str(run.with_name("2"))]
    # A launch that is being made has no run directory yet; one that was removed has none any more.
    gone = RunDirectory(str(run.with_name("2")))
    due.send_due(queue("PENDING").slurm(), [gone], due.Sender({}, now=NOW))
    assert f"gpt.{KEY}.2" in entries(tmp_path)
    due.send_due(queue("PENDING").slurm(), [gone], due.Sender({}, now=NOW + due.UNMADE + 86400))
    assert f"gpt.{KEY}.2" not in entries(tmp_path)


def test_a_broken_list_of_receivers_is_none(tmp_path: Path) -> None:
    run = launch(tmp_path, started_json=started())
    for text in ("", "{", "[]", '{"receivers": 3}', '{"receivers": [1, "x"]}'):
        (run / state_files.NOTIFY).write_text(text, encoding="utf-8")
        assert due.receivers_of(RunDirectory(str(run))) == []
    assert deliver.open_events(str(run), []) == set()


def job_notify_on(monkeypatch: pytest.MonkeyPatch, fake: FakeSlurm, **options: Any) -> dict[str, Any]:
    """The result of module job_notify with these options."""
    defaults = {name: option.get("default") for name, option in NOTIFY_SPEC.items()}
    monkeypatch.setattr(job_notify, "Slurm", fake.slurm)
    return job_notify.logic(SimpleNamespace(params={**defaults, **options}, check_mode=False))


def test_the_module_looks_at_one_launch_at_some_or_at_all_that_are_listed(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = launch(tmp_path, started_json=started(), outcome_json=outcome())
    record = {"fake": queue("COMPLETED", **ENDED), "state_root": str(tmp_path)}
    result = job_notify_on(monkeypatch, **record)
    assert result["changed"] is False and len(result["warnings"]) == 2 and "is not set" in result["warnings"][0]
    monkeypatch.setenv("RANKZERO_NOTIFY_X", receiver.url)
    for given in ({}, {"run_dirs": [str(run)]}, {"name": "gpt", "key": KEY, "generation": 1}):
        assert job_notify_on(monkeypatch, **record, **given)["warnings"] == []
    assert receiver.events() == ["started", "proven"]
    again = make_run(tmp_path, *SUBMITTED, key="f" * 16, notify_json=json.loads((run / "notify.json").read_text()))
    started()(Run(again))
    urls = {"RANKZERO_NOTIFY_X": f"{receiver.url}/given"}
    assert job_notify_on(monkeypatch, **record, run_dir=str(again), urls=urls, x_stalled={})["changed"] is True
    assert {path for path, _headers, _body in receiver.posts[2:]} == {"/given"}, "what is given counts"
