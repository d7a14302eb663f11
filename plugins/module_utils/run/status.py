# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the status of a launch from its run directory and Slurm's answer.

All callers that need the status (submission, sweeps, waiting, job_info, prune, reconcile, diagnosis) use `status_of`
and make no decision of their own, so that they never report different states for the same launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Untrusted
from ansible_collections.rankzero.slurm.plugins.module_utils.run import steps
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.documents import Event, Left, Outcome, Started
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import escaped, is_launch
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import (
    ACTIVE,
    FAILED,
    RUNNING,
    SUCCEEDED,
    UNKNOWN,
    UNPROVEN,
    UNSUBMITTED,
    WAITING,
    WITHDRAWN,
    Standing,
    withdrawn,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.parse import launch_id

# Which parts of Slurm have answered: NOT_ASKED: nothing was asked. SILENT: nothing answered. QUEUE: only the queue
# answered, so a job that is missing may have ended in any way. EVERYTHING: all sources that remember jobs on this
# cluster answered, so a job that is missing is gone.
NOT_ASKED, SILENT, QUEUE, EVERYTHING = "not asked", "silent", "queue", "everything"

# Values of `ended_by` in an outcome after which Slurm may start another attempt of the same job.
_ANOTHER_MAY_FOLLOW = ("signal", "requeue")


@dataclass(frozen=True)
class RunFacts:
    """The content of a run directory.

    `refusal`: Slurm's message if it refused the submission. `events`: the journal. `left`: the files of earlier
    attempts, as in `RunDirectory.before`. `others`: further jobs while none has the claim (resources.any_of). `grant`:
    what lets it run, where several clusters were asked; `asks`: whether its job waits for that.
    """

    run: RunDirectory
    job_id: str | None = None
    refusal: str | None = None
    outcome: Outcome | None = None
    started: Started | None = None
    events: Sequence[Event] = ()
    left: Mapping[int, Left] = field(default_factory=dict)
    others: Sequence[str] = ()
    grant: str = ""
    asks: bool = False

    def settled(self, before: float) -> bool:
        """Return whether a final outcome is recorded that is older than `before` (epoch seconds)."""
        outcome = self.outcome
        if outcome is None or not 0 < float(outcome.get("time") or 0) < before:
            return False
        return outcome.get("success") is True or outcome.get("ended_by") not in _ANOTHER_MAY_FOLLOW

    @classmethod
    def read(cls, run: RunDirectory, arrays: dict[str, list[Event]] | None = None) -> RunFacts:
        """Read a run directory. `arrays`: as in `RunDirectory.events`.

        Raises `Untrusted` if another user could have written any of its files, or for a name that no launch has.
        """
        if not is_launch(run.path):
            raise Untrusted(
                f"{escaped(run.path)} has a name that the collection gives to no launch; find out who made it, and "
                "remove it"
            )
        read = run.snapshot()
        events = read.events(arrays)
        ids = read.job_id(events), read.rejected(events)
        grant, asks = read.text("grant").strip(), bool(read.text("asks").strip())
        others = read.other_jobs(events)
        return cls(run, *ids, read.outcome(), read.started(), events, read.before(), others, grant, asks and not grant)


def trusted_runs(runs: Iterable[RunDirectory]) -> tuple[dict[str, RunFacts], dict[str, str]]:
    """Read run directories: (path -> facts, path -> reason for runs that another user could have written).

    One untrusted run costs only its own row in a report.
    """
    trusted: dict[str, RunFacts] = {}
    refused: dict[str, str] = {}
    arrays: dict[str, list[Event]] = {}
    for run in runs:
        try:
            trusted[run.path] = RunFacts.read(run, arrays)
        except Untrusted as error:
            refused[run.path] = error.message
    return trusted, refused


@dataclass(frozen=True)
class JobAnswer:
    """Slurm's answer about a launch's job: its record (None if there is no such job), and which parts answered."""

    record: JobRecord | None = None
    heard: str = EVERYTHING


UNASKED = JobAnswer(heard=NOT_ASKED)


@dataclass(frozen=True)
class LaunchStatus:
    """The status of one generation of a launch.

    `standing`: what has become of it. `record`: Slurm's record, if it knows the job. `outcome`: that of the newest
    attempt, None until there is one. `attempt`: the newest attempt that any source knows; the first is 0.
    """

    standing: Standing
    facts: RunFacts
    job_id: str | None = None
    record: JobRecord | None = None
    outcome: Outcome | None = None
    attempt: int = 0
    message: str = ""

    @property
    def run(self) -> RunDirectory:
        """The run directory of this launch."""
        return self.facts.run

    @property
    def jobs(self) -> list[str]:
        """All jobs of the launch that may wait or run: what a cancellation ends."""
        known = [self.facts.job_id, *self.facts.others] if self.facts.others else [self.job_id]
        return [job_id for job_id in known if job_id is not None]

    @property
    def over(self) -> bool:
        """Whether the launch has ended."""
        return self.standing == SUCCEEDED or self.standing in UNPROVEN

    @property
    def active(self) -> bool:
        """Whether the job waits or runs, as far as Slurm knows."""
        return self.standing in ACTIVE

    @property
    def may_run(self) -> bool:
        """Whether there is a job that, as far as is known, has not ended."""
        return self.active or (self.standing == UNKNOWN and self.job_id is not None)

    @property
    def in_queue(self) -> bool:
        """Whether Slurm still shows the job. It does so for a short time after the end, while it closes the job."""
        return self.record is not None and self.record.active

    @property
    def pending(self) -> bool:
        """Whether the job waits for its start or its next start."""
        return self.standing == WAITING

    def cancelled_for(self, now: float) -> float | None:
        """Return how many seconds ago the active job was cancelled if it is about to end; None if it is not.

        The journal records each request to cancel. Slurm closes a cancelled job (COMPLETING) until all its nodes are
        free; a step has CANCEL_SECONDS. A job that Slurm started again since is not about to end.
        """
        asked = [event["time"] for event in self.facts.events if event["event"] == "cancelled"]
        if not self.active or self.record is None or not asked or asked[-1] < (self.record.start or 0.0):
            return None
        passed = max(0.0, now - asked[-1])
        closing = passed < steps.CANCEL_SECONDS if steps.is_step(self.job_id) else self.record.state == "COMPLETING"
        return passed if closing else None

    def wants_new(self, relaunch: str) -> bool:
        """Return whether the policy `relaunch` requires another generation, or another submission where no job came."""
        if not self.over:
            return self.standing == UNSUBMITTED
        return relaunch == "always" or (relaunch == "on_failure" and self.standing in UNPROVEN)

    def decided(self, **partial: object) -> LaunchStatus:
        """Return the status if it is decided. Raises `SlurmUnavailable` (with `partial`) if only Slurm can tell."""
        if self.standing == UNKNOWN:
            raise SlurmUnavailable(self.message, **partial, job_id=self.job_id)
        return self


def status_of(facts: RunFacts, answer: JobAnswer = UNASKED) -> LaunchStatus:
    """Decide the status of a launch.

    `facts` must be read after Slurm was asked, because a job writes its outcome before it leaves the queue.
    """
    record = steps.judged(answer.record, facts.outcome)
    job_id = launch_id(record.job_id) if record is not None else facts.job_id
    if job_id is None and facts.outcome is not None and facts.outcome.get("success") and facts.outcome.get("job_id"):
        job_id = str(facts.outcome["job_id"])
    attempt = _attempt(facts, record)
    outcome = facts.outcome
    if outcome is not None and not outcome.get("success") and int(outcome.get("attempt") or 0) < attempt:
        # The job has been started again since this outcome.
        outcome = None
    standing, message = _decide(replace(facts, job_id=job_id, outcome=outcome), record, answer.heard)
    why = withdrawn(facts.grant) if standing == FAILED else ""
    if why:
        standing, message = WITHDRAWN, f"{WITHDRAWN}: {why}"
    return LaunchStatus(standing, facts, job_id, record, outcome, attempt, message)


def _attempt(facts: RunFacts, record: JobRecord | None) -> int:
    seen = [int((document or {}).get("attempt") or 0) for document in (facts.started, facts.outcome)]
    # Slurm counts a requeue also where the script of the start before it came late and was the launch's own attempt. Of
    # a job that has ended with a verdict, no attempt followed that one.
    judged = facts.outcome is not None and facts.outcome.get("ended_by") not in _ANOTHER_MAY_FOLLOW
    if record is not None and record.restarts and not (judged and record.final):
        seen.append(record.restarts)
    return max(seen)


def _decide(facts: RunFacts, record: JobRecord | None, heard: str) -> tuple[Standing, str]:
    """Return (standing, explanation)."""
    outcome, message = facts.outcome, str((facts.outcome or {}).get("message") or "")
    if outcome is not None and outcome.get("success"):
        return SUCCEEDED, message
    if facts.job_id is None:
        if facts.refusal is not None:
            return FAILED, f"Slurm refused it: {facts.refusal}"
        if heard in (NOT_ASKED, SILENT):
            return UNKNOWN, (
                f"no job of {facts.run.path} is recorded, and Slurm has not answered whether there is one."
            )
        return UNSUBMITTED, ""
    verdict = outcome is not None and outcome.get("ended_by") not in _ANOTHER_MAY_FOLLOW
    # A job that was requeued after its outcome is pending again and may still succeed. A job that still runs is closing
    # down.
    if verdict and heard != NOT_ASKED and not (record is not None and record.pending):
        return FAILED, message
    if record is not None:
        if record.active:
            return (WAITING if record.pending else RUNNING), ""
        return FAILED, steps.describe_end(record)
    if heard != EVERYTHING:
        return UNKNOWN, (
            f"job {facts.job_id} is not in the queue and accounting is silent: its end is unknown. Try again later."
            if heard == QUEUE
            else f"Slurm has not answered what happened to job {facts.job_id}."
        )
    return FAILED, "the job is gone from Slurm and left no verdict"
