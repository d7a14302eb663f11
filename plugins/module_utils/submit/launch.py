# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Submit exactly one admitted job for each launch: adopt an existing job, submit a missing one, never guess.

Before sbatch runs, an intent is recorded in the journal of a generation directory that only one submitter can create
(by rename). A submission whose id was never recorded is *unknown*: its job is looked up by name before anything is
submitted again. Of two jobs of one generation, `singleton` and the job's own claim admit one. While slurmctld does not
answer, nothing is submitted.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.core.clearing import remove_tree
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import (
    RankzeroError,
    SlurmError,
    SlurmUnavailable,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import with_generation
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.run import grants, jobs_of, steps
from ansible_collections.rankzero.slurm.plugins.module_utils.run.answers import Policy
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import (
    ALTERNATIVE,
    RunDirectory,
    generations,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import (
    FAILED,
    UNSUBMITTED,
    WAITING,
    withdrawn,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import (
    JobAnswer,
    LaunchStatus,
    RunFacts,
    status_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import CommandResult, Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord, base_id
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.parse import Submitted, parse_submitted
from ansible_collections.rankzero.slurm.plugins.module_utils.submit import create, node_archives
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission import (
    checkpoint_owner,
    checks,
    excluded_nodes,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.exclusion import Exclusion
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.predecessor import predecessor
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.inside_job import Inside
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.patience import (
    APPEAR_SECONDS,
    LOOK_SECONDS,
    statuses,
    submitting,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.refs import absent
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import (
    SUPERSEDED,
    Request,
    dependency_options,
    superseded,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.result import LaunchResult


class LaunchSubmission:
    """Turns one request into one admitted job. `sleep` and `clock` are injectable for tests."""

    def __init__(
        self,
        request: Request,
        slurm: Slurm,
        *,
        check_mode: bool = False,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.request = request
        self.slurm = slurm
        self.check_mode = check_mode
        self.sleep = sleep
        self.clock = clock
        self.inside = Inside(request, slurm, sleep, clock)
        self.excluded: list[Exclusion] = []
        self.checks: checks.Checks | None = None
        #: The status of generations that have ended, by path, if it is known already (many/batch.py).
        self.ended: Mapping[str, LaunchStatus] = {}
        #: Job runtimes that were read already, where one call makes many launches (refs.py).
        self.runtimes: set[str] = set()
        #: Whether a new launch is compared with the newest other one of its name. The array of a sweep is not: the
        #: newest ones are its own elements.
        self.compares = True

    @property
    def policy(self) -> Policy:
        """How the launcher asks Slurm about launches."""
        return submitting(self.slurm, self.check_mode, self.sleep, self.clock)

    def launch(self) -> LaunchResult:
        """Adopt, keep or submit the launch according to the request's policy."""
        state_files.own(self.request.state_root)
        while True:
            newest = self._newest()
            status = self.status(newest) if newest else None
            gone = status is not None and status.active and withdrawn(status.facts.grant)
            if status and status.job_id and (gone or superseded(self.request, status)):
                if not self.check_mode:
                    self.slurm.cancel(status.jobs)
                self.policy.close(status.run)
                status = replace(status, standing=FAILED, message=SUPERSEDED)
            # A lost submission keeps its generation, because the name and the claim of its job depend on it.
            again = status is not None and status.standing == UNSUBMITTED
            generation = newest.generation + (0 if again else 1) if newest else 1
            later = 0 < self.request.last < generation
            if status and (later or not status.wants_new(self.request.relaunch) or self._runs_elsewhere(status)):
                if self.request.any_of and not self.check_mode:
                    self._complete(status)
                return self._kept(status)
            missing = self._absent()
            # Check before building: a job that will be refused should not wait for its environment, and a refused first
            # launch should leave nothing behind, not even the job runtime.
            costly = any(ref.declared.costly for ref in missing)
            building = any(ref.declared.in_store for ref in missing)
            if not missing or self.check_mode:
                self.excluded = excluded_nodes.of(self.slurm, self.request, self.clock())
            checked = self.check(generation, building) if not missing or costly or self.check_mode else None
            if checked:
                checkpoint_owner.check(self.slurm, self.request, clean=not self.check_mode)
            target = RunDirectory(os.path.join(self.request.runs_dir, str(generation)))
            if self.check_mode or missing:
                submission = "planned" if self.check_mode else "missing"
                checks_made = checked.result() if checked else None
                return replace(self._result(submission, target, newest), missing=missing, checks=checks_made)
            if status:
                self.inside.make_way(status)
            node_archives.keep(self.request)
            known = os.path.isdir(self.request.runs_dir)
            if again:
                create.renew(self.request, target, self._record_intent)
                return self.submit(target)
            if create.create(self.request, target, self._record_intent):
                return (self._orphan(target) if known else None) or self.submit(target, newest)
            # Another submitter was first. A network file system may show its generation with a delay.
            self.sleep(LOOK_SECONDS)

    def cancel(self) -> LaunchResult:
        """Cancel the newest generation's job if it is active."""
        state_files.own(self.request.state_root)
        newest = self._newest()
        status = self.status(newest) if newest else None
        if newest and status and status.cancelled_for(self.clock()) is not None:
            return self._result("absent", newest, job_id=status.job_id)
        if newest is None or status is None or not status.active or status.job_id is None:
            left = self.inside.end_leftovers(status) if status and not self.check_mode else []
            return replace(self._result("absent", newest), changed=bool(left))
        if not self.check_mode:
            if steps.is_step(status.job_id):
                self.inside.cancel(newest, status.job_id)
            else:
                self.slurm.cancel(status.jobs)
                self.policy.close(newest)
            self._record(newest, "cancelled", status.job_id)
        return replace(self._result("absent", newest), changed=True, job_id=status.job_id)

    def status(self, run: RunDirectory) -> LaunchStatus:
        """Return the status of a generation. Slurm is asked only if the run directory does not decide it.

        Raises `SlurmUnavailable` if the status cannot be decided.
        """
        if run.path in self.ended:
            return self.ended[run.path]
        (status,) = statuses(self.slurm, [run], self.policy)
        return status.decided(**self._identity(run))

    def _runs_elsewhere(self, status: LaunchStatus) -> bool:
        """Whether another cluster runs this launch (--first). If none does, none will: another generation follows."""
        if status.standing == UNSUBMITTED:
            return False
        winner = grants.followed_elsewhere(status.run, close=not self.check_mode)
        first = self.request.first
        reopened = first["reopens"] == status.run.generation if first else self.request.relaunch == "always"
        return winner is not None and not reopened

    def _absent(self) -> list[Ref]:
        root, note = self.request.state_root, self.slurm.note
        return absent(self.request.refs, root, note, check_mode=self.check_mode, whole=self.runtimes)

    def _newest(self) -> RunDirectory | None:
        existing = generations(self.request.runs_dir)
        return existing[-1] if existing else None

    def _orphan(self, run: RunDirectory) -> LaunchResult | None:
        """Look for the job of a generation whose run directory was removed and has just been created again.

        A pending job is adopted, because it finds its folder again. A running job cannot leave a result, and a second
        job next to it would run the same launch twice, so RankzeroError is raised.
        """
        for record in jobs_of.in_the_queue(self.slurm, run, self.request.name_of(run.generation)):
            if record.pending:
                self._record(run, "adopted", record.job_id)
                return self._kept(status_of(RunFacts.read(run), JobAnswer(record)))
            with contextlib.suppress(OSError):
                remove_tree(run.path)
            raise RankzeroError(
                f"job {record.job_id} of this launch is {record.state}, but its run directory {run.path} was "
                f"removed: it can leave no result. Cancel it (scancel {record.job_id}) and launch again.",
                **self._identity(run),
                job_id=record.job_id,
            )
        return None

    def check(self, generation: int, building: bool) -> checks.Checked:
        """Check the launch before the job is queued. Raises an error with all problems at once."""
        if self.request.inside_job:
            checked = self.inside.check(building)
            checks.raise_for(checked.problems)
            return checked
        script = with_generation(self.request.files["job.sbatch"], self.request.token, generation)
        of_all = checks.Checked()
        for needs, options in self.request.alternatives:
            request = self.request.changed(limits=needs)
            self.checks = checks.of(request, self.slurm, check_mode=self.check_mode, clock=self.clock)
            checked = self.checks.run(script, building=building, options=[*self._options(), *options])
            of_all.add(checked, " ".join(options))
        checks.raise_for(of_all.problems)
        return of_all

    def _options(self) -> list[str]:
        """Return sbatch's options of every submission of this request."""
        return [*dependency_options(self.request), *excluded_nodes.option(self.request, self.excluded)]

    def _record_intent(self, run: RunDirectory) -> None:
        run.record("intent", submitter=self.request.submitter, **self.inside.intent())

    def submit(self, run: RunDirectory, previous: RunDirectory | None = None) -> LaunchResult:
        """Submit a generation with all its files and its intent to Slurm.

        Raises SlurmError if sbatch refuses the job, and SlurmUnavailable if it is unknown whether the job was
        submitted.
        """
        checkpoint_owner.register(self.slurm, self.request, run)
        if self.request.inside_job:
            step_id = self.inside.start(run, **self._identity(run))
            self._record_submitted(run, step_id)
            return self._result("submitted", run, previous, job_id=step_id)
        others = self._alternatives()
        while True:
            number, options = next(iter(others.items()))
            del others[number]
            result, submitted = self._sbatch(run, options)
            refused = result.rc != 0 and not result.silent and not submitted
            if not (refused and others):
                break
            self._note_refused(number, result)
        if submitted and result.rc == 0:
            self._record_submitted(run, submitted.job_id, cluster=submitted.cluster, number=number or None)
            if self.checks:
                self.checks.informed.keep()
            self._submit_also(run, others)
            return self._result("submitted", run, previous, job_id=submitted.job_id)
        if refused:
            run.forget_secrets()
            run.record("rejected", message=result.complaint)
            reasons = self.checks.reasons() if self.checks else ""
            raise SlurmError(f"sbatch refused the job: {result.complaint}{reasons}", **self._identity(run))
        # sbatch can report a time-out after it has queued the job, and a site's wrapper can swallow the id. Look for
        # the job before doing anything else.
        record = self._appeared(run)
        if record is None:
            raise SlurmUnavailable(
                f"sbatch did not say whether it submitted the job ({result.complaint}), and the job is not in the "
                "queue. Run the same launch again: it looks the job up before it submits anything.",
                **self._identity(run),
            )
        job_id = base_id(record.job_id)  # the array itself, not one of its tasks
        self._record_submitted(run, job_id, message=result.complaint)
        return self._result("submitted", run, previous, job_id=job_id)

    def _sbatch(self, run: RunDirectory, options: Sequence[str]) -> tuple[CommandResult, Submitted | None]:
        """Run sbatch for a generation, with `options` of its own. Return its result, and the job that it names."""
        every = ["--parsable", *self._options(), *options]
        submission = [*every, run.file("job.sbatch"), "--submission", self.request.submitter]
        with state_files.closed_to_groups(run.path):
            result = self.slurm.attempt("sbatch", *submission, cwd=run.path)
        return result, parse_submitted(result.stdout)

    def _submit_also(self, run: RunDirectory, alternatives: Mapping[int, Sequence[str]]) -> None:
        """Submit a generation once more for each of these alternatives (number -> options of sbatch), as long as none
        of its jobs has begun. Of two that begin, the claim lets one run, so a lost answer does no harm.
        """
        for number, options in alternatives.items():
            if run.claim():
                return
            result, submitted = self._sbatch(run, options)
            if submitted and result.rc == 0:
                self._record(run, ALTERNATIVE, submitted.job_id, number=number)
            else:
                self._note_refused(number, result)

    def _note_refused(self, number: int, result: CommandResult) -> None:
        self.slurm.note(f"resources.any_of, item {number + 1}: sbatch did not submit it: {result.complaint}")

    def _alternatives(self) -> dict[int, Sequence[str]]:
        """Return the number of each submission, from 0, with its own options of sbatch."""
        return dict(enumerate(options for _needs, options in self.request.alternatives))

    def _complete(self, status: LaunchStatus) -> None:
        """Submit the alternatives of a waiting launch whose submitter was killed before it had submitted them."""
        events = status.facts.events
        others = self._alternatives()
        for event in events:
            others.pop(event.get("number") or 0, None)
        if others and status.pending and not status.attempt and not self.policy.waits_for_job(events, self.clock()):
            self._submit_also(status.run, others)

    def _record(self, run: RunDirectory, event: str, job_id: str, **details: int) -> None:
        """Record an event that can be determined again later. A failure to write it is only noted."""
        try:
            run.record(event, job_id=job_id, **details)
        except OSError as error:
            self.slurm.note(f"{run.path}: that job {job_id} was {event} cannot be noted there ({error.strerror})")

    def _record_submitted(self, run: RunDirectory, job_id: str, **details: str | int | None) -> None:
        try:
            run.record("submitted", job_id=job_id, **details)
        except OSError as error:
            raise RankzeroError(
                f"job {job_id} was submitted, but that could not be written to {run.path}: {error.strerror}. Make room "
                "there and run the same launch again: it finds the job.",
                **self._identity(run),
                job_id=job_id,
            ) from error

    def _appeared(self, run: RunDirectory) -> JobRecord | None:
        until = self.clock() + APPEAR_SECONDS
        while True:
            try:
                name = self.request.name_of(run.generation)
                records = jobs_of.by_name(self.slurm, {run: name}, since=self.clock() - 3600)[run]
            except SlurmUnavailable:
                records = []
            if records or self.clock() > until:
                return records[-1] if records else None
            self.sleep(LOOK_SECONDS)

    def _kept(self, status: LaunchStatus) -> LaunchResult:
        if status.active and self.request.relaunch == "always":
            how = "state: absent" if steps.is_step(status.job_id) else f"scancel {status.job_id}"
            self.slurm.note(
                f"job {status.job_id} of this launch is still active, so it was adopted; cancel it ({how}) to run a "
                "new generation"
            )
        result = self._result("unchanged" if status.over else "adopted", status.run, job_id=status.job_id)
        return replace(result, standing=status.standing, message=status.message)

    def _identity(self, run: RunDirectory | None) -> dict[str, object]:
        """Return the fields of an error that name the launch."""
        return {
            "name": self.request.name,
            "key": self.request.key,
            "generation": run.generation if run else None,
            "run_dir": run.path if run else None,
        }

    def _result(
        self,
        submission: str,
        run: RunDirectory | None,
        previous: RunDirectory | None = None,
        *,
        job_id: str | None = None,
    ) -> LaunchResult:
        new = self.compares and submission in ("submitted", "planned", "missing")
        changed = submission in ("submitted", "planned")
        return LaunchResult(
            name=self.request.name,
            key=self.request.key,
            generation=run.generation if run else None,
            run_dir=run.path if run else None,
            submission=submission,
            changed=changed,
            job_id=job_id,
            standing=WAITING if submission in ("submitted", "adopted") else None,
            excluded=self.excluded,
            diff=create.differences(self.request, run, previous)
            if run and submission in ("submitted", "planned")
            else [],
            allocation=self.inside.described,
            predecessor=predecessor(self.request) if new and run and run.generation == 1 else None,
        )
