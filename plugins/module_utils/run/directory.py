# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The run directory: <runs>/<name>/<key>/<generation>/ with its journal, claim, started.json and outcome.json.

The journal is append-only, with one JSON object per line. Each line is written with a single write and synced. After a
kill at any moment it contains complete lines and at most one incomplete line at the end, which readers skip. Files that
another user could have written are not read (`Untrusted`), and invalid values count as missing.
"""

from __future__ import annotations

import functools
import json
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.core.state_files import json_object
from ansible_collections.rankzero.slurm.plugins.module_utils.run import plain_verdict
from ansible_collections.rankzero.slurm.plugins.module_utils.run.documents import Event, Left, Outcome, Started

JOURNAL = "journal.jsonl"
# Files of an attempt after the next attempt, whose number is in the name, has begun.
BEFORE = re.compile(rf"(started|outcome|{plain_verdict.FILE})\.before-attempt-\d+(\.json)?")
# Folders next to the keys of a name, for data of all elements of a sweep: <runs>/<name>/.sweep-<key>/<number>/.
SWEEP_PREFIX = ".sweep-"
_SWEEP_ARRAY = re.compile(rf"{re.escape(SWEEP_PREFIX)}[0-9a-f]{{1,64}}/[0-9]{{1,9}}")
_GENERATION = re.compile(r"[1-9][0-9]{0,8}")
# Limit for the events of a journal. A launch has a few, and a few more each time it is cancelled.
MOST_EVENTS = 10_000
# A claim is a single line.
CLAIM_BYTES = 4096
# The event of a further submission of a generation; its `number` counts from 1 (resources.any_of).
ALTERNATIVE = "alternative"
_LIMITS = {
    JOURNAL: state_files.JOURNAL_BYTES,
    "claim": CLAIM_BYTES,
    "started.json": state_files.MOST,
    "outcome.json": state_files.MOST,
    plain_verdict.FILE: state_files.MOST,
    # Of a launch that the cluster runs which starts first (grants.py): a line each.
    "asks": CLAIM_BYTES,
    "grant": CLAIM_BYTES,
}
# The files that say what became of a launch. Those of earlier attempts appear only when these change.
STATUS_FILES = tuple(_LIMITS)


@dataclass(frozen=True)
class Claim:
    """The job that owns a generation. The job itself writes its claim as its first action."""

    generation: int
    cluster: str
    job_id: str

    @classmethod
    def of(cls, text: str) -> Claim | None:
        """Parse the claim file ("<generation> <cluster> <job id>"); None for anything else, such as half a line."""
        words = text[:CLAIM_BYTES].split()
        if len(words) == 3 and words[0].isascii() and words[0].isdigit() and len(words[0]) < 10:
            return cls(int(words[0]), words[1], words[2]) if state_files.is_job_id(words[2]) else None
        return None


@dataclass(frozen=True)
class RunDirectory:
    """One generation on disk.

    Reading never fails for missing or incomplete files. It raises `Untrusted` for files that another user could have
    written.
    """

    path: str

    @classmethod
    def below(cls, path: str, root: Beneath, place: str) -> RunDirectory:
        """Return the run directory at `path`, which is `place` below a state root that the caller has opened."""
        run = cls(path)
        vars(run)["_place"] = (root, place)
        return run

    @functools.cached_property
    def _place(self) -> tuple[Beneath, str]:
        return state_files.of_run(self.path)

    @property
    def foreign(self) -> bool:
        """Whether the run directory belongs to another user. Nothing is written to such a directory."""
        return self._place[0].owner != os.geteuid()

    def snapshot(self) -> RunSnapshot:
        """Read all files that say what became of the launch, each once. Raises `Untrusted`."""
        root, place = self._place
        names, contents = root.contents(place, _limit)
        texts = {name: data.decode("utf-8", "replace") for name, data in contents.items()}
        snapshot = RunSnapshot(self.path, tuple(names), texts)
        vars(snapshot)["_place"] = (root, place)
        return snapshot

    def text(self, name: str, most: int = state_files.MOST) -> str:
        """Return the current text of one of its files; "" if there is none."""
        root, place = self._place
        return state_files.text(root, os.path.join(place, name), most)

    def content(self, name: str, most: int = state_files.MOST) -> bytes:
        """Return the current content of one of its files. Raises OSError, `Untrusted`."""
        root, place = self._place
        return root.content(os.path.join(place, name), most)

    def document(self, name: str) -> JsonObject | None:
        """Return the JSON object in one of its files; None if there is none."""
        return json_object(self.text(name))

    def changed(self, name: str) -> float:
        """Return when one of its files was last written, in epoch seconds; 0 if there is none."""
        root, place = self._place
        try:
            with root.opened(os.path.join(place, name)) as descriptor:
                return os.fstat(descriptor).st_mtime
        except OSError:
            return 0.0

    def check_readable(self) -> None:
        """Raise OSError if the run directory cannot be read on this host."""
        root, place = self._place
        with root.folder(place):
            pass

    def shown(self, folder: str = "") -> Beneath:
        """Return its files, or those of a subfolder, to be shown: anybody may have written what they say."""
        root, place = self._place
        return Beneath(root.root, inside=os.path.join(place, folder))

    def names(self, folder: str = "") -> list[str]:
        """Return the names in the run directory, or in a subfolder of it, sorted."""
        root, place = self._place
        return root.names(os.path.join(place, folder))

    @property
    def generation(self) -> int:
        """The number of this submission of the launch, from 1."""
        return int(os.path.basename(self.path))

    def file(self, name: str) -> str:
        """Return the path of a file in the run directory, whether or not it exists."""
        return os.path.join(self.path, name)

    def record(self, event: str, **details: object) -> None:
        """Append one event to the journal and sync it to disk, so that it survives a crash of this host. Raises
        OSError.
        """
        self._append(event, details, durable=True)

    def record_lightly(self, event: str, **details: object) -> None:
        """Append one event without waiting for the disk. A crash of this host may lose it. Raises OSError."""
        self._append(event, details, durable=False)

    def _append(self, event: str, details: Mapping[str, object], *, durable: bool) -> None:
        line = json.dumps({"time": time.time(), "event": event, **details}, sort_keys=True) + "\n"
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self.file(JOURNAL), flags, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            # An incomplete line from a killed writer must not merge with this one.
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            os.write(descriptor, (b"\n" if torn else b"") + line.encode())
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def events(self, arrays: dict[str, list[Event]] | None = None) -> list[Event]:
        """Return the journal's complete lines, oldest first, for an element of a sweep followed by those of its newest
        array.

        `arrays`: cache of the journals of arrays by path, so that each is read once.
        """
        own, arrays = self.own_events(), {} if arrays is None else arrays
        place = array_of(own)
        if place is None:
            return own
        path = self.beside(place.array)
        if path not in arrays:
            arrays[path] = RunDirectory(path).own_events()
        return own + as_element(arrays[path], place.task)

    def beside(self, array: str) -> str:
        """Return the folder of an array. `array` is relative to the folder of all runs with this launch's name."""
        return os.path.join(os.path.dirname(os.path.dirname(self.path)), array)

    def own_events(self) -> list[Event]:
        """Return the journal's complete lines, oldest first. Invalid lines are skipped."""
        events: list[Event] = []
        for line in self.text(JOURNAL, state_files.JOURNAL_BYTES).splitlines()[:MOST_EVENTS]:
            event = json_object(line)
            if event and is_event(event):
                events.append(cast("Event", event))
        return events

    def claim(self) -> Claim | None:
        """Return the claim; None until a job has written it."""
        return Claim.of(self.text("claim", CLAIM_BYTES))

    def started(self) -> Started | None:
        """Return what the job wrote when its newest attempt began (`started.json`); None before that."""
        return cast("Started | None", attempt_of(self.document("started.json")))

    def outcome(self) -> Outcome | None:
        """Return the outcome of the newest attempt; None while it runs, even if an older attempt left an outcome.

        A success is final, whichever attempt achieved it. A slow or unreachable node may finish an attempt after Slurm
        has begun another one elsewhere.
        """
        document, started = attempt_of(self.document("outcome.json") or self._plain()), self.started()
        outcome = cast("Outcome | None", document)
        if outcome and outcome.get("success") is True:
            return outcome
        if outcome and started and outcome.get("attempt", 0) < started.get("attempt", 0):
            return None
        return outcome

    def before(self) -> dict[int, Left]:
        """Return the files of earlier attempts by number: {"started": ..., "outcome": ...}, each if it exists."""
        left: dict[int, Left] = {}
        for name in self.names():
            match = BEFORE.fullmatch(name)
            if not match:
                continue
            plain = match[1] == plain_verdict.FILE
            document = attempt_of(self._plain(name) if plain else self.document(name))
            if document and "attempt" in document:
                number, kind = document["attempt"], "outcome" if plain else match[1]
                left[number] = cast("Left", {**left.get(number, {}), kind: document})
        return left

    def _plain(self, name: str = plain_verdict.FILE) -> JsonObject | None:
        return plain_verdict.verdict(self.text(name, state_files.MOST))

    def job_id(self, events: Sequence[Event] | None = None) -> str | None:
        """Return the job of this generation: the owner of the claim, else the last one in the journal (`events`)."""
        claim = self.claim()
        if claim:
            return claim.job_id
        events = self.events() if events is None else events
        ids = [
            event["job_id"] for event in events if event["event"] in ("submitted", "adopted") and event.get("job_id")
        ]
        return str(ids[-1]) if ids else None

    def other_jobs(self, events: Sequence[Event]) -> tuple[str, ...]:
        """Return the further jobs of this generation (resources.any_of) while none of them has the claim. `events`: the
        journal.
        """
        others = [str(event["job_id"]) for event in events if event["event"] == ALTERNATIVE and event.get("job_id")]
        return () if not others or self.claim() else tuple(others)

    def rejected(self, events: Sequence[Event] | None = None) -> str | None:
        """Return Slurm's message if it refused the newest submission, else None. `events`: the journal."""
        events = self.events() if events is None else events
        if events and events[-1]["event"] == "rejected":
            return str(events[-1].get("message", ""))
        return None

    def forget_secrets(self) -> bool:
        """Remove the secrets of a launch that has reached its final state. Return whether there were any."""
        try:
            os.unlink(self.file("secrets.env"))
        except OSError:
            return False
        return True


@dataclass(frozen=True)
class RunSnapshot(RunDirectory):
    """A run directory as it was when its files were read. `listed`: its names; `texts`: the content of its own files.

    Source of the values is memory; only the journal of a sweep's array is read when it is needed.
    """

    listed: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    _documents: dict[str, JsonObject | None] = field(default_factory=dict, compare=False, repr=False)

    def snapshot(self) -> RunSnapshot:
        """Return itself."""
        return self

    def text(self, name: str, most: int = state_files.MOST) -> str:
        """Return the text that one of its files had; "" if there was none."""
        return self.texts.get(name, "")

    def document(self, name: str) -> JsonObject | None:
        """Return the JSON object that one of its files had; None if there was none."""
        if name not in self._documents:
            self._documents[name] = super().document(name)
        return self._documents[name]

    def names(self, folder: str = "") -> list[str]:
        """Return the names that the run directory had, or those that a subfolder of it has now, sorted."""
        return super().names(folder) if folder else list(self.listed)


def _limit(name: str) -> int:
    """The size limit (bytes) of a file that says what became of a launch; 0 for all other names."""
    return _LIMITS.get(name) or (state_files.MOST if BEFORE.fullmatch(name) else 0)


@dataclass(frozen=True)
class Place:
    """The place of a sweep's element: `array` is SWEEP/NUMBER next to the runs, `task` the element's number in it."""

    array: str
    task: int

    def job_name(self, name: str) -> str:
        """Return the array's job name in Slurm, for the launch's `name`."""
        sweep, number = os.path.split(self.array)
        return f"{name}.{sweep.removeprefix(SWEEP_PREFIX)}.{number}"


def array_of(events: Sequence[Event]) -> Place | None:
    """Return the array in the newest intent of a generation; None for a separate job."""
    intents = [event for event in events if event["event"] == "intent"]
    if not intents or not intents[-1].get("array"):
        return None
    return Place(str(intents[-1]["array"]), int(intents[-1].get("task", 0)))


def as_element(events: Sequence[Event], task: int) -> list[Event]:
    """Convert the events of an array's journal to those of one of its tasks."""
    element_events = []
    for event in events:
        if event["event"] in ("submitted", "adopted", "rejected"):
            element_event = event.copy()
            if event.get("job_id"):
                element_event["job_id"] = f"{event['job_id']}_{task}"
            element_events.append(element_event)
    return element_events


def names_of_key(runs_dir: str) -> list[str]:
    """Return the names in the folder of one key. Raises `Untrusted` if another user could have created them."""
    root, run = state_files.of_run(os.path.join(runs_dir, "1"))
    return root.names(os.path.dirname(run))


def generations(runs_dir: str) -> list[RunDirectory]:
    """Return the generations of one key, oldest first. Raises `Untrusted`."""
    root, run = state_files.of_run(os.path.join(runs_dir, "1"))
    place = os.path.dirname(run)
    return [
        RunDirectory.below(os.path.join(runs_dir, str(number)), root, os.path.join(place, str(number)))
        for number in numbers_in(root.names(place))
    ]


def numbers_in(names: Iterable[str]) -> list[int]:
    """Return the numbers of the generations among the names in the folder of one key, sorted."""
    return sorted(int(name) for name in names if _GENERATION.fullmatch(name))


def is_event(event: JsonObject) -> bool:
    """Return whether a journal line is valid: its event, its time, and the values that other code relies on."""
    return (
        isinstance(event.get("event"), str)
        and state_files.is_time(event.get("time"))
        and (event.get("job_id") is None or state_files.is_job_id(event["job_id"]))
        and (event.get("array") is None or bool(_SWEEP_ARRAY.fullmatch(str(event["array"]))))
        and state_files.is_count(event.get("task", 0))
        and state_files.is_count(event.get("number") or 0)
    )


def attempt_of(document: JsonObject | None) -> JsonObject | None:
    """Return the document of an attempt (started.json, outcome.json) if its values are valid; else None."""
    if document is None:
        return None
    code = document.get("exit_code")
    right = (
        state_files.is_count(document.get("attempt") or 0)
        and all(document.get(name) is None or state_files.is_time(document[name]) for name in ("time", "started"))
        and (document.get("job_id") is None or state_files.is_job_id(str(document["job_id"])))
        and (code is None or (isinstance(code, int) and abs(code) < 1 << 31))
        and isinstance(document.get("artifact") or {}, dict)
        and isinstance(document.get("nodes") or [], list)
        and isinstance(document.get("unfit_nodes") or {}, dict)
        and isinstance(document.get("after_ranks") or "", str)
        and isinstance(document.get("trackers") or [], list)
        and state_files.is_count(document.get("world_size") or 0)
    )
    return document if right else None
