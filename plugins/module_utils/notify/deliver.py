# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Deliver messages about a launch, each event once to each receiver, whoever sends it and from wherever.

The claims lie in RUN_DIR/notify. R is the number of the receiver, N counts the attempts to tell it:

    R-EVENT.N        a sender has taken the message. It is made with link(2), so only one sender succeeds
    R-EVENT.N.over   the receiver did not take it: the reason. Another attempt may follow after a pause
    R-EVENT.sent     the receiver has confirmed it; nobody sends it again

A sender that dies leaves a claim without an end. Nobody knows whether its message arrived, so another sender repeats it
after LEASE seconds, and says so: every message arrives at least once, and exactly once unless a sender dies between
delivery and confirmation. The job runtime has a link to this file. Standard library only.
"""

from __future__ import annotations

import contextlib
import email.message
import errno
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

FOLDER = "notify"
SENT, WAITING, FAILED, SKIPPED = "sent", "waiting", "failed", "skipped"
# The reason of a message that was sent earlier.
BEFORE = "sent before"
# Seconds until another sender takes over from one that has not confirmed its message.
LEASE = 600.0
# A receiver that refuses is asked again after these seconds, doubled each time, and at most so often: for 18 hours.
PAUSE, LONGEST_PAUSE, ATTEMPTS = 60.0, 3600.0, 24
# Seconds for one step of a delivery, and for all of it.
STEP_SECONDS, DELIVERY_SECONDS = 10.0, 20.0
URL_BYTES, TEXT_WIDTH = 4096, 1500
REPEATED = "(sent again: an earlier sender ended before it could confirm this message)"
TITLES = {
    "started": "has started",
    "first_step": "has made its first step",
    "stalled": "stands still",
    "failed": "has failed",
    "proven": "is proven",
}
_EMOJI = {"started": "rocket", "first_step": "footprints", "stalled": "hourglass", "failed": "x", "proven": "tada"}
_URGENT = ("stalled", "failed")


class Receiver(TypedDict, total=False):
    """An entry of `notify` in a job, as notify.json has it."""

    url_env: str
    url_file: str
    mail: str
    format: str
    events: list[str]
    from_job: bool


class Undelivered(Exception):
    """The receiver has certainly not taken the message. The text says why and contains no address."""


class Unknown(Exception):
    """Whether the receiver has taken the message is not known."""


@dataclass(frozen=True)
class Message:
    """What is said about one event. `title` and `text`: for people; `facts`: for programs, JSON values by name."""

    event: str
    title: str
    text: str
    facts: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, event: str, text: str, facts: Mapping[str, object]) -> Message:
        """Return the message about an event. `facts` has at least name, key, generation and job_id."""
        which = f"{str(facts['key'])[:8]}, generation {facts['generation']}, job {facts['job_id']}"
        return cls(event, clean(f"{facts['name']} {TITLES[event]}", 200), f"{text}\n{which}", facts)


@dataclass(frozen=True)
class Delivery:
    """What became of one message. `state`: sent, waiting (another sender has it), failed or skipped (see `reason`)."""

    receiver: int
    event: str
    state: str
    reason: str = ""


def deliver(
    run_dir: str, receivers: Sequence[Receiver], message: Message, address: Callable[[Receiver], str]
) -> list[Delivery]:
    """Deliver a message to all receivers of its event, unless another sender has or does.

    `address` returns the URL of a receiver; it raises `Undelivered` where this sender cannot know it.
    """
    wanted = [(number, each) for number, each in enumerate(receivers) if message.event in each.get("events", ())]
    return [_deliver(run_dir, number, receiver, message, address) for number, receiver in wanted]


def open_events(run_dir: str, receivers: Sequence[Receiver]) -> set[str]:
    """Return the events of which a receiver has not been told, as far as another attempt is allowed at all."""
    names = _names(os.path.join(run_dir, FOLDER))
    return {
        event
        for number, receiver in enumerate(receivers)
        for event in receiver.get("events", ())
        if f"{number}-{event}.sent" not in names and _newest(names, f"{number}-{event}") < ATTEMPTS
    }


def _deliver(
    run_dir: str, number: int, receiver: Receiver, message: Message, address: Callable[[Receiver], str]
) -> Delivery:
    folder, name = os.path.join(run_dir, FOLDER), f"{number}-{message.event}"
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        claimed, repeated, why = _taken(folder, name)
    except OSError as error:
        return Delivery(number, message.event, FAILED, f"{folder} cannot be written: {error.strerror}")
    if why:
        return Delivery(number, message.event, why, BEFORE if why == SENT else "")
    # Checked before the claim, where it costs no attempt: another sender may know the address.
    try:
        where = "" if receiver.get("mail") else address(receiver)
        if receiver.get("mail"):
            _sendmail()
    except Undelivered as error:
        return Delivery(number, message.event, SKIPPED, str(error))
    try:
        if not _claim(folder, f"{name}.{claimed}"):
            return Delivery(number, message.event, WAITING)
    except OSError as error:
        return Delivery(number, message.event, FAILED, f"{folder} cannot be written: {error.strerror}")
    try:
        _bounded(lambda: _send(receiver, where, message, f"{os.path.realpath(run_dir)}:{name}", repeated))
    except Undelivered as error:
        with contextlib.suppress(OSError):
            _write(os.path.join(folder, f"{name}.{claimed}.over"), f"{error}\n")
        return Delivery(number, message.event, FAILED, str(error))
    except Unknown as error:
        return Delivery(number, message.event, FAILED, f"{error}; it is sent again in {LEASE / 60:.0f} minutes")
    with contextlib.suppress(OSError):
        _write(os.path.join(folder, f"{name}.sent"), "")
    return Delivery(number, message.event, SENT)


def _names(folder: str) -> set[str]:
    try:
        return set(os.listdir(folder))
    except OSError:
        return set()


def _newest(names: set[str], name: str) -> int:
    """The number of the newest attempt to send a message; 0 if there was none."""
    numbered = re.compile(rf"{re.escape(name)}\.([0-9]{{1,3}})")
    return max((int(match[1]) for match in map(numbered.fullmatch, names) if match), default=0)


def _taken(folder: str, name: str) -> tuple[int, bool, str]:
    """(the number of the next attempt, whether the message may have arrived already, why none may be made now)."""
    names = _names(folder)
    newest = _newest(names, name)
    if f"{name}.sent" in names:
        return 0, False, SENT
    if newest == 0:
        return 1, False, ""
    over = f"{name}.{newest}.over"
    if over in names:
        pause = min(PAUSE * 2.0 ** (newest - 1), LONGEST_PAUSE)
        waiting = newest >= ATTEMPTS or _age(folder, over) < pause
        # A sender before that may have ended without a word.
        dead = any(f"{name}.{number}.over" not in names for number in range(1, newest))
        return newest + 1, dead, WAITING if waiting else ""
    waiting = newest >= ATTEMPTS or _age(folder, f"{name}.{newest}") < LEASE
    return newest + 1, True, WAITING if waiting else ""


def _age(folder: str, name: str) -> float:
    """The age of a file in seconds, by the clock of the file system, which may differ from this host's."""
    probe = os.path.join(folder, f".now.{_who()}")
    _write(probe, "")
    try:
        now = os.stat(probe).st_mtime
    finally:
        os.unlink(probe)
    try:
        return now - os.lstat(os.path.join(folder, name)).st_mtime
    except OSError:
        return 0.0


def _claim(folder: str, name: str) -> bool:
    """Take a message; False if another sender was first. A network file system may lose the reply to a link, so the
    number of links decides. Raises OSError.
    """
    own = os.path.join(folder, f".claim.{_who()}")
    _write(own, f"{_who()}\n")
    try:
        failure: OSError | None = None
        try:
            os.link(own, os.path.join(folder, name))
        except OSError as error:
            failure = error
        if os.stat(own).st_nlink == 2:
            return True
        if failure is not None and failure.errno not in (errno.EEXIST, errno.ENOENT):
            raise failure
        return False
    finally:
        os.unlink(own)


def _who() -> str:
    return f"{socket.gethostname()}.{os.getpid()}.{threading.get_ident()}"


def _write(path: str, text: str) -> None:
    """Create a file, private to its owner. One of the same name is there only if this was done already."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as stream:
        stream.write(text)


def _bounded(action: Callable[[], None]) -> None:
    """Run a delivery for at most DELIVERY_SECONDS. Raises what it raises, and `Unknown` where it takes longer."""
    failures: list[Exception] = []

    def run() -> None:
        try:
            action()
        except (Undelivered, Unknown) as error:
            failures.append(error)
        except Exception as error:
            # Its text might contain the address.
            failures.append(Unknown(f"the message may not have arrived ({type(error).__name__})"))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(DELIVERY_SECONDS)
    if thread.is_alive():
        raise Unknown(f"the receiver did not answer within {DELIVERY_SECONDS:.0f} s")
    if failures:
        raise failures[0]


def address_in_file(path: str) -> str:
    """Return the URL in a file that only this user (or root) can read and write. Raises `Undelivered`."""
    try:
        descriptor = os.open(os.path.expanduser(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            status = os.fstat(descriptor)
            text = stream.read(URL_BYTES + 1) if stat.S_ISREG(status.st_mode) else b""
    except OSError as error:
        raise Undelivered(f"url_file {path} cannot be read on {socket.gethostname()}: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode) or status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o077:
        raise Undelivered(
            f"url_file {path} is not used, because others can read or change it: it must be a regular file of your own "
            f"(chmod 600 {path})"
        )
    return checked(text.decode("utf-8", "replace").strip(), f"url_file {path}")


def checked(url: str, where: str) -> str:
    """Return a URL that a message can be posted to. Raises `Undelivered`, which does not show it."""
    try:
        parts = urllib.parse.urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or len(url) > URL_BYTES or not re.fullmatch(r"[!-~]+", url):
        raise Undelivered(f"{where} does not contain an address that begins with https:// or http://")
    return url


def _send(receiver: Receiver, url: str, message: Message, identity: str, repeated: bool) -> None:
    text = f"{message.text}\n{REPEATED}" if repeated else message.text
    spoken = Message(message.event, message.title, clean(text), {**message.facts, "repeated": repeated})
    if receiver.get("mail"):
        _mail(receiver["mail"], spoken)
        return
    _post(*request_of(receiver.get("format", "json"), url, spoken, identity))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_given: Any) -> None:
        return None


def _post(url: str, document: Mapping[str, object]) -> None:
    parts = urllib.parse.urlsplit(url)
    headers = {"Content-Type": "application/json", "User-Agent": "rankzero"}
    if parts.username is not None:
        login = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(login.encode()).decode()}"
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    request = urllib.request.Request(url, json.dumps(document).encode(), headers)
    try:
        # An address is a secret: it is not taken where the receiver points to.
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=STEP_SECONDS):
            return
    except urllib.error.HTTPError as error:
        raise Undelivered(f"the receiver answered {error.code}") from None
    except urllib.error.URLError as error:
        # It was not sent: the connection could not be made.
        inner = error.reason
        why = (inner.strerror or type(inner).__name__) if isinstance(inner, OSError) else "no connection"
        raise Undelivered(f"the receiver cannot be reached: {why}") from None
    except OSError as error:
        raise Unknown(f"the receiver gave no answer ({type(error).__name__})") from None


def request_of(kind: str, url: str, message: Message, identity: str) -> tuple[str, dict[str, object]]:
    """Return (address, JSON body) of a message in the format of a receiver. `identity`: the same for a repetition."""
    if kind == "slack":
        title, text = (re.sub("[&<>]", _entity, part) for part in (message.title, message.text))
        return url, {"text": f"*{title.replace('*', '')}*\n{text}"}
    if kind == "teams":
        return url, {"type": "message", "attachments": [_card(message)]}
    if kind == "ntfy":
        parts = urllib.parse.urlsplit(url)
        server, _slash, topic = parts.path.rpartition("/")
        note: dict[str, object] = {
            "topic": topic,
            "title": message.title,
            "message": message.text,
            "tags": [_EMOJI.get(message.event, "bell")],
            "priority": 4 if message.event in _URGENT else 3,
        }
        return parts._replace(path=server or "/").geturl(), note
    body = {"rankzero_event": 1, "id": identity, "event": message.event, "title": message.title, "text": message.text}
    return url, {**message.facts, **body}


def _entity(match: re.Match[str]) -> str:
    """Slack's three control characters. Without them a text cannot mention a channel or hide a link."""
    return {"&": "&amp;", "<": "&lt;", ">": "&gt;"}[match[0]]


def _card(message: Message) -> dict[str, Any]:
    """An adaptive card. Its text runs, unlike its text blocks, show no markup."""
    lines = [
        {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": message.title, "weight": "Bolder"}]},
        *(
            {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": line}]}
            for line in message.text.splitlines()
        ),
    ]
    card = {"type": "AdaptiveCard", "version": "1.4", "body": lines}
    card["$schema"] = "http://adaptivecards.io/schemas/adaptive-card.json"
    return {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}


def _sendmail() -> str:
    """The program that takes mail. Raises `Undelivered` where there is none."""
    path = shutil.which("sendmail", path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/lib")))
    if path is None:
        raise Undelivered(f"there is no program sendmail on {socket.gethostname()}, so it sends no mail")
    return path


def _mail(to: str, message: Message) -> None:
    mail = email.message.EmailMessage()
    mail["To"], mail["Subject"], mail["Auto-Submitted"] = to, message.title, "auto-generated"
    mail.set_content(message.text + "\n")
    try:
        # pylint: disable-next=ansible-bad-function
        done = subprocess.run(
            [_sendmail(), "-t", "-i"], input=mail.as_bytes(), capture_output=True, timeout=STEP_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unknown("sendmail did not end in time") from None
    except OSError as error:
        raise Undelivered(f"sendmail cannot be run: {error.strerror}") from None
    if done.returncode != 0:
        raise Undelivered(f"sendmail ended with exit code {done.returncode}")


def clean(text: str, width: int = TEXT_WIDTH) -> str:
    """Return a text without control characters, except line feeds, and not longer than `width`."""
    shown = "".join(char if char.isprintable() or char == "\n" else " " for char in text)
    return shown if len(shown) <= width else shown[: width - 3] + "..."
