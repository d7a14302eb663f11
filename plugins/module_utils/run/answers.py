# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask Slurm about the outcome of launches. Readers and submitters use the same look-up.

One query serves all launches, even a thousand elements of a sweep. A `Policy` defines what the caller does besides
asking: a reader does not wait and writes nothing; a submitter (submit/patience.py) waits and records what it learns.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.run import steps
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory, array_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.documents import Event
from ansible_collections.rankzero.slurm.plugins.module_utils.run.jobs_of import by_name, deciding, own
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import identity
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import UNKNOWN
from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import (
    EVERYTHING,
    QUEUE,
    SILENT,
    JobAnswer,
    LaunchStatus,
    RunFacts,
    status_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm, submitted_from
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import (
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

    def waits_for_outcome(self, record: JobRecord, since: float) -> bool:
        """Return whether to read the outcome of an ended job again if it is still missing. `since`: as for a job."""
        return False

    def close(self, run: RunDirectory) -> None:
        """Called when a launch is over."""

    def now(self) -> float:
        """Return the current time in epoch seconds."""
        return time.time()

    def pause(self) -> None:
        """Wait until the next query."""


LOOK = Policy(decided=True)
# Seconds after a final outcome during which the job may still write to its run directory.
SETTLED = 600.0


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
    queue, did not answer. `settled`: a final outcome that is older than this (epoch seconds) is not read again.
    """

    generations: dict[str, _Generation] = field(default_factory=dict)
    silence: SlurmUnavailable | None = None
    queue_only: bool = False
    settled: float = 0.0
    # The journals of arrays, read after Slurm has answered.
    journals: dict[str, list[Event]] = field(default_factory=dict)

    @property
    def silent(self) -> str:
        """The error message if Slurm did not answer, else empty."""
        return self.silence.message if self.silence else ""

    def status(self, run: RunDirectory) -> LaunchStatus:
        """Return the status of one of the launches. Its run directory is read now, after Slurm has answered, unless
        nothing is written there any more.
        """
        known = self.generations[run.path]
        if not known.asked:
            return status_of(known.facts)
        # A job that waits in the queue writes nothing, and neither does one that ended long ago: what was read before
        # Slurm was asked still holds.
        record = known.record
        waits = record is not None and record.pending
        over = known.facts.settled(self.settled) and (record is None or record.final)
        facts = known.facts if waits or over else RunFacts.read(run, self.journals)
        if facts.job_id is None:
            # A job id that was found by name may not be recorded.
            facts = replace(facts, job_id=known.job_id)
        facts = replace(facts, outcome=facts.outcome or known.facts.outcome)
        if facts.job_id not in (known.job_id, record.job_id if record is not None else None):
            # Another job has claimed the launch in the meantime.
            return status_of(facts)
        heard = SILENT if self.silence else QUEUE if self.queue_only else EVERYTHING
        return status_of(facts, JobAnswer(known.record, heard))


def ask_slurm(
    slurm: Slurm, runs: Iterable[RunDirectory], policy: Policy = LOOK, read: Mapping[str, RunFacts] | None = None
) -> SlurmAnswer:
    """Ask Slurm about the jobs of some launches. If Slurm does not answer, the result says so; no error is raised.

    `read`: the facts of run directories that were read just now, by path.
    """
    settled = policy.now() - SETTLED if policy == LOOK else 0.0
    lookup = _Lookup(slurm, policy, settled)
    known = [lookup.generation((read or {}).get(run.path) or lookup.facts(run)) for run in runs]
    answer = SlurmAnswer({launch.run.path: launch for launch in known}, settled=settled)
    wanted = [launch for launch in known if policy.decided or status_of(launch.facts).standing == UNKNOWN]
    for launch in wanted:
        launch.asked = True
    try:
        lookup.query(wanted)
    except SlurmUnavailable as error:
        answer.silence = error
    answer.queue_only = slurm.accounting == "silent"
    return answer


@dataclass
class _Lookup:
    """One look-up with a cache of array journals, so that each is read once for all elements.

    `settled`: as in `SlurmAnswer`.
    """

    slurm: Slurm
    policy: Policy
    settled: float = 0.0
    journals: dict[str, list[Event]] = field(default_factory=dict)

    def facts(self, run: RunDirectory) -> RunFacts:
        """Read a run directory as it is now."""
        return RunFacts.read(run, self.journals)

    def generation(self, facts: RunFacts) -> _Generation:
        """Return the generation with the name of its job."""
        run, who = facts.run, identity(facts.run.path)
        place = array_of(facts.events)
        if place is None:
            return _Generation(facts, who.job_name, run)
        return _Generation(facts, place.job_name(who.name), RunDirectory(run.beside(place.array)), place.task)

    def query(self, wanted: Sequence[_Generation]) -> None:
        """Find the record of each generation. A generation that another job has claimed in the meantime is looked up
        again.
        """
        self._find_lost([launch for launch in wanted if launch.job_id is None and launch.facts.refusal is None])
        left = [launch for launch in wanted if launch.job_id is not None and launch.record is None]
        while left:
            self._find_known(left)
            left = [launch for launch in left if launch.record is None and self._has_another_job(launch)]
        if self.policy.decided:
            self._add_history([launch for launch in wanted if launch.record is not None])
        self._await_outcomes([launch for launch in wanted if launch.record is not None])

    def _has_another_job(self, launch: _Generation) -> bool:
        """Return whether another job has claimed a generation whose recorded job is unknown to Slurm; update its job
        id.
        """
        if launch.facts.settled(self.settled):
            return False
        claim = launch.run.claim()
        if claim is None or claim.job_id == launch.job_id:
            return False
        launch.facts = replace(launch.facts, job_id=claim.job_id)
        return True

    def _find_lost(self, lost: Sequence[_Generation]) -> None:
        """Find the jobs of submissions whose id was never recorded. A submitter that may still be running is given
        time.
        """
        since = self.policy.now()
        while lost:
            self._find_named(lost)
            lost = [launch for launch in lost if launch.job_id is None]
            self.journals.clear()
            for launch in lost:
                launch.facts = self.facts(launch.run)
            lost = [launch for launch in lost if launch.job_id is None and launch.facts.refusal is None]
            lost = [launch for launch in lost if self.policy.waits_for_job(launch.facts.events, since)]
            if lost:
                self.policy.pause()

    def _find_named(self, lost: Sequence[_Generation]) -> None:
        names = {launch.owner: launch.name for launch in lost}
        for owner, records in by_name(self.slurm, names, since=min(launch.since or 0.0 for launch in lost)).items():
            if not records:
                continue
            # If two submissions have one name, an active one is used, otherwise the newest one.
            record = next((record for record in records if record.active), records[-1])
            launches = [launch for launch in lost if launch.owner == owner]
            job_id = record.job_id if launches[0].task is None else base_id(record.job_id)
            self.policy.adopt(owner, job_id)
            for launch in launches:
                launch.facts = replace(
                    launch.facts, job_id=job_id if launch.task is None else f"{job_id}_{launch.task}"
                )
                launch.record = record if launch.task is None else None

    def _find_known(self, wanted: Sequence[_Generation]) -> None:
        """Find records with one query for all arrays and jobs, and another one for tasks that Slurm forgot before their
        array.
        """
        since = _earliest(wanted)
        ids = {job_id: launch.name for launch in wanted for job_id in (str(launch.job_id), *launch.facts.others)}
        asked = {job_id if steps.is_step(job_id) else base_id(job_id): name for job_id, name in ids.items()}
        known = steps.find(self.slurm, asked, since=since)
        for job_id in ids:
            array = known.get(base_id(job_id))
            if array is not None and array.final:
                # The array was cancelled before this task had its own record.
                known.setdefault(job_id, replace(array, job_id=job_id))
        forgotten = [job_id for job_id in ids if job_id not in known and base_id(job_id) != job_id]
        if forgotten and any(base_id(job_id) in {base_id(known_id) for known_id in known} for job_id in forgotten):
            known.update(find_by_id(self.slurm, forgotten, since=since))
        for launch in wanted:
            records = [known.get(job_id) for job_id in (str(launch.job_id), *launch.facts.others)]
            mine = [each if each and each.name == launch.name else own(each, launch.run.path) for each in records]
            launch.record = deciding([each for each in mine if each is not None])

    def _add_history(self, wanted: Sequence[_Generation]) -> None:
        """Add the attempts before a requeue, which only accounting knows, with one query for all requeued jobs."""
        requeued: dict[str, list[_Generation]] = {}
        for launch in wanted:
            record = launch.record
            if record and record.restarts and not record.earlier and not steps.is_step(record.job_id):
                requeued.setdefault(record.job_id, []).append(launch)
        if not requeued:
            return
        begun = submitted_from(_earliest(wanted))
        for row in query_sacct(self.slurm, [f"--jobs={','.join(requeued)}"], begun):
            for launch in requeued.get(row.job_id, ()):
                if launch.record and row.name == launch.record.name:
                    launch.record = replace(launch.record, earlier=row.earlier)

    def _await_outcomes(self, launches: Sequence[_Generation]) -> None:
        """Wait for the outcomes of jobs whose script ended with exit code 0, which happens only after a success.

        If such an outcome is not visible, a network file system does not show it yet.
        """
        since = self.policy.now()
        while True:
            launches = [launch for launch in launches if self._hides_outcome(launch, since)]
            if not launches:
                break
            self.policy.pause()

    def _hides_outcome(self, launch: _Generation, since: float) -> bool:
        if (
            launch.record is None
            or launch.facts.outcome is not None
            or not self.policy.waits_for_outcome(launch.record, since)
        ):
            return False
        return launch.run.outcome() is None


def _earliest(wanted: Sequence[_Generation]) -> float | None:
    """Return the time before which none of these jobs was submitted; None if a journal does not record it."""
    times = [launch.since for launch in wanted]
    known = [moment for moment in times if moment is not None]
    return min(known) if known and len(known) == len(times) else None
