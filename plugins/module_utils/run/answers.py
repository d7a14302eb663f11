# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask Slurm about the outcome of launches. Readers and submitters use the same look-up.

One query serves all launches, even a thousand elements of a sweep. A `Policy` defines what the caller does besides
asking: a reader does not wait and writes nothing; a submitter (submit/patience.py) waits and records what it learns.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.run import steps
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory, array_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.documents import Event
from ansible_collections.rankzero.slurm.plugins.module_utils.run.jobs_of import by_name, own
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import identity
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import UNDECIDED
from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import (
    EVERYTHING,
    QUEUE,
    SILENT,
    JobAnswer,
    LaunchStatus,
    RunFacts,
    status_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import (
    CLOCK_SLACK,
    DEFAULT_REACH,
    JobRecord,
    base_id,
    find_by_id,
    query_sacct,
)


@dataclass(frozen=True)
class Policy:
    """What a caller does besides asking Slurm. This base class only reads: it does not wait and writes nothing.

    `decided`: whether Slurm is also asked about launches that are decided by their run directory, and about the
    attempts before a requeue, which a report lists.
    """

    decided: bool

    def adopt(self, owner: RunDirectory, job_id: str) -> None:
        """Called when a job was found by its name and the journal of `owner` does not contain its id."""

    def waits_for_job(self, events: Sequence[Event], since: float) -> bool:
        """Return whether to ask again for a job that Slurm does not know. `since`: time of the first query (epoch
        seconds).
        """
        return False

    def waits_for_outcome(self, record: JobRecord) -> bool:
        """Return whether to read the outcome of an ended job again if it is still missing."""
        return False

    def close(self, run: RunDirectory) -> None:
        """Called when a launch is over."""

    def now(self) -> float:
        """Return the current time in epoch seconds."""
        return time.time()

    def pause(self) -> None:
        """Wait until the next query."""


LOOK = Policy(decided=True)


@dataclass
class _Generation:
    """A generation that Slurm is asked about.

    `name`: the name of its job; for an element of a sweep, the name of the array. `owner`: the run directory whose
    journal records that job. `task`: the element's number in the array.
    """

    facts: RunFacts
    name: str
    owner: RunDirectory
    task: int | None = None
    record: JobRecord | None = None
    asked: bool = False

    @property
    def run(self) -> RunDirectory:
        return self.facts.run

    @property
    def job_id(self) -> str | None:
        return self.facts.job_id

    @property
    def since(self) -> float | None:
        return next((float(event["time"]) for event in self.facts.events), None)


@dataclass
class SlurmAnswer:
    """Slurm's answer about some launches.

    `silence`: the error if Slurm did not answer. `queue_only`: accounting, which remembers jobs that have left the
    queue, did not answer.
    """

    generations: dict[str, _Generation] = field(default_factory=dict)
    silence: SlurmUnavailable | None = None
    queue_only: bool = False
    # The journals of arrays, read after Slurm has answered.
    journals: dict[str, list[Event]] = field(default_factory=dict)

    @property
    def silent(self) -> str:
        """The error message if Slurm did not answer, else empty."""
        return self.silence.message if self.silence else ""

    def status(self, run: RunDirectory) -> LaunchStatus:
        """Return the status of one of the launches. Its run directory is read now, after Slurm has answered."""
        known = self.generations[run.path]
        if not known.asked:
            return status_of(known.facts)
        facts = RunFacts.read(run, self.journals)
        if facts.job_id is None:
            # A job id that was found by name may not be recorded.
            facts = replace(facts, job_id=known.job_id)
        facts = replace(facts, outcome=facts.outcome or known.facts.outcome)
        if facts.job_id != known.job_id:
            # Another job has claimed the launch in the meantime.
            return status_of(facts)
        heard = SILENT if self.silence else QUEUE if self.queue_only else EVERYTHING
        return status_of(facts, JobAnswer(known.record, heard))


def ask_slurm(slurm: Slurm, runs: Iterable[RunDirectory], policy: Policy = LOOK) -> SlurmAnswer:
    """Ask Slurm about the jobs of some launches. If Slurm does not answer, the result says so; no error is raised."""
    lookup = _Lookup(slurm, policy)
    known = [lookup.read(run) for run in runs]
    answer = SlurmAnswer({one.run.path: one for one in known})
    wanted = [one for one in known if policy.decided or status_of(one.facts).state == UNDECIDED]
    for one in wanted:
        one.asked = True
    try:
        lookup.ask(wanted)
    except SlurmUnavailable as error:
        answer.silence = error
    answer.queue_only = slurm.accounting == "silent"
    return answer


@dataclass
class _Lookup:
    """One look-up with a cache of array journals, so that each is read once for all elements."""

    slurm: Slurm
    policy: Policy
    journals: dict[str, list[Event]] = field(default_factory=dict)

    def read(self, run: RunDirectory) -> _Generation:
        """Read a generation from its run directory as it is now."""
        facts, who = RunFacts.read(run, self.journals), identity(run.path)
        place = array_of(facts.events)
        if place is None:
            return _Generation(facts, who.job_name, run)
        return _Generation(facts, place.job_name(who.name), RunDirectory(run.beside(place.array)), place.task)

    def ask(self, wanted: Sequence[_Generation]) -> None:
        """Find the record of each generation. A generation that another job has claimed in the meantime is looked up
        again.
        """
        self._find_lost([one for one in wanted if one.job_id is None and one.facts.refusal is None])
        left = [one for one in wanted if one.job_id is not None and one.record is None]
        while left:
            self._find_known(left)
            left = [one for one in left if one.record is None and self._has_another_job(one)]
        if self.policy.decided:
            self._add_history([one for one in wanted if one.record is not None])
        self._await_outcomes([one for one in wanted if one.record is not None])

    def _has_another_job(self, one: _Generation) -> bool:
        """Return whether another job has claimed a generation whose recorded job is unknown to Slurm; update its job
        id.
        """
        claim = one.run.claim()
        if claim is None or claim.job_id == one.job_id:
            return False
        one.facts = replace(one.facts, job_id=claim.job_id)
        return True

    def _find_lost(self, lost: Sequence[_Generation]) -> None:
        """Find the jobs of submissions whose id was never recorded. A submitter that may still be running is given
        time.
        """
        since = self.policy.now()
        while lost:
            self._find_named(lost)
            lost = [one for one in lost if one.job_id is None]
            self.journals.clear()
            for one in lost:
                one.facts = self.read(one.run).facts
            lost = [one for one in lost if one.job_id is None and one.facts.refusal is None]
            lost = [one for one in lost if self.policy.waits_for_job(one.facts.events, since)]
            if lost:
                self.policy.pause()

    def _find_named(self, lost: Sequence[_Generation]) -> None:
        names = {one.owner: one.name for one in lost}
        for owner, records in by_name(self.slurm, names, since=min(one.since or 0.0 for one in lost)).items():
            if not records:
                continue
            # If two submissions have one name, an active one is used, otherwise the newest one.
            record = next((record for record in records if record.active), records[-1])
            mine = [one for one in lost if one.owner == owner]
            whole = record.job_id if mine[0].task is None else base_id(record.job_id)
            self.policy.adopt(owner, whole)
            for one in mine:
                one.facts = replace(one.facts, job_id=whole if one.task is None else f"{whole}_{one.task}")
                one.record = record if one.task is None else None

    def _find_known(self, wanted: Sequence[_Generation]) -> None:
        """Find records with one query for all arrays and jobs, and another one for tasks that Slurm forgot before their
        array.
        """
        since = _earliest(wanted)
        ids = {str(one.job_id): one.name for one in wanted}
        asked = {job_id if steps.is_step(job_id) else base_id(job_id): name for job_id, name in ids.items()}
        known = steps.find(self.slurm, asked, since=since)
        for job_id in ids:
            whole = known.get(base_id(job_id))
            if whole is not None and whole.final:
                # The array was cancelled before this task had its own record.
                known.setdefault(job_id, replace(whole, job_id=job_id))
        forgotten = [job_id for job_id in ids if job_id not in known and base_id(job_id) != job_id]
        if forgotten and any(base_id(job_id) in {base_id(one) for one in known} for job_id in forgotten):
            known.update(find_by_id(self.slurm, forgotten, since=since))
        for one in wanted:
            record = known.get(str(one.job_id))
            one.record = record if record and record.name == one.name else own(record, one.run.path)

    def _add_history(self, wanted: Sequence[_Generation]) -> None:
        """Add the attempts before a requeue, which only accounting knows, with one query for all requeued jobs."""
        requeued: dict[str, list[_Generation]] = {}
        for one in wanted:
            record = one.record
            if record and record.restarts and not record.earlier and not steps.is_step(record.job_id):
                requeued.setdefault(record.job_id, []).append(one)
        if not requeued:
            return
        begun = (_earliest(wanted) or time.time() - DEFAULT_REACH) - CLOCK_SLACK
        for row in query_sacct(self.slurm, [f"--jobs={','.join(requeued)}"], begun):
            for one in requeued.get(row.job_id, ()):
                if one.record and row.name == one.record.name:
                    one.record = replace(one.record, earlier=row.earlier)

    def _await_outcomes(self, found: Sequence[_Generation]) -> None:
        """Wait for the outcomes of jobs whose script ended with exit code 0, which happens only after a success.

        If such an outcome is not visible, a network file system does not show it yet.
        """
        while True:
            found = [one for one in found if self._hides_outcome(one)]
            if not found:
                break
            self.policy.pause()

    def _hides_outcome(self, one: _Generation) -> bool:
        if one.record is None or one.facts.outcome is not None or not self.policy.waits_for_outcome(one.record):
            return False
        return one.run.outcome() is None


def _earliest(wanted: Sequence[_Generation]) -> float | None:
    """Return the time before which none of these jobs was submitted; None if a journal does not record it."""
    times = [one.since for one in wanted]
    known = [moment for moment in times if moment is not None]
    return min(known) if known and len(known) == len(times) else None
