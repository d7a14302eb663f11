# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages to a real receiver: each once, whoever sends; what a dead sender leaves; where no address may be."""

from __future__ import annotations

import email
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.notify import deliver
from tests.receiver import Receiver, private
from tests.repository import ROOT

FACTS = {"name": "gpt-small", "key": "d3503a1c022f7b43", "generation": 1, "job_id": "23", "nodes": ["node01", "node02"]}
FAILED = deliver.Message.of("failed", "a GPU ran out of memory\nrank 3 on node02", FACTS)
HOSTILE = deliver.Message.of("failed", "<!channel> <http://evil|here> & *bold* [x](http://evil)\x1b[2J", FACTS)
HIDDEN = "hooks/T0/B0/s3cr3t"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().running() as running:
        yield running


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "gpt-small" / "d3503a1c022f7b43" / "1"
    folder.mkdir(parents=True)
    return folder


def to_file(tmp_path: Path, url: str, **more: Any) -> dict[str, Any]:
    return {"url_file": str(private(tmp_path / "url", f"{url}\n")), "format": "json", "events": ["failed"], **more}


def address(receiver: Mapping[str, Any]) -> str:
    return deliver.address_in_file(receiver["url_file"])


def send(run_dir: Path, *receivers: Any, message: deliver.Message = FAILED) -> list[tuple[str, str]]:
    return [(done.state, done.reason) for done in deliver.deliver(str(run_dir), list(receivers), message, address)]


def left_by_a_dead_sender(run_dir: Path, age: float) -> None:
    """The claim of a sender is as old as this, in seconds."""
    for claim in (run_dir / "notify").iterdir():
        moved = claim.stat().st_mtime - age
        os.utime(claim, (moved, moved))


# What each receiver gets, whole. A changed body would no longer be understood by programs outside.
@pytest.mark.parametrize("kind", ["slack", "teams", "ntfy", "json"])
@pytest.mark.parametrize("message", [FAILED, HOSTILE], ids=["plain", "hostile"])
def test_bodies(kind: str, message: deliver.Message, request: pytest.FixtureRequest) -> None:
    spoken = deliver.Message(message.event, message.title, deliver.clean(message.text), message.facts)
    url, body = deliver.request_of(kind, "https://example.org/ntfy/alerts?x=1", spoken, "RUN:0-failed")
    golden = ROOT / "tests" / "golden" / "notify" / f"{kind}-{request.node.callspec.id.partition('-')[0]}.json"
    text = json.dumps({"path": url.removeprefix("https://example.org"), "body": body}, indent=1, sort_keys=True) + "\n"
    if os.environ.get("RANKZERO_WRITE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == text


def test_a_message_is_sent_once(tmp_path: Path, run_dir: Path, receiver: Receiver) -> None:
    who = to_file(tmp_path, f"{receiver.url}/{HIDDEN}")
    assert send(run_dir, who) == [("sent", "")]
    assert send(run_dir, who) == [("sent", "sent before")]
    ((path, headers, body),) = receiver.posts
    assert path == f"/{HIDDEN}" and headers["Content-Type"] == "application/json"
    assert body["event"] == "failed" and body["job_id"] == "23" and body["repeated"] is False
    assert body["id"].endswith("/runs/gpt-small/d3503a1c022f7b43/1:0-failed")
    assert deliver.open_events(str(run_dir), [who]) == set()
    assert (run_dir / "notify").stat().st_mode & 0o777 == 0o700


def test_receivers_and_events_do_not_disturb_each_other(tmp_path: Path, run_dir: Path, receiver: Receiver) -> None:
    both = to_file(tmp_path, receiver.url, events=["started", "failed"])
    only_start = {**both, "events": ["started"]}
    assert send(run_dir, both, only_start) == [("sent", "")]
    assert deliver.open_events(str(run_dir), [both, only_start]) == {"started"}
    started = deliver.Message.of("started", "on node01", FACTS)
    assert send(run_dir, both, only_start, message=started) == [("sent", ""), ("sent", "")]
    assert receiver.events() == ["failed", "started", "started"]


SENDER = """\
import json, sys
from ansible_collections.rankzero.slurm.plugins.module_utils.notify import deliver
run_dir, receiver, facts = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
message = deliver.Message.of("failed", "it failed", facts)
sys.stdin.readline()
done = deliver.deliver(run_dir, [receiver], message, lambda given: deliver.address_in_file(given["url_file"]))
print(done[0].state, flush=True)
"""


def sender(run_dir: Path, receiver: Mapping[str, Any]) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", SENDER, str(run_dir), json.dumps(receiver), json.dumps(FACTS)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)


def test_of_senders_at_once_one_sends(tmp_path: Path, run_dir: Path, receiver: Receiver) -> None:
    who = to_file(tmp_path, receiver.url)
    senders = [sender(run_dir, who) for _number in range(6)]
    for process in senders:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    states = sorted(process.communicate()[0].strip() for process in senders)
    assert states.count("waiting") + states.count("sent") == 6 and "sent" in states
    assert len(receiver.posts) == 1


def test_what_a_killed_sender_has_taken_is_sent_again_and_said_so(
    tmp_path: Path, run_dir: Path, receiver: Receiver
) -> None:
    """At least once: nobody knows whether the message of a killed sender has arrived."""
    who = to_file(tmp_path, receiver.url)
    receiver.answers.clear()
    process = sender(run_dir, who)
    assert process.stdin
    process.stdin.write("go\n")
    process.stdin.flush()
    receiver.wait_for(1)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    receiver.answers.set()
    assert send(run_dir, who) == [("waiting", "")], "its time is not over: it might still be at work"
    left_by_a_dead_sender(run_dir, deliver.LEASE + 1)
    assert deliver.open_events(str(run_dir), [who]) == {"failed"}
    assert send(run_dir, who) == [("sent", "")]
    assert send(run_dir, who) == [("sent", "sent before")]
    first, second = (body for _path, _headers, body in receiver.posts)
    assert first["repeated"] is False and second["repeated"] is True
    assert first["id"] == second["id"] and deliver.REPEATED in second["text"]


def test_a_receiver_that_refuses_is_left_alone_for_a_while_and_then_told(
    tmp_path: Path, run_dir: Path, receiver: Receiver
) -> None:
    who = to_file(tmp_path, receiver.url)
    receiver.code = 503
    assert send(run_dir, who) == [("failed", "the receiver answered 503")]
    assert send(run_dir, who) == [("waiting", "")]
    receiver.code = 204
    left_by_a_dead_sender(run_dir, deliver.PAUSE + 1)
    assert send(run_dir, who) == [("sent", "")]
    assert [body["repeated"] for _path, _headers, body in receiver.posts] == [False, False], "the first was refused"


def test_a_receiver_that_never_answers_is_given_up(tmp_path: Path, run_dir: Path, receiver: Receiver) -> None:
    who = to_file(tmp_path, receiver.url)
    receiver.code = 410
    for _attempt in range(deliver.ATTEMPTS):
        assert send(run_dir, who)[0][0] == "failed"
        left_by_a_dead_sender(run_dir, deliver.LONGEST_PAUSE + 1)
    assert send(run_dir, who) == [("waiting", "")]
    assert deliver.open_events(str(run_dir), [who]) == set() and len(receiver.posts) == deliver.ATTEMPTS


def test_nobody_listens(tmp_path: Path, run_dir: Path, receiver: Receiver) -> None:
    with Receiver().running() as gone:
        url = gone.url
    assert send(run_dir, to_file(tmp_path, url)) == [("failed", "the receiver cannot be reached: Connection refused")]


def test_a_redirect_is_not_followed(tmp_path: Path, run_dir: Path, receiver: Receiver) -> None:
    receiver.code = 307
    assert send(run_dir, to_file(tmp_path, receiver.url)) == [("failed", "the receiver answered 307")]
    assert len(receiver.posts) == 1


def test_a_receiver_that_hangs_is_waited_for_a_limited_time(
    tmp_path: Path, run_dir: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "DELIVERY_SECONDS", 0.2)
    receiver.answers.clear()
    ((state, reason),) = send(run_dir, to_file(tmp_path, receiver.url))
    assert state == "failed" and "did not answer" in reason and "sent again in 10 minutes" in reason
    assert send(run_dir, to_file(tmp_path, receiver.url)) == [("waiting", "")]


def test_a_login_in_the_address_is_a_header(tmp_path: Path, run_dir: Path, receiver: Receiver) -> None:
    with_login = receiver.url.replace("http://", "http://me:p%40ss@") + "/alerts"
    assert send(run_dir, to_file(tmp_path, with_login, format="ntfy")) == [("sent", "")]
    ((path, headers, body),) = receiver.posts
    assert path == "/" and body["topic"] == "alerts" and headers["Authorization"] == "Basic bWU6cEBzcw=="
    assert "me" not in headers["Host"]


@pytest.mark.parametrize("change", ["others_read", "link", "folder", "missing", "no_address", "two_lines", "odd_port"])
def test_an_address_that_others_may_read_or_that_is_none(
    tmp_path: Path, run_dir: Path, receiver: Receiver, change: str
) -> None:
    """Without an attempt: another sender may have a good one. Its content is never shown."""
    text = {
        "no_address": f"ftp://example.org/{HIDDEN}",
        "two_lines": f"{receiver.url}/{HIDDEN}\nmore",
        "odd_port": f"http://example.org:9999999/{HIDDEN}",
    }.get(change, f"{receiver.url}/{HIDDEN}")
    who = to_file(tmp_path, text)
    path = Path(who["url_file"])
    if change == "others_read":
        path.chmod(0o640)
    elif change == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to("elsewhere")
    elif change in ("folder", "missing"):
        path.unlink()
        if change == "folder":
            path.mkdir(mode=0o700)
    ((state, reason),) = send(run_dir, who)
    assert state == "skipped" and str(path) in reason and HIDDEN not in reason
    assert not receiver.posts and not any(".1" in name for name in os.listdir(run_dir / "notify"))


def test_the_address_is_in_no_file_of_the_run(tmp_path: Path, run_dir: Path, receiver: Receiver) -> None:
    who = to_file(tmp_path, f"{receiver.url}/{HIDDEN}")
    for code in (500, 200):
        receiver.code = code
        send(run_dir, who)
        left_by_a_dead_sender(run_dir, deliver.LONGEST_PAUSE)
    texts = [path.read_text(encoding="utf-8") for path in run_dir.rglob("*") if path.is_file()]
    assert len(texts) == 4 and not any(HIDDEN in text or receiver.url in text for text in texts), texts


def test_mail(tmp_path: Path, run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address is in the mail alone, not on a command line that everybody sees."""
    program = tmp_path / "bin" / "sendmail"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\nexec cat > {tmp_path}/mail\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    assert send(run_dir, {"mail": "me@example.org", "events": ["failed"]}) == [("sent", "")]
    assert (tmp_path / "words").read_text(encoding="utf-8") == "-t -i\n"
    mail = email.message_from_bytes((tmp_path / "mail").read_bytes())
    assert mail["To"] == "me@example.org" and mail["Subject"] == "gpt-small has failed"
    assert mail["Auto-Submitted"] == "auto-generated" and "a GPU ran out of memory" in str(mail.get_payload())
    program.write_text("#!/bin/sh\nexit 75\n", encoding="utf-8")
    mailed = {"mail": "me@example.org", "events": ["failed"]}
    assert send(run_dir, {"mail": "x", "events": []}, mailed) == [("failed", "sendmail ended with exit code 75")]


def test_a_folder_that_cannot_be_written(tmp_path: Path, run_dir: Path, receiver: Receiver) -> None:
    (run_dir / "notify").write_text("", encoding="utf-8")
    ((state, reason),) = send(run_dir, to_file(tmp_path, receiver.url))
    assert state == "failed" and "cannot be written" in reason and not receiver.posts
