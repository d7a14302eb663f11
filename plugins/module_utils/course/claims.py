# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a run directory claims. A student could have written all of it, so it is checked against Slurm."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath, File
from ansible_collections.rankzero.slurm.plugins.module_utils.core.state_files import json_object
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import Claim
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import KEY, Identity

# The limit of a file that is read, and of the first lines of a log, in bytes.
SMALL, HEAD, FIRST_LINES = 1 << 20, 1 << 16, 1 << 13
# Of one student's folder: keys, generations that are read, and bytes of JSON and tables. The newest generations are
# read first; what is beyond the limits counts as missing.
MOST_KEYS, MOST_RUNS, MOST_BYTES = 500, 200, 8 << 20
_JOB_ID = re.compile(r"[0-9]{1,10}")
_SANITY = re.compile(
    r"^\[rankzero\] RANK=(\d{1,6}) LOCAL_RANK=(\d{1,6}) WORLD_SIZE=(\d{1,6}) NODE_RANK=(\d{1,6}) host=(\S{1,255}) "
    r"attempt=(\d{1,6}) ",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Sanity:
    """The first line of a rank's log."""

    rank: int
    world_size: int
    host: str
    file: str


@dataclass(frozen=True)
class Claims:
    """One generation of a launch. `path`: the run directory. `home`: the student's folder. Times are in epoch seconds.

    `files`: the files that the verdict is based on, by path in the run directory. A file that was changed after the
    job's end proves nothing about the job.
    """

    path: str
    name: str
    key: str
    generation: int
    job_id: str = ""
    submitted: float | None = None
    started: Mapping[str, Any] = field(default_factory=dict)
    outcome: Mapping[str, Any] = field(default_factory=dict)
    launch: JsonObject = field(default_factory=dict)
    result: Mapping[str, Any] = field(default_factory=dict)
    preflight: Sequence[str] = ()
    sanity: Sequence[Sanity] = ()
    files: Mapping[str, File] = field(default_factory=dict)

    @property
    def job_name(self) -> str:
        """The Slurm job name of the claimed launch."""
        return Identity(self.name, self.key, self.generation).job_name

    @property
    def nodes(self) -> int | None:
        """The number of nodes that the launch requested, from its record."""
        asked = self.launch.get("spec", {})
        asked = asked.get("resources", {}) if isinstance(asked, dict) else {}
        text = str(asked.get("nodes", 1)) if isinstance(asked, dict) else ""
        return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else None

    @property
    def attempt(self) -> int:
        """The attempt number in started.json; 0 if it is missing or not plausible."""
        number = self.started.get("attempt")
        return number if isinstance(number, int) and 0 <= number < 10000 else 0


def runs_of(home: str, job: str, handed_in: HandedIn) -> list[Claims]:
    """The generations of the launches named `job` in a student's folder, ordered by key and generation."""
    beneath, left = Beneath(home), Left()
    place = f"state/runs/{job}"
    keys = list(filter(KEY.fullmatch, beneath.folders(place)))[:MOST_KEYS]
    runs_found: list[tuple[float, str, int]] = []
    for key in sorted(keys, key=lambda key: beneath.changed(f"{place}/{key}"), reverse=True):
        generations = [name for name in beneath.folders(f"{place}/{key}") if re.fullmatch(r"[0-9]{1,6}", name)]
        for name in sorted(generations, key=int)[-MOST_RUNS:]:
            runs_found.append((beneath.changed(f"{place}/{key}/{name}"), key, int(name)))
        if len(runs_found) > 2 * MOST_RUNS:
            break
    newest = sorted(runs_found, reverse=True)[:MOST_RUNS]
    runs = [claims_of(beneath, left, (job, key, generation), handed_in) for _at, key, generation in newest]
    return sorted(runs, key=lambda run: (run.key, run.generation))


@dataclass(frozen=True)
class HandedIn:
    """What a run is looked at for: its artifact and other files in the working directory, and the number of its logs,
    one for each rank and one for each node.
    """

    artifact: str
    saved: Sequence[str]
    logs: int


@dataclass
class Left:
    """What may still be read of a student's folder: bytes that are kept."""

    data: int = MOST_BYTES


def claims_of(beneath: Beneath, left: Left, launch: tuple[str, str, int], handed_in: HandedIn) -> Claims:
    """Read one run directory. What is missing or truncated is empty. `launch`: its name, key and generation."""
    job, key, generation = launch
    place = f"state/runs/{job}/{key}/{generation}"
    files: dict[str, File] = {}

    def read(name: str, most: int = SMALL) -> str:
        content = beneath.file(f"{place}/{name}", min(most, left.data))
        if content is None:
            return ""
        # Only what is parsed is kept: a class has thousands of logs.
        files[name] = replace(content, data=b"")
        left.data -= len(content.data)
        return content.text

    claim = Claim.of(read("claim", 4096))
    started = _object(read("started.json"))
    known = Claims(beneath.root, job, key, generation, started=started)
    sanity = _ranks(beneath, known, handed_in.logs, files)
    table = read(f"preflight/{known.attempt}/table")
    for name in handed_in.saved:
        read(f"work/{name}", 0)
    return Claims(
        path=f"{beneath.root}/{place}",
        name=job,
        key=key,
        generation=generation,
        job_id=claim.job_id if claim and claim.generation == generation and _JOB_ID.fullmatch(claim.job_id) else "",
        submitted=_first_time(beneath.text(f"{place}/journal.jsonl", HEAD)),
        started=started,
        outcome=_object(read("outcome.json")),
        launch=_object(read("launch.json")),
        result=_object(read(f"work/{handed_in.artifact}")),
        preflight=table.splitlines(),
        sanity=sanity,
        files=files,
    )


def _ranks(beneath: Beneath, known: Claims, most: int, files: dict[str, File]) -> list[Sanity]:
    """What the ranks reported in the first lines of their logs, of which at most `most` are read.

    A log with several names would count as several.
    """
    place, logs, sanity = f"state/runs/{known.name}/{known.key}/{known.generation}", f"logs/{known.attempt}", []
    names = beneath.names(f"{place}/{logs}")
    of_ranks = [name for name in names if name.endswith((".log", ".out")) and not name.startswith((".", "step."))]
    for name in of_ranks[:most]:
        log = beneath.file(f"{place}/{logs}/{name}", FIRST_LINES)
        if log is None or log.links != 1:
            continue
        files[f"{logs}/{name}"] = replace(log, data=b"")
        for line in _SANITY.finditer(log.text):
            if int(line[6]) == known.attempt:
                sanity.append(Sanity(int(line[1]), int(line[3]), line[5], f"{logs}/{name}"))
    return sanity


def _object(text: str) -> dict[str, Any]:
    return json_object(text) or {}


def _first_time(journal: str) -> float | None:
    event = _object(journal.partition("\n")[0])
    moment = event.get("time")
    return float(moment) if isinstance(moment, (int, float)) and not isinstance(moment, bool) else None
