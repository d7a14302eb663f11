# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run directory says of its launch: RUN = <state_root>/runs/<name>/<key[:16]>/<generation>/. Reads only.

Every part may be missing or torn (a killed controller, a purged file system, a launch of another version): what cannot
be read is a sentence in `problems`, never a crash.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.errors import RankzeroError

KEY_LENGTH = 16


@dataclass(frozen=True)
class Claim:
    """Who owns the generation, as the job itself wrote it: "<generation> <cluster> <job id>"."""

    generation: str
    cluster: str
    job_id: str


@dataclass(frozen=True)
class RunFiles:
    """One run directory as it was read. `started` and `outcome` are the job's own JSON, None where missing."""

    run_dir: str
    name: str
    key: str
    generation: int
    journal: tuple[Mapping[str, Any], ...] = ()
    claim: Claim | None = None
    started: Mapping[str, Any] | None = None
    outcome: Mapping[str, Any] | None = None
    attempts: tuple[int, ...] = ()
    problems: tuple[str, ...] = field(default=())

    @property
    def job_name(self) -> str:
        """The name under which Slurm knows the job."""
        return f"{self.name}.{self.key[:KEY_LENGTH]}.{self.generation}"

    @property
    def job_id(self) -> str | None:
        """The job that owns this generation: the claim's, else the newest id in the journal."""
        if self.claim is not None:
            return self.claim.job_id
        ids = [str(entry["job_id"]) for entry in self.journal if entry.get("job_id")]
        return ids[-1] if ids else None

    @property
    def attempt(self) -> int:
        """The newest attempt that left a trace here (0 is the first one)."""
        seen = [int(part.get("attempt") or 0) for part in (self.started, self.outcome) if part]
        return max([*seen, *self.attempts, 0])

    @property
    def verdict(self) -> Mapping[str, Any] | None:
        """The outcome of the newest attempt; None while that one has not ended, or ended without saying so."""
        if self.outcome is None or int(self.outcome.get("attempt") or 0) < self.attempt:
            return None
        return self.outcome

    def event_time(self, event: str) -> float | None:
        """When `event` was last journalled (epoch seconds)."""
        times = [entry["time"] for entry in self.journal if entry.get("event") == event and "time" in entry]
        return float(times[-1]) if times else None


def parse_claim(text: str) -> Claim | None:
    """The claim of a claim file's text, or None where it is not one."""
    words = text.split()
    return Claim(*words) if len(words) == 3 else None


def parse_document(text: str) -> Mapping[str, Any] | None:
    """A JSON object whose numbers have the types that readers rely on; None for anything else."""
    try:
        document = json.loads(text)
    except ValueError:
        return None
    if not isinstance(document, dict) or not isinstance(document.get("attempt", 0), int):
        return None
    return document


def parse_journal(text: str) -> tuple[list[Mapping[str, Any]], list[str]]:
    """Entries and problems of a journal, one JSON object a line. A torn last line (a killed writer) is a problem."""
    entries: list[Mapping[str, Any]] = []
    problems: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if isinstance(entry, dict) and isinstance(entry.get("event"), str):
            entries.append(entry)
        else:
            problems.append(f"journal.jsonl: line {number} is no journal entry")
    return entries, problems


def identity(run_dir: str) -> tuple[str, str, int]:
    """Name, key (its first 16 characters) and generation that the path of a run directory states."""
    parts = os.path.normpath(run_dir).split(os.sep)
    if len(parts) < 4 or not parts[-1].isdecimal():
        raise RankzeroError(
            f"run_dir: {run_dir!r} is not a run directory; expected <state_root>/runs/<name>/<key>/<generation>, "
            "as the module job returns it."
        )
    return parts[-3], parts[-2], int(parts[-1])


def read_run(run_dir: str) -> RunFiles:
    """Read one run directory. Raises `RankzeroError` where the path is none or there is nothing at it."""
    name, key, generation = identity(run_dir)
    try:
        # Listing makes a network file system look again before a name is believed to be missing.
        present = set(os.listdir(run_dir))
    except OSError as error:
        raise RankzeroError(
            f"run_dir: {run_dir} cannot be read on this host: {error.strerror}. It is made by the module job; "
            "is state_root the same, and was it purged?"
        ) from error
    problems: list[str] = []

    def text_of(name: str) -> str | None:
        if name not in present:
            return None
        try:
            with open(os.path.join(run_dir, name), encoding="utf-8", errors="replace") as stream:
                return stream.read()
        except OSError as error:
            problems.append(f"{name}: cannot be read: {error.strerror}")
            return None

    def document_of(name: str) -> Mapping[str, Any] | None:
        text = text_of(name)
        document = None if text is None else parse_document(text)
        if text is not None and document is None:
            problems.append(f"{name}: is not the JSON object that a job writes")
        return document

    journal, torn = parse_journal(text_of("journal.jsonl") or "")
    problems += torn
    claim = parse_claim(text_of("claim") or "")
    return RunFiles(
        run_dir=run_dir,
        name=name,
        key=key,
        generation=generation,
        journal=tuple(journal),
        claim=claim,
        started=document_of("started.json"),
        outcome=document_of("outcome.json"),
        attempts=_attempts(os.path.join(run_dir, "logs")),
        problems=tuple(problems),
    )


def _attempts(logs_dir: str) -> tuple[int, ...]:
    try:
        return tuple(sorted(int(entry) for entry in os.listdir(logs_dir) if entry.isdecimal()))
    except OSError:
        return ()


def _children(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())
    except OSError:
        return []


def find_runs(
    state_root: str,
    *,
    name: str | None = None,
    key: str | None = None,
    generation: int | None = None,
) -> list[str]:
    """Run directories under `state_root` that match, ordered by name, key and generation.

    `key` may be given whole or by its beginning.
    """
    runs = os.path.join(state_root, "runs")
    found: list[tuple[str, str, int]] = []
    for one_name in [name] if name is not None else _children(runs):
        for one_key in _children(os.path.join(runs, one_name)):
            if key is not None and not one_key.startswith(key[:KEY_LENGTH]):
                continue
            for entry in _children(os.path.join(runs, one_name, one_key)):
                if entry.isdecimal() and generation in (None, int(entry)):
                    found.append((one_name, one_key, int(entry)))
    return [os.path.join(runs, *map(str, parts)) for parts in sorted(found)]
