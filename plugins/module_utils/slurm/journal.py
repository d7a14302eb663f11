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
import time
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import fresh

JOURNAL = "journal.jsonl"
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
        """Append one event to the journal. Raises OSError."""
        line = json.dumps({"time": time.time(), "event": event, **details}, sort_keys=True) + "\n"
        descriptor = os.open(self.file(JOURNAL), os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            # A half line of somebody who was killed must not swallow this one.
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            os.write(descriptor, (b"\n" if torn else b"") + line.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def events(self) -> list[dict[str, Any]]:
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
