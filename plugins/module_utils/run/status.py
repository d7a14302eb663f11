# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of a launch: one function decides it, from what the run directory holds and what Slurm answered.

Whoever needs to know (submission, sweeps, waiting, job_info, prune, reconcile, diagnosis) calls `status_of` and decides
nothing on its own, so that no two of them tell different things of the same launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.run import steps
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.documents import Event, Outcome, Started
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord, launch_id

# The states of a launch. It waits, runs or may be requeued:
ACTIVE = "active"
# The artifact is proven. This is final, whatever Slurm does with the job afterwards.
SUCCEEDED = "succeeded"
FAILED = "failed"
# An intent to submit is recorded and nobody knows a job of it: it may be submitted once more.
LOST = "unknown"
# Only Slurm could tell, and it was not asked or did not answer.
UNDECIDED = "undecided"

# How much of Slurm has answered: nothing was asked; nobody answered; only the queue did, so that a job that is not
# there may have ended in any way; or everybody who remembers jobs here, so that a job that is not there is gone.
NOT_ASKED, SILENT, QUEUE, EVERYTHING = "not asked", "silent", "queue", "everything"

# How an attempt ended (`ended_by` of its outcome) after which Slurm may start another one of the same job.
_ANOTHER_MAY_FOLLOW = ("signal", "requeue")


@dataclass(frozen=True)
class RunFacts:
    """What a run directory says. `refusal`: Slurm's words where it refused the submission; `events`: its journal."""

    run: RunDirectory
    job_id: str | None = None
    refusal: str | None = None
    outcome: Outcome | None = None
    started: Started | None = None
    events: Sequence[Event] = ()

    @classmethod
    def read(cls, run: RunDirectory, arrays: dict[str, list[Event]] | None = None) -> RunFacts:
        """Raises `Untrusted` where another user could have written something of it. `arrays`: as of `events`."""
        events = run.events(arrays)
        return cls(run, run.job_id(events), run.rejected(events), run.outcome(), run.started(), events)


@dataclass(frozen=True)
class JobAnswer:
    """What Slurm said of a launch's job: its record, None where it shows no such job, and how much of it answered."""

    record: JobRecord | None = None
    heard: str = EVERYTHING


UNASKED = JobAnswer(heard=NOT_ASKED)


@dataclass(frozen=True)
class LaunchStatus:
    """What became of one generation of a launch.

    `record`: Slurm's, where it knows the job. `outcome`: the verdict of the newest attempt, None while there is none.
    `attempt`: the newest one that anybody knows of; the first is 0.
    """

    state: str
    facts: RunFacts
    job_id: str | None = None
    record: JobRecord | None = None
    outcome: Outcome | None = None
    attempt: int = 0
    message: str = ""

    @property
    def run(self) -> RunDirectory:
        """The run directory that the status is of."""
        return self.facts.run

    @property
    def over(self) -> bool:
        """Nothing more is to come."""
        return self.state in (SUCCEEDED, FAILED)

    @property
    def may_run(self) -> bool:
        """There is a job, and for all that is known it has not ended."""
        return self.state == ACTIVE or (self.state == UNDECIDED and self.job_id is not None)

    @property
    def in_queue(self) -> bool:
        """Slurm still shows the job. After the end of a launch it does so while it closes the job."""
        return self.record is not None and self.record.active

    @property
    def pending(self) -> bool:
        """The job waits for its start, or for its next one."""
        return self.state == ACTIVE and self.record is not None and self.record.pending

    @property
    def standing(self) -> str:
        """The state as modules return it."""
        return LOST if self.state == UNDECIDED else self.state

    def wants_new(self, relaunch: str) -> bool:
        """Whether the policy asks for another generation, or for the lost submission once more."""
        if not self.over:
            return self.state == LOST
        return relaunch == "always" or (relaunch == "on_failure" and self.state == FAILED)

    def decided(self, **partial: object) -> LaunchStatus:
        """The status, for those who act on it. Raises `SlurmUnavailable` (with `partial`) where only Slurm can tell."""
        if self.state == UNDECIDED:
            raise SlurmUnavailable(self.message, **partial, job_id=self.job_id)
        return self


def status_of(facts: RunFacts, answer: JobAnswer = UNASKED) -> LaunchStatus:
    """What became of a launch. `facts` are read after Slurm was asked: a job writes its outcome before it leaves the
    queue.
    """
    record = steps.judged(answer.record, facts.outcome)
    job_id = launch_id(record.job_id) if record is not None else facts.job_id
    if job_id is None and facts.outcome is not None and facts.outcome.get("success") and facts.outcome.get("job_id"):
        job_id = str(facts.outcome["job_id"])
    attempt = _attempt(facts, record)
    outcome = facts.outcome
    if outcome is not None and not outcome.get("success") and int(outcome.get("attempt") or 0) < attempt:
        # The job was started again since.
        outcome = None
    state, message = _decide(replace(facts, job_id=job_id, outcome=outcome), record, answer.heard)
    return LaunchStatus(state, facts, job_id, record, outcome, attempt, message)


def _attempt(facts: RunFacts, record: JobRecord | None) -> int:
    seen = [int((document or {}).get("attempt") or 0) for document in (facts.started, facts.outcome)]
    if record is not None and record.restarts:
        seen.append(record.restarts)
    return max(seen)


def _decide(facts: RunFacts, record: JobRecord | None, heard: str) -> tuple[str, str]:
    """(state, why)."""
    outcome, said = facts.outcome, str((facts.outcome or {}).get("message") or "")
    if outcome is not None and outcome.get("success"):
        return SUCCEEDED, said
    if facts.job_id is None:
        if facts.refusal is not None:
            return FAILED, f"Slurm refused it: {facts.refusal}"
        if heard in (NOT_ASKED, SILENT):
            return UNDECIDED, (
                f"no job of {facts.run.path} is recorded, and Slurm has not answered whether there is one."
            )
        return LOST, ""
    verdict = outcome is not None and outcome.get("ended_by") not in _ANOTHER_MAY_FOLLOW
    # A job that was requeued after its verdict waits once more, and may yet succeed. One that still runs closes down.
    if verdict and heard != NOT_ASKED and not (record is not None and record.pending):
        return FAILED, said
    if record is not None:
        return (ACTIVE, "") if record.active else (FAILED, steps.describe_end(record))
    if heard != EVERYTHING:
        return UNDECIDED, (
            f"job {facts.job_id} is not in the queue and accounting is silent: its end is unknown. Try again later."
            if heard == QUEUE
            else f"Slurm has not answered what happened to job {facts.job_id}."
        )
    return FAILED, "the job is gone from Slurm and left no verdict"
