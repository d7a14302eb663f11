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
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref, runtime_of
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile import plan as plans
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.request import ReconcileRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.wanted import ARGUMENTS, Policies, Wanted
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import SWEEP_PREFIX
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.many.launches import BatchLaunch, Before, packed
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.launch_many import LaunchManyAction
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.plain import plain
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.compare import compared
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


class ActionModule(LaunchManyAction):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(ARGUMENTS)
        self._task_vars = task_vars or {}
        self._host = str(self._task_vars.get("inventory_hostname", "localhost"))
        try:
            return self.with_inputs(lambda _variables: self._reconcile(plain(options)), self._task_vars)
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
        self._warn(inside_code([(prepared.spec, prepared.rendered.first.snapshot) for prepared in ready.values()]))
        request = ReconcileRequest(
            state_root=_state_root(ready),
            set=name,
            facts=origin,
            runtime=runtime_of(map(Ref.of, next(iter(ready.values())).rendered.request["refs"])),
            policies=Policies(**{field.name: options[field.name] for field in fields(Policies)}),
            wanted=[
                Wanted(
                    of,
                    prepared.rendered.request["key"],
                    prepared.spec.file,
                    tuple(prepared.rendered.element_keys()),
                    tuple(prepared.follows),
                )
                for of, prepared in ready.items()
            ],
        )
        answer = self._module(options, request)
        if answer.get("failed"):
            return answer
        steps = _steps(answer["steps"], ready)
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
            "slurm_commands": answer["slurm_commands"],
            "diff": [_standing(steps)],
        }
        if answer["runtime_missing"] and not self._task.check_mode:
            request = replace(request, runtime_files=next(iter(ready.values())).rendered.first.runtime)
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
            result.update(
                failed=True, msg="\n".join([f"{count} not possible:", *(f"  - {problem}" for problem in problems)])
            )
        return result

    def _warn(self, names: list[str]) -> None:
        if names:
            display.warning(
                f"{self._host}: the code of {short_list(names)} contains the job files, so a change of any one "
                "of them changes the key of every such launch: code.include or the command names them, or there is "
                "no other file"
            )

    def _rendered(
        self, specs: list[Spec], options: Mapping[str, Any], name: str, origin: Mapping[str, Any]
    ) -> dict[str, _Ready]:
        """The specs by name, each after those that it follows: their keys are part of its own."""
        ready: list[_Ready] = []
        for spec, stage in in_order(specs, options["jobs"], os.getcwd()):
            facts = {"job_file": {**origin, "path": spec.file, "set": name}}
            follows = [ready[index].spec.job.spec.name for index in stage.after]
            try:
                rendered = self.rendered(stage, [before.rendered for before in ready], options["relaunch"], facts)
            except RankzeroError as error:
                raise RankzeroError(f"jobs: {spec.file}: {error.message}; nothing was done", **error.partial) from error
            ready.append(_Ready(spec, rendered, follows))
        return {prepared.spec.job.spec.name: prepared for prepared in ready}

    def _module(self, options: Mapping[str, Any], request: ReconcileRequest) -> dict[str, Any]:
        """Call the module, to make the plan or to carry out the steps before the launches."""
        given = {"jobs": options["jobs"], "x_request": request.arguments()}
        return self.call("rankzero.slurm.reconcile", given, self._task_vars, {**ARGUMENTS, **REQUEST})

    def _act(
        self,
        options: Mapping[str, Any],
        request: ReconcileRequest,
        steps: list[Step],
        ready: Mapping[str, _Ready],
        result: dict[str, Any],
    ) -> None:
        """Carry out the plan by one call. Check mode: whether Slurm would accept each launch."""
        wanted = [step for step in steps if step["action"] == "launch" or not self._task.check_mode]
        wanted = [
            step
            for step in wanted
            if step["action"] in ("cancel", "launch")
            or (step["action"] in ("adopt", "unchanged", "failed") and not step["recorded"])
            or (step["action"] == "adopt" and not step["ours"])
        ]
        answer: dict[str, Any] = {"held": [], "answers": []}
        if wanted:
            plan = [
                plans.Step(**{key: value for key, value in step.items() if key not in _OF_THE_ACTION})
                for step in wanted
            ]
            answer = self._module(options, replace(request, steps=plan, launches=self._batch(wanted, ready)))
            if answer.get("failed"):
                raise RankzeroError(str(answer.get("msg")), steps=steps)
            result["slurm_commands"] += answer["slurm_commands"]
        for step in steps if not self._task.check_mode else ():
            step["done"] = step["action"] != "launch" and step["name"] not in answer["held"]
        of_name = {step["name"]: step for step in steps if step["action"] != "cancel"}
        for each in answer["answers"]:
            self._answered(of_name[each["name"]], each, ready, result)

    def _batch(self, wanted: list[Step], ready: Mapping[str, _Ready]) -> str:
        """The launches of a plan, each after those that it follows, as text for the module."""
        of_name = {step["name"]: step for step in wanted if step["kind"] == "sweep" or step["action"] == "launch"}
        launches = [_launch(of_name[name], prepared) for name, prepared in ready.items() if name in of_name]
        known = {
            name: Before(prepared.rendered.request["token"], prepared.generation, prepared.jobs)
            for launch in launches
            for name, prepared in ((name, ready[name]) for name in launch.follows)
        }
        if not self._task.check_mode:
            shipped: dict[bytes, str] = {}
            for launch in launches:
                lines = self.secrets(ready[launch.name].spec.job, self._task_vars)
                if lines:
                    shipped[lines] = shipped.get(lines) or self.ship_secrets(lines, f"secrets-{len(shipped)}.env")
                    launch.request.get("array", launch.request)["secrets_file"] = shipped[lines]
        return packed(launches, known)

    def _answered(
        self, step: Step, answer: Mapping[str, Any], ready: Mapping[str, _Ready], result: dict[str, Any]
    ) -> None:
        """Take over the outcome of one launch of the plan."""
        if self._task.check_mode:
            first = ready[step["name"]].rendered.first
            if answer["job"] and answer["job"]["launch_state"] == "planned" and answer["job"]["generation"] == 1:
                result["diff"].append(compared(first, answer["predecessor"])[1])
            result["diff"] += answer["diff"]
            if answer["msg"]:
                self._refused(step, answer)
            return
        if not self._possible(step, answer, ready, result):
            return
        sweep, job = answer["sweep"], answer["job"]
        if step["action"] != "launch" or not (sweep or job):
            return
        step["done"] = True
        if sweep:
            step["elements"] = sweep["active"]
            step["job_id"] = ",".join(sweep["arrays"]) or step["job_id"]
            counts = ", ".join(f"{count} {name}" for name, count in sweep["counts"].items())
            self._say(f"{step['name']}: {counts}; {sweep['sweep_dir']}")
        else:
            step.update(generation=job["generation"], job_id=job["job_id"], run_dir=job["run_dir"])
            how = {"submitted": "submitted", "adopted": "already there and active, adopted"}
            outcome = how.get(job["launch_state"], job["launch_state"])
            self._say(f"{step['name']}: job {step['job_id']}, generation {step['generation']}: {outcome}")

    def _possible(
        self, step: Step, answer: Mapping[str, Any], ready: Mapping[str, _Ready], result: dict[str, Any]
    ) -> bool:
        """Whether a launch was, or could be, made. If not, record why: refused, or something must be built first."""
        if answer["msg"]:
            self._refused(step, answer)
            return False
        prepared = ready[step["name"]]
        if not answer["missing"]:
            return True
        try:
            needed = self.producers({"missing": answer["missing"]}, prepared.rendered.first, prepared.spec.job)
        except RankzeroError as error:
            self._refused(step, {"msg": error.message})
            return False
        result["snapshots"] = needed["snapshots"]
        known = {ref["path"] for ref in result["missing"]}
        result["missing"] += [ref for ref in needed["missing"] if ref["path"] not in known]
        self._say(f"{step['name']}: to be built first: {', '.join(ref['kind'] for ref in needed['missing'])}")
        return False

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


def _launch(step: Step, prepared: _Ready) -> BatchLaunch:
    """The launch of a step; for a sweep whose elements all exist, what is needed to record them."""
    request = {**prepared.rendered.launch.arguments}
    if step["kind"] == "sweep":
        request["array"] = {**request["array"]}
    if step["anew"]:
        request.get("array", request).update(supersedes=True, relaunch="on_failure")
    # If all elements of a sweep are submitted, they need not be named.
    narrowed = len(step["submits"]) < len(prepared.rendered.element_keys())
    return BatchLaunch(step["name"], request, prepared.follows, list(step["submits"]) if narrowed else [])


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


def _note(prepared: _Ready, step: Step) -> None:
    """Record what later launches must know about a launch that exists."""
    prepared.generation = str(step["generation"] or "")
    listed = step["elements"] if step["kind"] == "sweep" else [step] if step["action"] == "adopt" else []
    prepared.jobs = [str(each["job_id"]) for each in listed if each["job_id"]]


def _active(steps: list[Step]) -> list[str]:
    """The run directories of the specs' active launches."""
    run_dirs: list[str] = []
    for step in steps:
        if step["kind"] == "sweep" and step["file"]:
            run_dirs += [each["run_dir"] for each in step["elements"]]
        elif step["action"] == "adopt" or (step["action"] == "launch" and step["done"]):
            run_dirs += [step["run_dir"]] if step["run_dir"] else []
    return run_dirs


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
