# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `reconcile`: read the folder, get the plan from the cluster, show it, then carry it out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import REQUEST
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import short_list
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile import plan as plans
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.request import ReconcileRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.wanted import ARGUMENTS, Policies, Wanted
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import SWEEP_PREFIX
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import ACTIVE
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.result import SweepResult, read_result
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.launch_many import LaunchManyAction
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.plain import plain
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.folder import (
    Spec,
    in_order,
    inside_code,
    provenance_of,
    read_folder,
    set_name,
    with_defaults,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.pipeline import Rendered
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import display

COLORS = {"launch": "green", "cancel": "yellow", "failed": "red"}

# Values in the steps of a plan that only this action uses.
_INTERNAL = ("ours", "submits", "anew", "recorded")
# Values that only this action adds to them.
_OF_THE_ACTION = ("done", "error", "leaves")

Step = dict[str, Any]


@dataclass
class _Ready:
    """A rendered spec, with its launch's generation and the jobs that later launches wait for."""

    spec: Spec
    rendered: Rendered
    follows: list[str]
    generation: str = ""
    jobs: list[str] = field(default_factory=list)
    # The reason why nothing that follows it can be submitted now.
    hinders: str = ""


class ActionModule(LaunchManyAction):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(ARGUMENTS)
        self._task_vars = task_vars or {}
        self._host = str(self._task_vars.get("inventory_hostname", "localhost"))
        try:
            return self._reconcile(plain(options))
        except RankzeroError as error:
            return {"failed": True, "msg": error.message, **error.partial}
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)

    def _reconcile(self, options: dict[str, Any]) -> dict[str, Any]:
        cwd = os.getcwd()
        specs = read_folder(options["jobs"], with_defaults(options["cluster"], options["jobs"], cwd), cwd)
        origin = provenance_of(options["jobs"], cwd)
        name = options["set"] or set_name(options["jobs"], cwd, origin)
        ready = self._rendered(specs, options, name, origin)
        self._warn(inside_code([(one.spec, one.rendered.first.snapshot) for one in ready.values()]))
        request = ReconcileRequest(
            state_root=_state_root(ready),
            set=name,
            facts=origin,
            policies=Policies(**{field.name: options[field.name] for field in fields(Policies)}),
            wanted=[
                Wanted(
                    of,
                    one.rendered.request["key"],
                    one.spec.file,
                    tuple(one.rendered.element_keys()),
                    tuple(one.follows),
                )
                for of, one in ready.items()
            ],
        )
        found = self._module(options, request)
        if found.get("failed"):
            return found
        steps = _steps(found["steps"], ready)
        stores = next(iter(ready.values())).rendered.first.arguments["stores"]
        self._tell(steps, ready, name, origin)
        result = {
            "changed": any(step["action"] in ("launch", "cancel") for step in steps),
            "steps": steps,
            "set": name,
            "provenance": origin,
            "missing": [],
            "snapshots": None,
            "store_root": stores["store_root"],
            "store_group_writable": stores["store_group_writable"],
            "slurm_commands": found["slurm_commands"],
            "diff": [_standing(steps)],
        }
        if self._task.check_mode:
            self._rehearse(steps, ready, result)
        else:
            self._act(options, request, steps, ready, result)
        result["counts"] = {action: sum(step["action"] == action for step in steps) for action in plans.ACTIONS}
        result["active"] = _active(steps)
        problems = [f"{step['name']} ({step['file']}): {step['error']}" for step in steps if step["error"]]
        for step in steps:
            for internal in _INTERNAL:
                step.pop(internal)
        # If something must be built first, the action runs again afterwards, and reports these problems then.
        if problems and not result["missing"]:
            count = "1 launch was" if len(problems) == 1 else f"{len(problems)} launches were"
            result.update(failed=True, msg="\n".join([f"{count} not possible:", *(f"  - {one}" for one in problems)]))
        return result

    def _warn(self, names: list[str]) -> None:
        if names:
            display.warning(
                f"{self._host}: the code of {short_list(names)} contains the job files, so a change of any one "
                "of them changes the key of every such launch: code.include or the command names them, there is no "
                "other file, or an earlier release has launched it so"
            )

    def _rendered(
        self, specs: list[Spec], options: Mapping[str, Any], name: str, origin: Mapping[str, Any]
    ) -> dict[str, _Ready]:
        """The specs by name, each after those that it follows: their keys are part of its own."""
        self._launches.names = {spec.job.spec.name for spec in specs}
        ready: list[_Ready] = []
        for spec, stage in in_order(specs, options["jobs"], os.getcwd()):
            facts = {"job_file": {**origin, "path": spec.file, "set": name}}
            follows = [ready[index].spec.job.spec.name for index in stage.after]
            try:
                one = self.rendered(stage, [before.rendered for before in ready], options["relaunch"], facts)
            except RankzeroError as error:
                raise RankzeroError(f"jobs: {spec.file}: {error.message}; nothing was done", **error.partial) from error
            ready.append(_Ready(spec, one, follows))
        return {one.spec.job.spec.name: one for one in ready}

    def _module(self, options: Mapping[str, Any], request: ReconcileRequest) -> dict[str, Any]:
        """Call the module, to make the plan or to carry out the steps before the launches."""
        given = {"jobs": options["jobs"], "_request": request.arguments()}
        return self.call("rankzero.slurm.reconcile", given, self._task_vars, {**ARGUMENTS, **REQUEST})

    def _launch(self, step: Step, ready: Mapping[str, _Ready], *, rehearse: bool) -> dict[str, Any]:
        """Make one launch; with `rehearse`, only find out what would happen."""
        one, before = ready[step["name"]], [ready[name] for name in ready[step["name"]].follows]
        generations = {each.rendered.request["token"]: each.generation for each in before}
        waits = [job for each in before for job in each.jobs]
        changes: dict[str, Any] = {"supersedes": True, "relaunch": "on_failure"} if step["anew"] else {}
        launch = one.rendered.submitted(generations, waits, **changes)
        # If all elements of a sweep are submitted, they need not be named.
        narrowed = len(step["submits"]) < len(one.rendered.element_keys())
        checked = self._task.check_mode
        self._task.check_mode = checked or rehearse
        try:
            named = step["submits"] if narrowed else ()
            return self.launched_stage(one.rendered.stage, launch, self._task_vars, elements=named)
        finally:
            self._task.check_mode = checked

    def _rehearse(self, steps: list[Step], ready: Mapping[str, _Ready], result: dict[str, Any]) -> None:
        """Check mode: whether Slurm would accept each launch, and what each would send."""
        for step in _launches(steps, ready):
            answer = self._launch(step, ready, rehearse=True)
            result["slurm_commands"] += answer.get("slurm_commands", 0)
            diff = answer.get("diff") or []
            result["diff"] += diff if isinstance(diff, list) else [diff]
            if answer.get("failed"):
                self._refused(step, answer)
            else:
                ready[step["name"]].generation = str(answer.get("generation", ""))

    def _act(
        self,
        options: Mapping[str, Any],
        request: ReconcileRequest,
        steps: list[Step],
        ready: Mapping[str, _Ready],
        result: dict[str, Any],
    ) -> None:
        """Carry out the plan. A job is cancelled for its successor only once the successor can be launched."""
        cancelled = {step["name"] for step in steps if step["action"] == "cancel"}
        held: set[str] = set()
        for step in _launches(steps, ready):
            one = ready[step["name"]]
            one.hinders = "; ".join(ready[name].hinders for name in one.follows if ready[name].hinders)
            if (one.hinders or step["name"] in cancelled) and not self._looked(step, ready, result):
                held.add(step["name"])
        begun = [step for step in steps if step["name"] not in held]
        wanted = [
            step
            for step in begun
            if step["action"] in ("cancel", "launch") or (step["action"] == "adopt" and not step["ours"])
        ]
        if wanted:
            plan = [
                plans.Step(**{key: value for key, value in step.items() if key not in _OF_THE_ACTION})
                for step in wanted
            ]
            answer = self._module(options, replace(request, steps=plan))
            if answer.get("failed"):
                raise RankzeroError(str(answer.get("msg")), steps=steps)
            result["slurm_commands"] += answer["slurm_commands"]
        for step in begun:
            step["done"] = step["action"] != "launch"
            if step["action"] in ("adopt", "unchanged", "failed") and not step["recorded"]:
                self._record(step, ready)
        for step in _launches(begun, ready):
            one = ready[step["name"]]
            one.hinders = "; ".join(ready[name].hinders for name in one.follows if ready[name].hinders)
            if one.hinders:
                self._looked(step, ready, result)
            else:
                self._begin(step, ready, result)

    def _looked(self, step: Step, ready: Mapping[str, _Ready], result: dict[str, Any]) -> bool:
        """Whether a launch could be made now. What it lacks is built with the rest, even if the launch must wait for
        those that it follows.
        """
        one = ready[step["name"]]
        answer = self._launch(step, ready, rehearse=True)
        possible = self._possible(step, answer, ready, result)
        if possible and one.hinders and not result["missing"]:
            self._refused(step, {"msg": one.hinders})
        if not possible or one.hinders:
            one.hinders = f"follows {step['name']}, which could not be launched now"
            return False
        one.generation = str(answer.get("generation", ""))
        return True

    def _begin(self, step: Step, ready: Mapping[str, _Ready], result: dict[str, Any]) -> None:
        """Make one launch of the plan."""
        one = ready[step["name"]]
        answer = self._launch(step, ready, rehearse=False)
        result["slurm_commands"] += answer.get("slurm_commands", 0)
        if not self._possible(step, answer, ready, result):
            one.hinders = f"follows {step['name']}, which could not be launched now"
            return
        step["done"] = True
        launch = read_result(answer)
        if isinstance(launch, SweepResult):
            active = [element for element in launch.elements if element.standing == ACTIVE]
            step["elements"] = [{"key": each.key, "job_id": each.job_id, "run_dir": each.run_dir} for each in active]
            step["job_id"] = ",".join(array.job_id for array in launch.arrays) or step["job_id"]
            counts = ", ".join(f"{count} {name}" for name, count in launch.counts.items())
            self._say(f"{step['name']}: {counts}; {launch.sweep_dir}")
        else:
            step.update(generation=launch.generation, job_id=launch.job_id, run_dir=launch.run_dir)
            how = {"submitted": "submitted", "adopted": "already there and active, adopted"}
            outcome = how.get(launch.launch_state, launch.launch_state)
            self._say(f"{step['name']}: job {step['job_id']}, generation {step['generation']}: {outcome}")
        try:
            _note(one, step, launch.active_ids())
            if launch.hopeless:
                one.hinders = f"follows {step['name']}, which has failed meanwhile"
        except RankzeroError as error:
            one.hinders = error.message

    def _record(self, step: Step, ready: Mapping[str, _Ready]) -> None:
        """Record the elements of a sweep for readers of its results, if all of them belong to other sweeps."""
        one = ready[step["name"]]
        launch = one.rendered.submitted({}, (), relaunch="never")
        first = one.rendered.element_keys()[:1]
        answer = self.launched_stage(one.rendered.stage, launch, self._task_vars, elements=first)
        if answer.get("failed"):
            self._refused(step, answer)

    def _possible(
        self, step: Step, answer: Mapping[str, Any], ready: Mapping[str, _Ready], result: dict[str, Any]
    ) -> bool:
        """Whether a launch was, or could be, made. If not, record why: refused, or something must be built first."""
        if answer.get("failed"):
            self._refused(step, answer)
            return False
        one = ready[step["name"]]
        try:
            needed = self.producers({"missing": _to_build(answer)}, one.rendered.first, one.spec.job)
        except RankzeroError as error:
            self._refused(step, {"msg": error.message})
            return False
        result["snapshots"] = needed["snapshots"]
        known = {ref["path"] for ref in result["missing"]}
        result["missing"] += [ref for ref in needed["missing"] if ref["path"] not in known]
        if needed["missing"]:
            self._say(f"{step['name']}: to be built first: {', '.join(ref['kind'] for ref in needed['missing'])}")
        return not needed["missing"]

    def _refused(self, step: Step, answer: Mapping[str, Any]) -> None:
        step["error"] = str(answer.get("msg"))
        self._say(f"{step['name']}: not possible: {step['error']}", "red")

    def _tell(self, steps: list[Step], ready: Mapping[str, _Ready], name: str, origin: Mapping[str, Any]) -> None:
        at = f" at {str(origin['commit'])[:10]}" if origin.get("commit") else ""
        self._say(f"{name}{at}{' with uncommitted changes' if origin.get('dirty') else ''}")
        for step in steps:
            what = "array" if step["kind"] == "sweep" else "job"
            job = f"{what} {step['job_id']}" if step["job_id"] else ""
            where = f" ({', '.join(filter(None, (step['file'], job)))})"
            self._say(f"  {step['action']:<10}{step['name']}{where}: {step['reason']}", COLORS.get(step["action"]))
            if step["action"] == "launch":
                for line in ready[step["name"]].rendered.first.leaving.lines():
                    self._say(f"            {line}")

    def _say(self, text: str, color: str | None = None) -> None:
        display.display(f"{self._host}: {text}", color=color)


def _launches(steps: list[Step], ready: Mapping[str, _Ready]) -> list[Step]:
    """The launches to make, each after those that it follows."""
    found = {step["name"]: step for step in steps if step["action"] == "launch"}
    return [found[name] for name in ready if name in found]


def _state_root(ready: Mapping[str, _Ready]) -> str:
    """The state root: a cluster has a single place for all runs."""
    runs_dir = str(next(iter(ready.values())).rendered.request["runs_dir"])
    return os.path.dirname(os.path.dirname(os.path.dirname(runs_dir)))


def _steps(planned: list[Step], ready: Mapping[str, _Ready]) -> list[Step]:
    """The steps of the cluster's plan, with what only the controller knows about them."""
    steps: list[Step] = [{**step, "done": False, "error": "", "leaves": None} for step in planned]
    for step in steps:
        if step["action"] == "launch":
            step["leaves"] = ready[step["name"]].rendered.first.leaving.facts()
        if step["kind"] == "sweep":
            step["run_dir"] = os.path.join(_state_root(ready), "runs", step["name"], f"{SWEEP_PREFIX}{step['key']}")
        if step["file"]:
            _note(ready[step["name"]], step)
    return steps


def _note(one: _Ready, step: Step, jobs: list[str] | None = None) -> None:
    """Record what later launches must know about a launch. `jobs`: what they wait for, if a submission returned it."""
    one.generation = str(step["generation"] or "")
    if jobs is None:
        listed = step["elements"] if step["kind"] == "sweep" else [step] if step["action"] == "adopt" else []
        jobs = [str(each["job_id"]) for each in listed if each["job_id"]]
    one.jobs = jobs


def _active(steps: list[Step]) -> list[str]:
    """The run directories of the specs' active launches."""
    found: list[str] = []
    for step in steps:
        if step["kind"] == "sweep" and step["file"]:
            found += [each["run_dir"] for each in step["elements"]]
        elif step["action"] == "adopt" or (step["action"] == "launch" and step["done"]):
            found += [step["run_dir"]] if step["run_dir"] else []
    return found


def _to_build(answer: Mapping[str, Any]) -> list[dict[str, str]]:
    """The missing inputs, except the job runtime, which every launch copies itself."""
    return [ref for ref in answer.get("missing", []) if ref["kind"] != "runtime"]


def _standing(steps: list[Step]) -> dict[str, str]:
    """The launches before and after, one line each, in the form of Ansible's diff."""
    before, after = [], []
    for step in steps:
        line = f"{step['name']} {step['key']}"
        if step["kind"] == "sweep":
            active = step["counts"]["active"]
            to_come = 0 if step["action"] == "cancel" else active + len(step["submits"])
            before += [f"{line} {active} elements\n"] if active else []
            after += [f"{line} {to_come} elements\n"] if to_come else []
            continue
        if step["action"] in ("cancel", "adopt", "keep"):
            before.append(f"{line} job {step['job_id']}\n")
        if step["action"] in ("adopt", "keep"):
            after.append(f"{line} job {step['job_id']}\n")
        if step["action"] == "launch":
            after.append(f"{line} new job\n")
    return {
        "before_header": "active launches",
        "after_header": "active launches",
        "before": "".join(sorted(before)),
        "after": "".join(sorted(after)),
    }
