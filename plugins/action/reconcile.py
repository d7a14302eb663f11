# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `reconcile`: read the folder, get the plan from the cluster, show it, then carry it out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import REQUEST
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    JsonObject,
    Parameters,
    answer_of,
    record_of,
    records_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import short_list
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref, runtime_of
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.lines import (
    PlanLine,
    active_runs,
    failure,
    launch_diff,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.plan import ACTIONS, ActiveElement, Step
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.request import ReconcileRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.wanted import ARGUMENTS, DeclaredLaunch, Policies
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import SWEEP_PREFIX
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.many.launches import (
    Answer,
    BatchLaunch,
    Before,
    SweepMade,
    packed,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.launch_many import LaunchManyAction
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.plain import plain
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.compare import compared
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.folder import (
    Spec,
    in_order,
    inside_code,
    provenance_of,
    read_folder,
    refuse_uncommitted,
    set_name,
    with_defaults,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.pipeline import Rendered
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import display
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.provenance import Origin

COLORS = {"launch": "green", "cancel": "yellow", "failed": "red"}


@dataclass(frozen=True)
class _Options:
    """The options of the task that say what is declared. The rest are policies."""

    jobs: str
    cluster: Parameters
    relaunch: str
    set: str | None = None


@dataclass(frozen=True)
class _Answered:
    """What the module answers: the plan; or, once that is carried out, the launches that were `held`, and `answers`."""

    slurm_commands: int = 0
    steps: Sequence[Step] = ()
    runtime_missing: bool = False
    held: Sequence[str] = ()
    answers: Sequence[Answer] = ()


@dataclass
class _Ready:
    """A rendered spec, with its launch's generation and the jobs that later launches wait for."""

    spec: Spec
    rendered: Rendered
    follows: list[str]
    generation: str = ""
    jobs: list[str] = field(default_factory=list)


@dataclass
class _Outcome:
    """What the action finds out, in the fields of its result. `diff`: in the form of Ansible's."""

    slurm_commands: int
    diff: list[Mapping[str, str]]
    missing: list[JsonObject] = field(default_factory=list)
    snapshots: str | None = None


class ActionModule(LaunchManyAction):
    def act(self, task_vars: dict[str, Any]) -> dict[str, Any]:
        _checked, given = self.validate_argument_spec(ARGUMENTS)
        given = plain(given)
        cwd, options = os.getcwd(), record_of(_Options, given)
        specs = read_folder(options.jobs, with_defaults(options.cluster, options.jobs, cwd), cwd)
        origin = provenance_of(options.jobs, cwd)
        name = options.set or set_name(options.jobs, cwd, origin)
        ready = self._rendered(specs, options, name, origin)
        code = [(prepared.spec, prepared.rendered.first.snapshot) for prepared in ready.values()]
        refuse_uncommitted(options.jobs, origin, code)
        self._warn(inside_code(code))
        request = ReconcileRequest(
            state_root=_state_root(ready),
            set=name,
            facts=asdict(origin),
            runtime=runtime_of(next(iter(ready.values())).rendered.first.refs),
            policies=record_of(Policies, given),
            wanted=[
                DeclaredLaunch(
                    of,
                    prepared.rendered.plan.key,
                    prepared.spec.file,
                    tuple(prepared.rendered.element_keys()),
                    tuple(prepared.follows),
                )
                for of, prepared in ready.items()
            ],
        )
        answer = self._module(options, request)
        if answer_of(answer).failed:
            return answer
        planned = record_of(_Answered, answer, steps=lambda steps: [Step.of(step) for step in steps])
        stores = next(iter(ready.values())).rendered.first.request.stores
        lines = _lines(planned.steps, ready)
        self._tell(lines, ready, name, origin)
        outcome = _Outcome(planned.slurm_commands, [launch_diff(lines)])
        if planned.runtime_missing and not self._task.check_mode:
            request = replace(request, runtime_files=next(iter(ready.values())).rendered.first.runtime)
        self._act(options, request, lines, ready, outcome)
        return {
            "changed": any(line.step.action in ("launch", "cancel") for line in lines),
            "steps": [line.result() for line in lines],
            "set": name,
            "provenance": asdict(origin),
            **vars(outcome),
            "store_root": stores.store_root,
            "store_group_writable": stores.store_group_writable,
            "counts": {action: sum(line.step.action == action for line in lines) for action in ACTIONS},
            "active": active_runs(lines),
            **failure(lines, outcome.missing),
        }

    def _warn(self, names: list[str]) -> None:
        if names:
            display.warning(
                f"{self.host}: the code of {short_list(names)} contains the job files, so a change of any one "
                "of them changes the key of every such launch: code.include or the command names them, or there is "
                "no other file"
            )

    def _rendered(self, specs: list[Spec], options: _Options, name: str, origin: Origin) -> dict[str, _Ready]:
        """The specs by name, each after those that it follows: their keys are part of its own."""
        ready: list[_Ready] = []
        for spec, stage in in_order(specs, options.jobs, os.getcwd()):
            facts = {"job_file": {**asdict(origin), "path": spec.file, "set": name}}
            follows = [ready[index].spec.job.spec.name for index in stage.after]
            try:
                rendered = self.rendered(stage, [before.rendered for before in ready], options.relaunch, facts)
            except RankzeroError as error:
                raise RankzeroError(f"jobs: {spec.file}: {error.message}; nothing was done", **error.partial) from error
            ready.append(_Ready(spec, rendered, follows))
        return {prepared.spec.job.spec.name: prepared for prepared in ready}

    def _module(self, options: _Options, request: ReconcileRequest) -> dict[str, Any]:
        """Call the module, to make the plan or to carry out the steps before the launches."""
        given = {"jobs": options.jobs, "x_request": request.arguments()}
        return self.call("rankzero.slurm.reconcile", given, self._task_vars, {**ARGUMENTS, **REQUEST})

    def _act(
        self,
        options: _Options,
        request: ReconcileRequest,
        lines: list[PlanLine],
        ready: Mapping[str, _Ready],
        outcome: _Outcome,
    ) -> None:
        """Carry out the plan by one call. Check mode: whether Slurm would accept each launch."""
        wanted = [line for line in lines if line.launches or not self._task.check_mode]
        wanted = [
            line
            for line in wanted
            if line.step.action in ("cancel", "launch", "gone")
            or (line.step.action in ("adopt", "unchanged", "failed") and not line.step.recorded)
            or (line.step.action == "adopt" and not line.step.ours)
        ]
        done = _Answered()
        if wanted:
            steps = [line.step for line in wanted]
            answer = self._module(options, replace(request, steps=steps, launches=self._batch(wanted, ready)))
            refusal = answer_of(answer)
            if refusal.failed:
                raise RankzeroError(str(refusal.msg), steps=[line.result() for line in lines])
            done = record_of(_Answered, answer, answers=lambda given: [Answer.of(each) for each in given])
            outcome.slurm_commands += done.slurm_commands
        for line in lines if not self._task.check_mode else ():
            line.done = not line.launches and line.step.name not in done.held
        of_name = {line.step.name: line for line in lines if line.step.action != "cancel"}
        for each in done.answers:
            self._answered(of_name[each.name], each, ready[each.name], outcome)

    def _batch(self, wanted: list[PlanLine], ready: Mapping[str, _Ready]) -> str:
        """The launches of a plan, each after those that it follows, as text for the module."""
        of_name = {line.step.name: line.step for line in wanted if line.is_sweep or line.launches}
        shipped: dict[bytes, str] = {b"": ""}
        launches = []
        for name, prepared in ready.items():
            if name in of_name:
                lines = b"" if self._task.check_mode else self.secrets(prepared.spec.job, self._task_vars)
                if lines not in shipped:
                    shipped[lines] = self.ship_secrets(lines, f"secrets-{len(shipped) - 1}.env")
                launches.append(_launch(of_name[name], prepared, shipped[lines]))
        known = {
            name: Before(ready[name].rendered.plan.token, ready[name].generation, ready[name].jobs)
            for launch in launches
            for name in launch.follows
        }
        return packed(launches, known)

    def _answered(self, line: PlanLine, answer: Answer, prepared: _Ready, outcome: _Outcome) -> None:
        """Take over the outcome of one launch of the plan."""
        made = answer.job
        if self._task.check_mode:
            if made and made.submission == "planned" and made.generation == 1:
                change, diff = compared(prepared.rendered.first, answer.predecessor)
                line.changes = change.changes if change else ()
                outcome.diff.append(diff)
            outcome.diff += answer.diff
        if answer.msg:
            self._refused(line, answer.msg)
        elif self._task.check_mode:
            return
        elif answer.missing:
            self._lacks(line, answer.missing, prepared, outcome)
        elif line.launches and answer.sweep:
            self._swept(line, answer.sweep)
        elif line.launches and made:
            line.done = True
            line.step = replace(line.step, generation=made.generation, job_id=made.job_id, run_dir=made.run_dir)
            how = {"submitted": "submitted", "adopted": "already there and active, adopted"}
            became = how.get(made.submission, made.submission)
            self._say(f"{line.step.name}: job {made.job_id}, generation {made.generation}: {became}")

    def _swept(self, line: PlanLine, made: SweepMade) -> None:
        line.done = True
        active = records_of(ActiveElement, made.active)
        line.step = replace(line.step, elements=active, job_id=",".join(made.arrays) or line.step.job_id)
        counts = ", ".join(f"{count} {name}" for name, count in made.counts.items())
        self._say(f"{line.step.name}: {counts}; {made.sweep_dir}")

    def _lacks(self, line: PlanLine, missing: Sequence[JsonObject], prepared: _Ready, outcome: _Outcome) -> None:
        """Record what must be built before a launch."""
        try:
            needed = self.producers(missing, prepared.rendered.first, prepared.spec.job)
        except RankzeroError as error:
            self._refused(line, error.message)
            return
        outcome.snapshots = needed.snapshots
        known = {Ref.of(ref).path for ref in outcome.missing}
        outcome.missing += [ref for ref in needed.missing if Ref.of(ref).path not in known]
        self._say(f"{line.step.name}: to be built first: {', '.join(Ref.of(ref).kind for ref in needed.missing)}")

    def _refused(self, line: PlanLine, why: str) -> None:
        line.error = why
        self._say(f"{line.step.name}: not possible: {why}", "red")

    def _tell(self, lines: list[PlanLine], ready: Mapping[str, _Ready], name: str, origin: Origin) -> None:
        at = f" at {origin.commit[:10]}" if origin.commit else ""
        self._say(f"{name}{at}{' with uncommitted changes' if origin.dirty else ''}")
        for line in lines:
            step = line.step
            job = f"{'array' if line.is_sweep else 'job'} {step.job_id}" if step.job_id else ""
            where = f" ({', '.join(filter(None, (step.file, job)))})"
            self._say(f"  {step.action:<10}{step.name}{where}: {step.reason}", COLORS.get(step.action))
            for text in ready[step.name].rendered.first.leaving.lines() if line.launches else ():
                self._say(f"            {text}")

    def _say(self, text: str, color: str | None = None) -> None:
        display.display(f"{self.host}: {text}", color=color)


def _launch(step: Step, prepared: _Ready, secrets_file: str) -> BatchLaunch:
    """The launch of a step; for a sweep whose elements all exist, what is needed to record them."""
    launch = prepared.rendered.launch.changed(secrets_file=secrets_file or None)
    launch = launch.changed(supersedes=True, relaunch="on_failure") if step.anew else launch
    # If all elements of a sweep are submitted, they need not be named.
    narrowed = len(step.submits) < len(prepared.rendered.element_keys())
    return BatchLaunch(step.name, launch.request, prepared.follows, list(step.submits) if narrowed else [])


def _state_root(ready: Mapping[str, _Ready]) -> str:
    """The state root: a cluster has a single place for all runs."""
    return next(iter(ready.values())).rendered.first.request.state_root


def _lines(planned: Sequence[Step], ready: Mapping[str, _Ready]) -> list[PlanLine]:
    """The lines of the cluster's plan, with what only the controller knows about them."""
    lines = []
    for step in planned:
        if step.kind == "sweep":
            runs = _state_root(ready)
            step = replace(step, run_dir=os.path.join(runs, "runs", step.name, f"{SWEEP_PREFIX}{step.key}"))
        line = PlanLine(step)
        if line.launches:
            rendered = ready[step.name].rendered
            line.leaves, hours = rendered.first.leaving.facts(), rendered.launch.request.shared.limits.node_hours
            line.node_hours = None if hours is None else hours * (len(step.submits) or 1)
        if step.file:
            _note(ready[step.name], step)
        lines.append(line)
    return lines


def _note(prepared: _Ready, step: Step) -> None:
    """Record what later launches must know about a launch that exists."""
    prepared.generation = str(step.generation or "")
    adopted = [step.job_id] if step.action == "adopt" else []
    listed = [each.job_id for each in step.elements] if step.kind == "sweep" else adopted
    prepared.jobs = [job_id for job_id in listed if job_id]
