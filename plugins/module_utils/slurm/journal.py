# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The run directory: <runs>/<name>/<key>/<generation>/ with its journal, claim, started.json and outcome.json.

The journal is append-only, one JSON object a line, each line written with a single write and synced: after a kill at
any moment it holds whole lines and at most one half line at the end, which readers skip.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import fresh

JOURNAL = "journal.jsonl"
# What an attempt leaves when the next one begins, which is the number in the name.
BEFORE = re.compile(r"(started|outcome)\.before-attempt-\d+\.json")
# Beside the keys of a name: what belongs to all elements of a sweep, <runs>/<name>/.sweep-<key>/<number>/.
SWEEP_PREFIX = ".sweep-"
# In there: which elements the sweep has, for those who read its results.
SWEEP_RECORD = "sweep.json"
# How an attempt ended (`ended_by` of its outcome) after which another one of the same job may follow.
MAY_FOLLOW = ("signal", "requeue")


@dataclass(frozen=True)
class Claim:
    """Which job owns a generation: written by that job itself, first thing."""

    generation: int
    cluster: str
    job_id: str

    @classmethod
    def of(cls, text: str) -> Claim | None:
        """What the claim file says ("<generation> <cluster> <job id>"); None for anything else, as a half of it."""
        words = text.split()
        if len(words) == 3 and words[0].isascii() and words[0].isdigit():
            return cls(int(words[0]), words[1], words[2])
        return None


@dataclass(frozen=True)
class RunDirectory:
    """One generation on disk. Reading never fails on what is missing or half there."""

    path: str

    @property
    def generation(self) -> int:
        return int(os.path.basename(self.path))

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def record(self, event: str, **details: object) -> None:
        """Append one event to the journal; it outlives a crash of this host. Raises OSError."""
        self._append(event, details, durable=True)

    def record_lightly(self, event: str, **details: object) -> None:
        """The same without waiting for the disk: a crash of this host may take the event with it."""
        self._append(event, details, durable=False)

    def _append(self, event: str, details: Mapping[str, object], *, durable: bool) -> None:
        line = json.dumps({"time": time.time(), "event": event, **details}, sort_keys=True) + "\n"
        descriptor = os.open(self.file(JOURNAL), os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            # A half line of somebody who was killed must not swallow this one.
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            os.write(descriptor, (b"\n" if torn else b"") + line.encode())
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def events(self) -> list[dict[str, Any]]:
        """The journal's whole lines, oldest first. For an element of a sweep those of its newest array follow."""
        own = self.own_events()
        place = array_of(own)
        if place is None:
            return own
        return own + as_element(RunDirectory(self.beside(place.array)).own_events(), place.task)

    def beside(self, array: str) -> str:
        """The folder of an array, whose name is relative to that of all runs of this launch's name."""
        return os.path.join(os.path.dirname(os.path.dirname(self.path)), array)

    def own_events(self) -> list[dict[str, Any]]:
        """The journal's whole lines, oldest first."""
        events = []
        for line in fresh.text_of(self.file(JOURNAL)).splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and "event" in event:
                events.append(event)
        return events

    def claim(self) -> Claim | None:
        """The claim, once a job has taken it."""
        return Claim.of(fresh.text_of(self.file("claim")))

    def started(self) -> dict[str, Any] | None:
        return _object(self.file("started.json"))

    def outcome(self) -> dict[str, Any] | None:
        """The verdict of the newest attempt; None while it runs, also when an older attempt left one."""
        outcome, started = _object(self.file("outcome.json")), self.started()
        if outcome and started and outcome.get("attempt", 0) < started.get("attempt", 0):
            return None
        return outcome

    def before(self) -> dict[int, dict[str, dict[str, Any]]]:
        """What the attempts before the newest one left, by number: {"started": ..., "outcome": ...} where it exists."""
        left: dict[int, dict[str, dict[str, Any]]] = {}
        try:
            names = sorted(os.listdir(self.path))
        except OSError:
            return left
        for name in names:
            found = BEFORE.fullmatch(name)
            document = _object(self.file(name)) if found else None
            if found and document and isinstance(document.get("attempt"), int):
                left.setdefault(document["attempt"], {})[found[1]] = document
        return left

    def job_id(self) -> str | None:
        """The job of this generation: the claim's owner, else the one that the journal names last."""
        claim = self.claim()
        if claim:
            return claim.job_id
        ids = [
            event["job_id"]
            for event in self.events()
            if event["event"] in ("submitted", "adopted") and event.get("job_id")
        ]
        return str(ids[-1]) if ids else None

    def rejected(self) -> str | None:
        """Slurm's words where it refused the newest submission."""
        events = self.events()
        if events and events[-1]["event"] == "rejected":
            return str(events[-1].get("message", ""))
        return None

    def forget_secrets(self) -> bool:
        """Remove the secrets of a launch that has reached its final state. True when there were any."""
        try:
            os.unlink(self.file("secrets.env"))
        except OSError:
            return False
        return True


@dataclass(frozen=True)
class Place:
    """Where an element of a sweep was put: `array` is SWEEP/NUMBER beside the runs, `task` its number there."""

    array: str
    task: int

    def job_name(self, name: str) -> str:
        """The array's name in Slurm, for the launch's `name`."""
        sweep, number = os.path.split(self.array)
        return f"{name}.{sweep.removeprefix(SWEEP_PREFIX)}.{number}"


def array_of(events: Sequence[Mapping[str, Any]]) -> Place | None:
    """The array that the newest intent of a generation names; None for a job of its own."""
    intents = [event for event in events if event["event"] == "intent"]
    if not intents or not intents[-1].get("array"):
        return None
    return Place(str(intents[-1]["array"]), int(intents[-1].get("task", 0)))


def as_element(events: Sequence[Mapping[str, Any]], task: int) -> list[dict[str, Any]]:
    """What an array's journal says, as said of one of its tasks."""
    found = []
    for event in events:
        if event["event"] in ("submitted", "adopted", "rejected"):
            job_id = event.get("job_id")
            found.append({**event, **({"job_id": f"{job_id}_{task}"} if job_id else {})})
    return found


def generations(runs_dir: str) -> list[RunDirectory]:
    """The generations of one key, oldest first."""
    try:
        names = os.listdir(runs_dir)
    except OSError:
        return []
    return [
        RunDirectory(os.path.join(runs_dir, name))
        for name in sorted((n for n in names if n.isascii() and n.isdigit()), key=int)
    ]


def json_object(text: str) -> dict[str, Any] | None:
    """A JSON object; None for anything else (half written, torn by a connection, or not ours)."""
    try:
        document = json.loads(text)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _object(path: str) -> dict[str, Any] | None:
    return json_object(fresh.text_of(path))
