# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Submit a sweep: the elements that are missing or failed, in as few job arrays as the site allows.

Each element's generation is created completely by a rename, with an intent that names its array and task. Of two
submitters one creates it, and the other skips the element. Then the array's own folder gets its files, including the
parameter file, which is never changed afterwards. Only then is the array submitted, like any launch. If a submitter was
killed, its array is looked up by name and submitted again if it does not exist. The element's claim admits one of two
tasks.

    <state_root>/runs/<name>/.sweep-<key>/sweep.json     the elements of the sweep, for readers of its results
    <state_root>/runs/<name>/.sweep-<key>/<number>/      an array: elements, job.sbatch, journal.jsonl, logs/
"""

from __future__ import annotations

import functools
import json
import os
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.placeholders import generation_token, with_generation
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import difference
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory, generations
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import ACTIVE, FAILED, UNSUBMITTED, WAITING
from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import LaunchStatus
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.sweep import point_text
from ansible_collections.rankzero.slurm.plugins.module_utils.submit import create, node_archives
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission import checkpoint_owner, excluded_nodes
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.launch import LaunchSubmission
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.patience import statuses, submitting
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.refs import absent
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import SUPERSEDED, Request, superseded
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.result import (
    ArrayResult,
    ChecksMade,
    ElementResult,
    SweepResult,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.sweep_elements import (
    Element,
    newest_generations,
    numbers_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.sweep_request import Manifests, SweepRequest

PARAMETERS = "elements"
# slurm.conf(5): the default of MaxArraySize; the highest task number is one less.
DEFAULT_ARRAY_SIZE = 1001


@dataclass
class _Row:
    """The planned or finished action for one element."""

    element: Element
    status: LaunchStatus | None
    submission: str = ""
    why: str = ""
    job_id: str | None = None
    run_dir: str | None = None
    generation: int | None = None

    def result(self) -> ElementResult:
        standing = self.status.standing if self.status else UNSUBMITTED
        if self.submission == "submitted" or (self.submission == "adopted" and standing not in ACTIVE):
            standing = WAITING
        return ElementResult(
            number=self.element.number,
            key=self.element.key,
            parameters=dict(self.element.point),
            submission=self.submission,
            why=self.why,
            standing=standing,
            job_id=self.job_id,
            run_dir=self.run_dir,
            generation=self.generation,
        )


@dataclass
class SweepSubmission:
    """Turns a sweep into one admitted job for each element. `sleep` and `clock` are injectable for tests."""

    request: SweepRequest
    slurm: Slurm
    check_mode: bool = False
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.time
    submitted: list[ArrayResult] = field(default_factory=list)

    @functools.cached_property
    def _manifests(self) -> Manifests:
        return Manifests(self.request.array.key, self.request.spec, self.request.manifest)

    def launch(self) -> SweepResult:
        """Adopt, keep or submit each element (or those in `only`) according to the request's policy."""
        array = self.request.array
        rows = self._rows()
        asked = numbers_of(self.request.elements, self.request.only)
        wanted = [row for row in rows if row.element.number in asked]
        todo = [row for row in wanted if row.status is None or row.status.wants_new(array.relaunch)]
        chosen = {row.element.number for row in todo}
        for row in rows:
            self._judge(row, row.element.number in chosen)
        before = _table(rows, before=True)
        missing = absent(array.refs, array.state_root, self.slurm.note, check_mode=self.check_mode) if todo else []
        # The checks only need some value for the array's tasks.
        script = array.files["job.sbatch"].replace(self.request.tasks_token, "0")
        launcher = self._launcher(replace(array, files={**array.files, "job.sbatch": script}))
        checked = None
        if todo and (self.check_mode or not missing or any(ref.declared.costly for ref in missing)):
            launcher.excluded = excluded_nodes.of(self.slurm, array, self.clock())
            checked = launcher.check(self._next_number(), any(ref.declared.in_store for ref in missing))
            self._check_owners(todo)
        if self.check_mode or missing:
            for row in todo:
                row.submission = "planned" if self.check_mode else "missing"
        elif todo:
            node_archives.keep(array)
            for part in self._parts(todo, launcher):
                self._submit_part(part, launcher)
            self._find_taken(rows)
        if not self.check_mode and not missing:
            self._keep_record()
        return self._result(rows, missing, before, checked.result() if checked and self.check_mode else None)

    def cancel(self) -> SweepResult:
        """Cancel the active elements, or those of them that `only` names (number or key)."""
        rows = self._rows()
        before = _table(rows, before=True)
        asked = numbers_of(self.request.elements, self.request.only)
        ends = []
        for row in rows:
            active = row.status is not None and row.status.active
            row.submission = "absent"
            if row.status is not None:
                row.job_id, row.run_dir = row.status.job_id, row.status.run.path
            if row.status is not None and row.status.cancelled_for(self.clock()) is not None:
                row.why = "cancelled before, still ending"
            elif active and row.element.number in asked:
                row.submission, row.why = "cancelled", "asked for"
                ends.append(row)
        if ends and not self.check_mode:
            self.slurm.cancel(str(row.job_id) for row in ends)
            for row in ends:
                if row.status:
                    row.status.run.record("cancelled", job_id=row.job_id)
                    row.status.run.forget_secrets()
        return self._result(rows, [], before)

    def _find_taken(self, rows: Sequence[_Row]) -> None:
        """Find the jobs of elements that another submitter took first, so that dependent launches can wait for them."""
        taken = [row for row in rows if row.submission == "adopted" and row.job_id is None]
        known = self._statuses([row.element for row in taken])
        for row in taken:
            status = known.get(row.element.number)
            if status is not None:
                row.job_id, row.run_dir = status.job_id, status.run.path
                row.generation = status.run.generation

    def _rows(self) -> list[_Row]:
        known = self._statuses(self.request.elements)
        doomed = {
            number: launch_status
            for number, launch_status in known.items()
            if superseded(self.request.array, launch_status)
        }
        if doomed and not self.check_mode:
            self.slurm.cancel(str(launch_status.job_id) for launch_status in doomed.values())
            for status in doomed.values():
                status.run.forget_secrets()
        for number, launch_status in doomed.items():
            known[number] = replace(launch_status, standing=FAILED, message=SUPERSEDED)
        for launch_status in known.values():
            launch_status.decided()
        return [_Row(element, known.get(element.number)) for element in self.request.elements]

    def _statuses(self, elements: Sequence[Element]) -> dict[int, LaunchStatus]:
        """Return, by number, the status of each newest generation: one query to Slurm, none about successes."""
        newest = newest_generations(self.request.runs, elements)
        policy = submitting(self.slurm, self.check_mode, self.sleep, self.clock)
        return dict(zip(newest, statuses(self.slurm, list(newest.values()), policy)))

    def _judge(self, row: _Row, wanted: bool) -> None:
        status = row.status
        if status is not None:
            row.job_id, row.run_dir, row.generation = status.job_id, status.run.path, status.run.generation
        if not wanted and (status is None or status.standing == UNSUBMITTED):
            row.submission, row.why = "absent", "not requested"
        elif not wanted and status is not None:
            row.submission = "unchanged" if status.over else "adopted"
            row.why = status.message
        elif status is None:
            row.why = "new"
        elif status.standing == UNSUBMITTED:
            row.why = "its submission was lost"
        else:
            row.why = f"{status.standing}: {status.message}"

    def _launcher(self, array: Request) -> LaunchSubmission:
        return LaunchSubmission(array, self.slurm, check_mode=self.check_mode, sleep=self.sleep, clock=self.clock)

    def _check_owners(self, todo: Sequence[_Row]) -> None:
        for row in todo:
            if row.element.checkpoint_dir:
                checkpoint_owner.check(self.slurm, self._own_request(row.element), clean=not self.check_mode)

    def _next_number(self) -> int:
        known = generations(self.request.array.runs_dir)
        return known[-1].generation + 1 if known else 1

    def _parts(self, todo: Sequence[_Row], launcher: LaunchSubmission) -> list[list[_Row]]:
        """Split the elements into arrays, as large as the site's MaxArraySize and max_array_tasks allow."""
        setting = launcher.checks.informed.setting if launcher.checks else lambda _name: None
        most = parse.parse_count(setting("MaxArraySize") or "")
        most = DEFAULT_ARRAY_SIZE if most is None else most
        for word in (setting("SchedulerParameters") or "").split(","):
            name, _equals, value = word.partition("=")
            if name.strip() == "max_array_tasks" and value.isdecimal():
                most = min(most, int(value))
        if most == 0:
            raise RankzeroError("sweep: this cluster has no job arrays (MaxArraySize is 0 in slurm.conf)")
        if self.request.parallel and len(todo) > most and "?" in self.request.array.dependency:
            raise RankzeroError(
                f"sweep.parallel: {len(todo)} elements need several arrays here (MaxArraySize), one after the other, "
                f"and resources.dependency {self.request.array.dependency} cannot be combined with that; leave one out"
            )
        return [list(todo[start : start + most]) for start in range(0, len(todo), most)]

    def _submit_part(self, rows: Sequence[_Row], launcher: LaunchSubmission) -> None:
        """Create the generations of some elements and their array, and submit the array."""
        array = self._new_array()
        place = os.path.join(os.path.basename(os.path.dirname(array.path)), os.path.basename(array.path))
        own_rows: list[_Row] = []
        for row in rows:
            if self._take(row, place, len(own_rows)):
                own_rows.append(row)
            else:
                row.submission, row.why = "adopted", "another submitter has just taken it"
        if not own_rows:
            os.rmdir(array.file("logs"))
            os.rmdir(array.path)
            return
        tasks = f"0-{len(own_rows) - 1}" + (f"%{self.request.parallel}" if self.request.parallel else "")
        try:
            self._write(array, own_rows, tasks)
            array.record("intent", submitter=self.request.array.submitter, tasks=tasks)
        except OSError as error:
            raise _unwritable(array.path, error) from error
        previous = self.submitted[-1].job_id if self.submitted and self.request.parallel else None
        waits = [*launcher.request.waits_for, *([f"afterany:{previous}"] if previous else [])]
        array_launcher = self._launcher(replace(self.request.array, waits_for=waits))
        array_launcher.excluded, array_launcher.checks = launcher.excluded, launcher.checks
        array_launcher.compares = False
        job_id = str(array_launcher.submit(array).job_id)
        for task, row in enumerate(own_rows):
            row.submission, row.job_id = "submitted", f"{job_id}_{task}"
        self.submitted.append(ArrayResult(job_id, array.path, tasks, len(own_rows)))

    def _new_array(self) -> RunDirectory:
        """Create the array's folder with the next number that no other submitter has."""
        while True:
            path = os.path.join(self.request.array.runs_dir, str(self._next_number()))
            try:
                state_files.make_folder(os.path.dirname(path))
                os.mkdir(path, 0o755)
                state_files.make_folder(os.path.join(path, "logs"))
            except FileExistsError:
                continue
            except OSError as error:
                raise _unwritable(path, error) from error
            return RunDirectory(path)

    def _own_request(self, element: Element) -> Request:
        """Return the request of one element, for steps that an ordinary launch shares."""
        return replace(
            self.request.array,
            key=element.key,
            runs_dir=os.path.join(self.request.runs, element.short),
            files={
                "launch.json": self._manifests.text(element),
                "contract.json": self.request.contract,
                **{name: text for name, text in self.request.array.files.items() if name == state_files.NOTIFY},
            },
            checkpoint_dir=element.checkpoint_dir,
        )

    def _take(self, row: _Row, place: str, task: int) -> bool:
        """Create the element's next generation, or assign a lost submission to this array. False if another submitter
        was first.
        """
        request, status = self._own_request(row.element), row.status
        again = status is not None and status.standing == UNSUBMITTED
        number = status.run.generation + (0 if again else 1) if status else 1
        run = RunDirectory(os.path.join(request.runs_dir, str(number)))

        def intend(made: RunDirectory) -> None:
            # A thousand syncs take seconds. If this host crashes now, the element is submitted again, and its claim
            # admits one of the two. The array's own journal is synced.
            made.record_lightly("intent", submitter=request.submitter, array=place, task=task)

        if again:
            create.renew(request, run, intend)
        elif not create.create(request, run, intend):
            return False
        checkpoint_owner.register(self.slurm, request, run)
        row.run_dir, row.generation = run.path, number
        return True

    def _write(self, array: RunDirectory, rows: Sequence[_Row], tasks: str) -> None:
        """Write the array's files. The parameter file is complete and final before there is a job that reads it."""
        number = array.generation
        lines = []
        for row in rows:
            own = {"KEY": row.element.key, "GENERATION": str(row.generation), "RUN_DIR": str(row.run_dir)}
            exports = " ".join(f"RANKZERO_{name}={shlex.quote(value)}" for name, value in own.items())
            line = with_generation(row.element.line, generation_token(row.element.key), row.generation or 0)
            lines.append(f"export {exports}; {line}\n")
        texts = {PARAMETERS: "".join(lines)}
        for name, text in self.request.array.files.items():
            texts[name] = with_generation(text, self.request.array.token, number)
        texts["job.sbatch"] = texts["job.sbatch"].replace(self.request.tasks_token, tasks)
        for name, text in texts.items():
            state_files.create(array.file(name), text, durably=True)
        os.chmod(array.file(PARAMETERS), 0o444)

    def _keep_record(self) -> None:
        """Write the record for readers of the results, next to the arrays. The newest launch overwrites it."""
        path = os.path.join(self.request.array.runs_dir, state_files.SWEEP_RECORD)
        text = json.dumps(self.request.record, indent=1) + "\n"
        if state_files.record_of_sweep(self.request.array.runs_dir) == json.loads(text):
            return
        try:
            state_files.write(path, text)
        except OSError as error:
            raise _unwritable(path, error) from error

    def _result(
        self,
        rows: Sequence[_Row],
        missing: Sequence[Ref],
        before: str,
        checks_made: ChecksMade | None = None,
    ) -> SweepResult:
        counts: dict[str, int] = {}
        for row in rows:
            counts[row.submission] = counts.get(row.submission, 0) + 1
        order = ("missing", "planned", "submitted", "cancelled", "adopted", "unchanged")
        folder = self.request.array.runs_dir
        after = _table(rows, before=False)
        return SweepResult(
            name=self.request.array.name,
            key=self.request.array.key,
            sweep_dir=folder,
            submission=next((state for state in order if state in counts), "absent"),
            changed=any(state in counts for state in ("submitted", "planned", "cancelled")),
            counts=counts,
            elements=[row.result() for row in rows],
            arrays=self.submitted,
            missing=missing,
            diff=difference(folder, before, after),
            checks=checks_made,
        )


def _unwritable(path: str, error: OSError) -> RankzeroError:
    return RankzeroError(
        f"state_root: cannot write {path}: {error.strerror or error}. Name a folder on shared storage that this user "
        "may write (launch_cluster.state_root), or make room there, and launch the same sweep again: it resumes where "
        "it stopped."
    )


def _table(rows: Sequence[_Row], *, before: bool) -> str:
    """Return the elements, one per line, in their current state or in the state after this launch."""
    lines = []
    for row in rows:
        stands = row.status.standing if row.status else UNSUBMITTED
        words = (
            stands
            if before or row.submission in ("adopted", "unchanged", "absent")
            else f"{row.submission} ({row.why})"
        )
        if row.status is not None or not before:
            lines.append(f"{row.element.number}  {point_text(row.element.point)}: {words}\n")
    return "".join(lines)
