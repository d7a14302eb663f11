# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make many launches in one call, each after those that it follows.

What all launches have in common is found out once: what Slurm says about partitions, nodes, accounts and settings, and
the state of launches that have ended. So the number of Slurm commands besides sbatch does not grow with their number.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError, SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import runtime_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import generations
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import ACTIVE
from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import LaunchStatus
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import CommandResult, Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import publish_files
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.launch import LaunchSubmission
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.many.launches import (
    Answer,
    BatchLaunch,
    Before,
    LaunchMade,
    SweepMade,
    unpacked,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.patience import statuses, submitting
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.received import Submission, carry_out
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.refs import is_present
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Request
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.result import (
    LaunchResult,
    SubmissionResult,
    SweepResult,
    read_result,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.sweep import SweepSubmission
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.sweep_request import SweepRequest

# Commands that describe the cluster. Their answers are the same for all launches of a call.
_ABOUT_THE_CLUSTER = ("sinfo", "sacctmgr", "scontrol", "quota")


class SlurmOfMany(Slurm):
    """Slurm's commands for many launches: a question about the cluster is asked once."""

    def attempt(
        self,
        name: str,
        *args: str,
        timeout: float | None = None,
        stdin: str | None = None,
        cwd: str | None = None,
    ) -> CommandResult:
        """As Slurm.attempt. No answer is not remembered, nor is what a command says about jobs."""
        lasting = name in _ABOUT_THE_CLUSTER and not {"job", "ping"}.intersection(args)
        # The number of a user's jobs: compared with limits before the first submission. Later sbatch says it.
        lasting = lasting or (name == "squeue" and "--array" in args)
        if not lasting or stdin is not None:
            return super().attempt(name, *args, timeout=timeout, stdin=stdin, cwd=cwd)
        answers: dict[tuple[str, ...], CommandResult] = self.__dict__.setdefault("_answers", {})
        question = (name, *args)
        known = answers.get(question)
        if known is None:
            known = super().attempt(name, *args, timeout=timeout, cwd=cwd)
            if not known.silent:
                answers[question] = known
        return known


@dataclass
class Batch:
    """The launches of one call. `known`: the launches before that are not made here, by name."""

    slurm: Slurm
    known: dict[str, Before]
    check_mode: bool = False
    answers: dict[str, Answer] = field(default_factory=dict)
    # The whole results of the launches, as module `job` or `job_sweep` returns them.
    whole: dict[str, ModuleResult] = field(default_factory=dict)
    # Slurm's silence: nothing more is tried then.
    silence: str = ""
    _ended: dict[str, LaunchStatus] = field(default_factory=dict)
    # Job runtimes that were read: all launches of a call have the same, of a hundred files.
    _runtimes: set[str] = field(default_factory=set)

    def look_up(self, launches: Sequence[BatchLaunch]) -> None:
        """Find out what has become of earlier generations, by one query. An active one is asked about again, because
        much may happen until it is its turn. Raises SlurmUnavailable.
        """
        folders = [launch.request.runs_dir for launch in launches if isinstance(launch.request, Request)]
        runs = [run for folder in folders for run in generations(folder)[-1:]]
        policy = submitting(self.slurm, self.check_mode, time.sleep, time.time)
        for status in statuses(self.slurm, runs, policy) if runs else ():
            if status.over:
                self._ended[status.run.path] = status

    def check(self, launch: BatchLaunch) -> bool:
        """Return whether a launch could be made now. What it lacks is to be built with the rest, even if the launch
        must wait for those that it follows.
        """
        hinders = self._hinders(launch)
        answer, _made = self._carry_out(launch, check_mode=True)
        if not answer.msg and not answer.missing and hinders:
            # If something is built, the launch is tried again, and reports the reason then.
            answer.msg = "" if any(each.missing for each in self.answers.values()) else hinders
            answer.job = answer.sweep = None
        elif not answer.msg and not answer.missing:
            generation = str((answer.job and answer.job.generation) or "")
            self.known[launch.name] = Before(launch.request.shared.token, generation)
            return True
        self.answers[launch.name] = answer
        self._hold(launch)
        return False

    def launch(self, launch: BatchLaunch) -> None:
        """Make a launch, unless one that it follows could not be made. In check mode, only see what would happen."""
        if not self.check_mode and self._hinders(launch):
            self.check(launch)
            return
        answer, made = self._carry_out(launch, check_mode=self.check_mode)
        self.answers[launch.name] = answer
        if (answer.msg or answer.missing) and not self.check_mode:
            self._hold(launch)
            return
        generation, jobs, hinders = "", [], ""
        if made is not None:
            generation = str(made.generation or "") if isinstance(made, LaunchResult) else ""
            try:
                jobs = made.active_ids()
            except RankzeroError as error:
                hinders = error.message
            if made.hopeless:
                hinders = f"follows {launch.name}, which has failed meanwhile"
        self.known[launch.name] = Before(launch.request.shared.token, generation, jobs, hinders)

    def record(self, launch: BatchLaunch) -> None:
        """Record the elements of a sweep for readers of its results, if all of them belong to other sweeps."""
        request = launch.request.changed(relaunch="never")
        first = [element.key for element in request.elements[:1]] if isinstance(request, SweepRequest) else []
        only = replace(launch, request=request, follows=(), elements=first)
        answer, _made = self._carry_out(only, check_mode=self.check_mode)
        if answer.msg:
            self.answers[launch.name] = answer

    def results(self) -> list[ModuleResult]:
        """Return the answers for the controller."""
        return [asdict(answer) for answer in self.answers.values()]

    def result(self, name: str) -> ModuleResult:
        """Return the whole result of a launch, also of one that was not possible."""
        if self.answers[name].msg:
            return {"failed": True, "changed": False, "missing": [], "msg": self.answers[name].msg}
        # Said once for all launches. The predecessor has the files of another launch.
        once = ("slurm_commands", "warnings", *(() if self.check_mode else ("predecessor",)))
        return {key: value for key, value in self.whole[name].items() if key not in once}

    def _hold(self, launch: BatchLaunch) -> None:
        self.known[launch.name] = Before(
            launch.request.shared.token, hinders=f"follows {launch.name}, which could not be launched now"
        )

    def _hinders(self, launch: BatchLaunch) -> str:
        return "; ".join(self.known[name].hinders for name in launch.follows if self.known[name].hinders)

    def _carry_out(self, launch: BatchLaunch, *, check_mode: bool) -> tuple[Answer, SubmissionResult | None]:
        """Make one launch. A failure is an answer, too."""
        if self.silence:
            return Answer(launch.name, self.silence), None
        before = [self.known[name] for name in launch.follows]
        generations = {each.token: each.generation for each in before}
        request = launch.request.after(generations, [job for each in before for job in each.jobs])

        def submission_of(request: Request | SweepRequest) -> Submission:
            if isinstance(request, SweepRequest):
                only = replace(request, only=launch.elements)
                return SweepSubmission(only, self.slurm, check_mode=check_mode)
            submission = LaunchSubmission(request, self.slurm, check_mode=check_mode)
            submission.ended, submission.runtimes = self._ended, self._runtimes
            return submission

        params = {"x_runtime": None, "state": "present"}
        try:
            result = carry_out(request, submission_of, self.slurm, params, check_mode=check_mode)
        except SlurmUnavailable as error:
            self.silence = error.message
            return Answer(launch.name, error.message), None
        except RankzeroError as error:
            return Answer(launch.name, error.message), None
        except OSError as error:
            return Answer(launch.name, f"{error.filename or 'state_root'}: {error.strerror or error}"), None
        self.whole[launch.name] = result
        made = read_result(result)
        return _answer(launch.name, made, check_mode), made


def _answer(name: str, made: SubmissionResult, check_mode: bool) -> Answer:
    """The part of a launch's result that the controller needs. A whole one is as large as the launch's files."""
    # Every call copies the job runtime itself.
    missing = [ref.record() for ref in made.missing if ref.declared.in_store]
    if isinstance(made, SweepResult):
        active = [
            {"key": each.key, "job_id": each.job_id, "run_dir": each.run_dir}
            for each in made.elements
            if each.standing in ACTIVE
        ]
        arrays = [array.job_id for array in made.arrays]
        sweep = SweepMade(dict(made.counts), made.sweep_dir, arrays, active)
        return Answer(name, missing=missing, sweep=sweep, diff=[dict(made.diff)] if check_mode else [])
    job = LaunchMade(made.generation, made.job_id, made.run_dir, made.submission)
    answer = Answer(name, missing=missing, job=job)
    if check_mode:
        answer.diff = [dict(each) for each in made.diff if each["before"] != each["after"]]
        answer.predecessor = made.predecessor if made.generation == 1 else None
    return answer


def launched_together(
    slurm: Slurm, packed_launches: str, runtime: Mapping[str, str] | None, *, check_mode: bool
) -> ModuleResult:
    """Make launches of which none follows another, and return the whole result of each.

    `runtime`: the files of the job runtime, where an earlier call has answered that it is `missing`.
    """
    launches, known = unpacked(packed_launches)
    batch = Batch(slurm, known, check_mode)
    try:
        needed = runtime_of(launches[0].request.shared.refs)
        if runtime:
            publish_files(needed.path, runtime)
        elif not check_mode and not is_present(needed):
            return {"changed": False, "missing": [needed.record()], "results": []}
        batch.look_up(launches)
        for launch in launches:
            batch.launch(launch)
    finally:
        forget_secrets(launches)
    results = [batch.result(launch.name) for launch in launches]
    told = {"slurm_commands": slurm.commands, "warnings": slurm.notes}
    return {"changed": any(result["changed"] for result in results), "missing": [], "results": results, **told}


def forget_secrets(launches: Sequence[BatchLaunch]) -> None:
    """Remove the files of secrets that were sent for this call."""
    for launch in launches:
        with contextlib.suppress(OSError):
            os.unlink(launch.request.shared.secrets_file or "")
