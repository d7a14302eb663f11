# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a poll asks a host and what it answers, as both sides of the connection type it.

The controller sends a `Request` with module job_wait (`x_poll`), which answers with a `Poll` (remote_poll.py). A poll
calls squeue at most once for jobs and once for steps. From each run directory it reads the claim, started.json,
outcome.json and the new bytes of one log. Reading files puts no load on Slurm, so it can be done often. All waits of
one user on one host share a budget of Slurm queries, which a small file on that host counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, made_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import Claim
from ansible_collections.rankzero.slurm.plugins.module_utils.run.documents import Outcome

if TYPE_CHECKING:
    from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord

LOG_BYTES = 16 * 1024


@dataclass(frozen=True)
class Target:
    """One launch to read: its run directory, its job, and how far (bytes) its log of `attempt` was read.

    `log`: the name of the log in the attempt's folder; empty selects the one that the job names (rank 0's). `whole`:
    read on from `offset` and skip nothing; otherwise, of more new bytes than one poll returns, only the newest.
    `artifact`: the path of the artifact, where it is to be checked. `state`: that of the last poll, as it returned it.
    """

    run_dir: str
    job_id: str
    attempt: int | None = None
    offset: int = 0
    log: str = ""
    whole: bool = False
    artifact: str = ""
    state: str = ""


@dataclass(frozen=True)
class Request:
    """What one poll reads: run directories, and the queue.

    `hold`: wait up to this many seconds for a change before reading. `jobs`: the ids to ask squeue about after that;
    it is not called without any, or where something has changed. `budget`: the maximum of queries a minute; 0 sets no
    limit. `log_bytes`: the most bytes of a log that is not read whole. `checker`: the modules of the runtime that check
    an artifact, as (name, source), each after those that it imports; empty where none is to be checked.
    """

    targets: tuple[Target, ...]
    jobs: tuple[str, ...] = ()
    budget: int = 0
    hold: float = 0.0
    log_bytes: int = LOG_BYTES
    checker: tuple[tuple[str, str], ...] = ()

    def as_dict(self) -> JsonObject:
        """As the module takes it."""
        return {**vars(self), "targets": [vars(target) for target in self.targets]}

    @classmethod
    def of(cls, given: JsonObject) -> Request:
        """What `as_dict` returned, after its way as JSON. Raises RankzeroError if another release sent it."""
        targets = tuple(made_of(Target, target) for target in given["targets"])
        checker = tuple((name, source) for name, source in given["checker"])
        return made_of(cls, {**given, "targets": targets, "jobs": tuple(given["jobs"]), "checker": checker})


@dataclass(frozen=True)
class LogChunk:
    """New bytes of a log: `content` was read from `start` on; `size` is the end of the part that was read or skipped;
    `age`: the seconds since the log was written.

    `content` is as the job wrote it: a module's results of that name are not made printable (core/printable.py).
    """

    attempt: int
    start: int
    size: int
    content: str
    age: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class Staging:
    """A copy of code or environment on its way to nodes: how many of them have it, and its size in bytes."""

    kind: str
    done: int
    nodes: int
    size: int


@dataclass(frozen=True)
class View:
    """What one poll read of one target.

    `local`: no job has claimed the run directory, which is on a disk of the host: what a job writes is seen at once.
    `untrusted`: why nothing in its run directory is trusted. `preflight`: before the ranks start, the number of nodes
    that were checked. `staging`: what is being copied to nodes that do not see it. `gate`: the roles that the
    deciding one waits for, and what they answered last. `state`: a word that changes when the job writes a file that
    decides something.
    """

    exists: bool = False
    local: bool = False
    claim: Claim | None = None
    started: Mapping[str, Any] | None = None
    outcome: Outcome | None = None
    log: LogChunk | None = None
    proven: bool = False
    untrusted: str = ""
    preflight: int | None = None
    staging: Staging | None = None
    gate: str = ""
    state: str = ""

    @property
    def launched(self) -> int:
        """The number of nodes on which the ranks were started; 0 before that."""
        started = self.started or {}
        return len(started.get("nodes") or []) if started.get("launched") else 0

    def as_dict(self) -> JsonObject:
        """As the module returns it."""
        parts = {"claim": self.claim, "log": self.log, "staging": self.staging}
        return {**vars(self), **{name: None if part is None else vars(part) for name, part in parts.items()}}

    @classmethod
    def of(cls, given: JsonObject) -> View:
        """What `as_dict` returned, after its way as JSON."""
        parts = {"claim": Claim, "log": LogChunk, "staging": Staging}
        made = {name: kind(**given[name]) for name, kind in parts.items() if given[name] is not None}
        return cls(**{**given, **made})


@dataclass(frozen=True)
class Poll:
    """One poll. `asked`: squeue ran. `silent`: why it gave no answer. `queue`: its rows by job id.

    `spent`: squeue was due, but the queries of this user and host for this minute are used up. `whole` is False when
    the connection cut the output short: then nothing in it may be used. `held`: how long (seconds) it waited for news.
    `clock`: the time on the host that answered, in epoch seconds.
    """

    whole: bool
    asked: bool = False
    silent: str = ""
    queue: Mapping[str, JobRecord] = field(default_factory=dict)
    views: tuple[View, ...] = ()
    warnings: tuple[str, ...] = ()
    spent: bool = False
    held: float = 0.0
    clock: float = 0.0

    def as_dict(self) -> JsonObject:
        """As the module returns it."""
        queue = {job_id: vars(record) for job_id, record in self.queue.items()}
        return {**vars(self), "queue": queue, "views": [view.as_dict() for view in self.views]}

    @classmethod
    def of(cls, given: JsonObject | None) -> Poll:
        """What `as_dict` returned, after its way as JSON. None: there is no answer that could be read."""
        if given is None:
            return cls(whole=False)
        # The host needs no records where it asks nothing of Slurm.
        from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord

        queue = {job_id: JobRecord(**record) for job_id, record in given["queue"].items()}
        return cls(**{**given, "queue": queue, "views": tuple(map(View.of, given["views"]))})
