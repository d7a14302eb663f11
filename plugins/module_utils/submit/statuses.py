# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of launches, for those who submit: one launch, or a thousand elements of a sweep, by the same questions.

A submission whose job id was never recorded is looked up by its job name before anything is submitted again. Slurm is
asked once for all launches, and not at all about what the run directory says for certain.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.run import steps
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import (
    Place,
    RunDirectory,
    array_of,
    as_element,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.documents import Event
from ansible_collections.rankzero.slurm.plugins.module_utils.run.jobs_of import own, without_namesakes
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import identity
from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import (
    EVERYTHING,
    QUEUE,
    UNDECIDED,
    JobAnswer,
    LaunchStatus,
    RunFacts,
    status_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import DEFAULT_TIMEOUT, Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import (
    JobRecord,
    base_id,
    find_by_id,
    find_by_name,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import lives

# A job that sbatch enqueued while reporting a time-out shows up in the queue within this many seconds.
APPEAR_SECONDS = 10.0
# A submitter that is alive records its job id within this many seconds of its intent, or has given up on sbatch.
INTENT_SECONDS = DEFAULT_TIMEOUT + APPEAR_SECONDS + 5.0
LOOK_SECONDS = 1.0
# How long after a job's end its verdict may take to be seen on this host.
OUTCOME_SECONDS = 60.0


@dataclass
class _Generation:
    """A generation that Slurm is asked about. `name`: that of its job, for an element of a sweep the array's; `owner`:
    the run directory whose journal tells of that job; `task`: the element's number in the array.
    """

    facts: RunFacts
    events: list[Event]
    name: str
    owner: RunDirectory
    task: int | None = None
    record: JobRecord | None = None

    @property
    def run(self) -> RunDirectory:
        return self.facts.run

    @property
    def job_id(self) -> str | None:
        return self.facts.job_id

    @property
    def since(self) -> float:
        return next((float(event["time"]) for event in self.events), 0.0)


@dataclass
class Statuses:
    """Looks at generations. `note` hears what could not be written down; `sleep` and `clock` are injectable for tests.

    In check mode nothing is written and nobody is waited for.
    """

    slurm: Slurm
    check_mode: bool = False
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.time
    _journals: dict[str, list[Event]] = field(default_factory=dict)

    def of(self, runs: Sequence[RunDirectory]) -> list[LaunchStatus]:
        """What became of each. The secrets of those that are over are removed. Raises `SlurmUnavailable` where
        slurmctld is silent and one of them depends on it.
        """
        self._journals = {}
        found = [self._read(run) for run in runs]
        statuses = [status_of(one.facts) for one in found]
        undecided = [number for number, status in enumerate(statuses) if status.state == UNDECIDED]
        self._ask([found[number] for number in undecided])
        heard = QUEUE if self.slurm.accounting == "silent" else EVERYTHING
        for number in undecided:
            one = found[number]
            statuses[number] = status_of(one.facts.read_again(), JobAnswer(one.record, heard))
        if not self.check_mode:
            for status in statuses:
                if status.over:
                    status.run.forget_secrets()
        return statuses

    def _read(self, run: RunDirectory) -> _Generation:
        """As `RunFacts.read`, but the journal of an array is read once for all of its elements."""
        mine = run.own_events()
        place, claim = array_of(mine), run.claim()
        who = identity(run.path)
        owner, name, events = run, who.job_name, mine
        if place is not None:
            owner, name = RunDirectory(run.beside(place.array)), place.job_name(who.name)
            events = mine + self._of_array(owner, place)
        ids = [str(event["job_id"]) for event in events if event["event"] in ("submitted", "adopted")]
        job_id = claim.job_id if claim else ids[-1] if ids else None
        refusal = str(events[-1].get("message", "")) if events and events[-1]["event"] == "rejected" else None
        facts = RunFacts(run, job_id, refusal, run.outcome(), run.started())
        return _Generation(facts, events, name, owner, place.task if place else None)

    def _of_array(self, owner: RunDirectory, place: Place) -> list[Event]:
        if owner.path not in self._journals:
            self._journals[owner.path] = owner.own_events()
        return as_element(self._journals[owner.path], place.task)

    def _ask(self, wanted: Sequence[_Generation]) -> None:
        """Find the record of each. Whoever has got another job meanwhile is asked about once more."""
        self._find_lost([one for one in wanted if one.job_id is None])
        left = [one for one in wanted if one.job_id is not None and one.record is None]
        while left:
            self._find_known(left)
            left = [one for one in left if one.record is None and self._has_another_job(one)]
        self._await_outcomes([one for one in wanted if one.record is not None])

    def _has_another_job(self, one: _Generation) -> bool:
        """Whether another job has taken a generation whose job nobody knows."""
        claim = one.run.claim()
        if claim is None or claim.job_id == one.job_id:
            return False
        one.facts = replace(one.facts, job_id=claim.job_id)
        return True

    def _find_lost(self, lost: Sequence[_Generation]) -> None:
        """Submissions whose id was never recorded. A submitter that may still be at work is given time to say."""
        looked = self.clock()
        while lost:
            self._find_named(lost)
            lost = [one for one in lost if one.job_id is None]
            self._journals = {}
            for one in lost:
                seen = self._read(one.run)
                one.facts, one.events = seen.facts, seen.events
            lost = [one for one in lost if one.job_id is None and one.facts.refusal is None]
            lost = [one for one in lost if self._may_appear(one, looked)]
            if not lost or self.check_mode:
                return
            self.sleep(LOOK_SECONDS)

    def _find_named(self, lost: Sequence[_Generation]) -> None:
        """By the names of their jobs: one question for all, and one for each job that has launches inside it."""
        names = {one.name: one for one in lost if not steps.host_job(one.run)}
        records = find_by_name(self.slurm, names, since=min(one.since for one in lost)) if names else []
        for one in lost:
            if one.name not in names:
                records += steps.named(self.slurm, one.run, one.name)
                names[one.name] = one
        for name, first in names.items():
            mine = without_namesakes([record for record in records if record.name == name], first.owner.path)
            if not mine:
                continue
            # Of two submissions of one name the newest one counts, and before it one that is not over.
            record = next((record for record in mine if record.active), mine[-1])
            whole = record.job_id if first.task is None else base_id(record.job_id)
            self._adopt(first.owner, whole)
            for one in lost:
                if one.name == name:
                    job_id = whole if one.task is None else f"{whole}_{one.task}"
                    one.facts = replace(one.facts, job_id=job_id)
                    one.record = record if one.task is None else None

    def _adopt(self, owner: RunDirectory, job_id: str) -> None:
        if self.check_mode:
            return
        try:
            owner.record("adopted", job_id=job_id)
        except OSError as error:
            # It can be found out again.
            self.slurm.note(f"{owner.path}: that job {job_id} was adopted cannot be recorded there ({error.strerror})")

    def _may_appear(self, one: _Generation, looked: float) -> bool:
        # A journal that a network file system does not show yet is not a dead submitter.
        last = max((float(event["time"]) for event in one.events), default=looked)
        return submitter_may_live(one.events) and self.clock() - last <= INTENT_SECONDS

    def _find_known(self, wanted: Sequence[_Generation]) -> None:
        """One question for all arrays and jobs; another one for tasks that Slurm has forgotten before their array."""
        since = min(one.since for one in wanted)
        ids = {str(one.job_id): one for one in wanted}
        asked = {job_id if steps.is_step(job_id) else base_id(job_id): one.name for job_id, one in ids.items()}
        known = steps.find(self.slurm, asked, since=since)
        for job_id in ids:
            whole = known.get(base_id(job_id))
            if whole is not None and whole.final:
                # An array that was cancelled before a task of it had a record of its own.
                known.setdefault(job_id, replace(whole, job_id=job_id))
        forgotten = [job_id for job_id in ids if job_id not in known and base_id(job_id) != job_id]
        if forgotten and any(base_id(job_id) in {base_id(one) for one in known} for job_id in forgotten):
            known.update(find_by_id(self.slurm, forgotten, since=since))
        for job_id, one in ids.items():
            record = known.get(job_id)
            one.record = record if record and record.name == one.name else own(record, one.run.path)

    def _await_outcomes(self, found: Sequence[_Generation]) -> None:
        """Wait for the verdicts of jobs whose script ended with 0, which it does only after a success: where none is to
        be seen, a network file system does not show it yet.
        """
        while not self.check_mode:
            found = [one for one in found if self._hides_outcome(one)]
            if not found:
                break
            self.sleep(LOOK_SECONDS)

    def _hides_outcome(self, one: _Generation) -> bool:
        record = one.record
        if record is None or record.state != "COMPLETED" or not record.end or one.facts.outcome is not None:
            return False
        return one.run.outcome() is None and self.clock() - record.end <= OUTCOME_SECONDS


def submitter_may_live(events: Sequence[Event]) -> bool:
    """Whether whoever wrote the newest intent of a journal may still be about to submit. A journal without an intent is
    one that a network file system does not show yet.
    """
    submitters = [str(event.get("submitter", "")) for event in events if event["event"] == "intent"]
    if not submitters:
        return True
    host, _colon, pid = submitters[-1].partition(":")
    if host != socket.gethostname() or not pid.isdigit():
        return bool(host)
    return lives(pid)
