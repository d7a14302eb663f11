# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages that a job sends itself: its start and its end, once over all attempts, and never at the job's expense."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.notify import deliver
from tests.receiver import Receiver, private
from tests.unit.runtime.harness import Job, Site


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().running() as running:
        yield running


def job(site: Site, url: str, spec: dict[str, Any], **more: Any) -> Job:
    events = ["started", "failed", "proven"]
    address = private(site.root / "url", f"{url}/s3cr3t\n")
    who = [{"url_file": str(address), "events": events, "from_job": True, **more}]
    made = site.job({"notify": who, **spec})
    receivers = [{"format": "json", "from_job": False, **each} for each in who]
    # Those that only others tell.
    receivers += [{"mail": "me", "events": events}, {"url_env": "RANKZERO_NOTIFY_X", "events": events}]
    (made.run / "notify.json").write_text(json.dumps({"receivers": receivers}), encoding="utf-8")
    return made


def test_a_success(site: Site, receiver: Receiver) -> None:
    made = job(site, receiver.url, {"artifact": {"path": "result.json"}})
    assert made.finish() == 0, made.log()
    receiver.wait_for(2)
    assert sorted(receiver.events()) == ["proven", "started"]
    proven = next(body for _path, _headers, body in receiver.posts if body["event"] == "proven")
    assert proven["name"] == "job" and proven["job_id"] == "1" and proven["generation"] == 1
    assert "the artifact is proven" in proven["text"] and proven["nodes"] == ["localhost"]
    assert "notify:" not in made.log() and "s3cr3t" not in made.log()
    # Whoever comes later, another attempt or a timer, says nothing again.
    run_dir, receivers = str(made.run), json.loads((made.run / "notify.json").read_text(encoding="utf-8"))["receivers"]
    assert deliver.open_events(run_dir, receivers[:1]) == {"failed"}


def test_failures_of_the_program_and_of_the_set_up(site: Site, receiver: Receiver) -> None:
    failing = job(site, receiver.url, {"shell": "exit 3"})
    assert failing.finish() == 3
    assert failing.finish(attempt=1) == 3, "an operator's requeue"
    broken = job(site, receiver.url, {"name": "broken", "setup": {"commands": ["exit 9"]}})
    assert broken.finish() == 9, broken.log()
    receiver.wait_for(3)
    texts = {(body["name"], body["event"]): body["text"] for _path, _headers, body in receiver.posts}
    assert sorted(texts) == [("broken", "failed"), ("job", "failed"), ("job", "started")]
    assert "the program ended with exit code 3" in texts["job", "failed"]
    assert "before its ranks" in texts["broken", "failed"]
    assert len(receiver.posts) == 3


def test_a_receiver_that_cannot_be_reached_costs_a_line_of_the_log(site: Site, receiver: Receiver) -> None:
    with Receiver().running() as gone:
        url = gone.url
    made = job(site, url, {})
    assert made.finish() == 0, made.log()
    line = "[rankzero] notify: receiver 1 was not told `proven`: the receiver cannot be reached: Connection refused"
    assert made.log().count(line) == 1


def test_without_from_job_a_job_sends_nothing(site: Site, receiver: Receiver) -> None:
    made = job(site, receiver.url, {}, from_job=False)
    assert made.finish() == 0, made.log()
    assert not receiver.posts and not (made.run / "notify").exists()
    script = (made.run / "job.sbatch").read_text(encoding="utf-8")
    assert "NOTIFY" not in script and str(Path(site.root / "url")) not in script


def test_a_generation_that_was_submitted_by_hand_has_the_same_receivers(site: Site, receiver: Receiver) -> None:
    made = job(site, receiver.url, {"command": ["true"]})
    assert made.finish() == 0, made.log()
    assert made.finish(job_id=2, by_hand=True) == 0, made.log(2)
    receiver.wait_for(4)
    assert sorted((body["generation"], body["event"]) for _path, _headers, body in receiver.posts) == [
        (1, "proven"), (1, "started"), (2, "proven"), (2, "started")
    ]  # fmt: skip


def test_receivers_that_another_user_has_put_there_stop_the_job(site: Site, receiver: Receiver) -> None:
    made = job(site, receiver.url, {})
    (made.run / "notify.json").rename(made.run / "elsewhere")
    (made.run / "notify.json").symlink_to("elsewhere")
    assert made.finish() == 77 and not receiver.posts
