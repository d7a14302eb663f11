# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The requests that the actions `job_logs` and `job_pull` send to their modules, and the answers. Data only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, ModuleResult, made_of


@dataclass(frozen=True)
class Holding:
    """The part of one file that is here: up to `offset` of the original; its last `length` bytes are hashed.

    `skipped`: how many bytes of the beginning are not here.
    """

    offset: int
    length: int
    digest: str
    skipped: int = 0


@dataclass(frozen=True)
class Part:
    """Bytes [start, start + bytes) of a log that had `size` bytes. `restart`: they replace what was fetched before.

    `source`: the log that they come from, where it differs from `path`, the file that they are written to.
    """

    path: str
    start: int
    bytes: int
    size: int
    restart: bool
    source: str = ""

    @property
    def origin(self) -> str:
        """The log to read: `source`, else `path`."""
        return self.source or self.path


@dataclass(frozen=True)
class FetchRequest:
    """What the controller asks of one round. The default moves nothing and only identifies the launch.

    `have`: the files here, by path. `tail_bytes` and `head_bytes`: as in module `job_logs`. `budget`: bytes of logs in
    one archive. `folder`: where the archive is written; None means the system's temporary folder. `ask`: whether Slurm
    may be asked if the launch is over. `digests`: compare the files with `have` instead (module `job_pull`).
    """

    have: Mapping[str, Holding] = field(default_factory=dict)
    tail_bytes: int = 0
    head_bytes: int = 0
    budget: int = 0
    folder: str | None = None
    ask: bool = False
    digests: bool = False

    @classmethod
    def of(cls, given: JsonObject) -> FetchRequest:
        """Build the request from the module's argument. Raises RankzeroError."""
        have = {path: made_of(Holding, held) for path, held in given.get("have", {}).items()}
        return made_of(cls, {**given, "have": have})

    def arguments(self) -> JsonObject:
        """Return the request as it is sent to the module."""
        return asdict(self)


@dataclass(frozen=True)
class Fetched:
    """The logs of one round.

    `more`: another round is needed. `left`: about how many bytes further rounds will move. `archive`: the file on the
    cluster, None if there is nothing to move.
    """

    parts: Sequence[Part]
    more: bool
    left: int
    notes: Sequence[str]
    archive: str | None
    archive_bytes: int


@dataclass(frozen=True)
class Round:
    """The module's answer to a `FetchRequest`.

    `origin` distinguishes run directories (`archive.origin_of`). `over`: the launch has ended. `choice`: which launch
    the task's name was taken to mean, if there were several.
    """

    run_dir: str
    origin: str
    over: bool
    choice: str | None
    fetched: Fetched
    job_id: str | None = None

    @classmethod
    def of(cls, result: ModuleResult) -> Round:
        """Read the answer from the module's result."""
        parts = [Part(**part) for part in result["parts"]]
        rest = {name: result[name] for name in ("more", "left", "notes", "archive", "archive_bytes")}
        fetched = Fetched(parts, **rest)
        where = {name: result[name] for name in ("run_dir", "origin", "over", "choice", "job_id")}
        return cls(**where, fetched=fetched)

    def result(self) -> ModuleResult:
        """Return the result of the module."""
        answer = {name: value for name, value in asdict(self).items() if name != "fetched"}
        return {"changed": False, **answer, **asdict(self.fetched)}
