# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller half of `reconcile`: reads the folder, asks the cluster for the plan, shows it, then carries it out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ansible.utils.display import Display

from ansible_collections.rankzero.slurm.plugins.module_utils.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.plan import ACTIONS, CHANGED, RELAUNCH, REMOVED
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.runs import KEY_LENGTH
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.words import short_list
from ansible_collections.rankzero.slurm.plugins.plugin_utils.folder import Spec, provenance_of, read_folder, set_name
from ansible_collections.rankzero.slurm.plugins.plugin_utils.launch_action import LaunchAction, plain
from ansible_collections.rankzero.slurm.plugins.plugin_utils.launching import Prepared

display = Display()
COLORS = {"launch": "green", "cancel": "yellow", "failed": "red"}
OPTIONS: dict[str, Any] = {
    "jobs": {"type": "str", "required": True},
    "cluster": {"type": "dict", "default": {}},
    "set": {"type": "str"},
    "removed": {"type": "str", "choices": list(REMOVED), "default": "keep"},
    "changed": {"type": "str", "choices": list(CHANGED), "default": "wait"},
    "relaunch": {"type": "str", "choices": list(RELAUNCH), "default": "never"},
    "max_failures": {"type": "int", "default": 3},
}

Step = dict[str, Any]


class ActionModule(LaunchAction):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(OPTIONS)
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
        specs = read_folder(options["jobs"], options["cluster"], cwd)
        origin = provenance_of(options["jobs"], cwd)
        name = options["set"] or set_name(options["jobs"], cwd, origin)
        ready = {spec.job.spec.name: (spec, self._ready(spec, options, name, origin)) for spec in specs}
        self._warn(_inside_their_code(specs, [prepared for _spec, prepared in ready.values()]))
        # One cluster, one place for all runs.
        runs_dir = next(iter(ready.values()))[1].arguments["runs_dir"]
        policies = {key: options[key] for key in ("removed", "changed", "relaunch", "max_failures")}
        request = {
            "state_root": os.path.dirname(os.path.dirname(os.path.dirname(runs_dir))),
            "set": name,
            "facts": origin,
            "policies": policies,
            "wanted": [
                {"name": spec.job.spec.name, "key": prepared.plan.key[:KEY_LENGTH], "file": spec.file}
                for spec, prepared in ready.values()
            ],
        }
        found = self._module(options, request)
        if found.get("failed"):
            return found
        steps: list[Step] = [{**step, "done": False, "error": ""} for step in found["steps"]]
        self._tell(steps, name, origin)
        result = {
            "changed": any(step["action"] in ("launch", "cancel") for step in steps),
            "steps": steps,
            "set": name,
            "provenance": origin,
            "missing": [],
            "store_root": os.path.dirname(os.path.dirname(next(iter(ready.values()))[1].plan.refs[0].path)),
            "slurm_commands": found["slurm_commands"],
            "diff": [_standing(steps)],
        }
        if self._task.check_mode:
            self._rehearse(steps, ready, result)
        else:
            self._act(options, request, steps, ready, result)
        result["counts"] = {action: sum(step["action"] == action for step in steps) for action in ACTIONS}
        active = [step for step in steps if step["action"] in ("adopt", "launch") and step["run_dir"]]
        result["active"] = [step["run_dir"] for step in active if step["action"] == "adopt" or step["done"]]
        problems = [f"{step['name']} ({step['file']}): {step['error']}" for step in steps if step["error"]]
        # Where something is to be built first this is called again, and what was refused is refused again then.
        if problems and not result["missing"]:
            count = "1 launch was" if len(problems) == 1 else f"{len(problems)} launches were"
            result.update(failed=True, msg="\n".join([f"{count} not possible:", *(f"  - {one}" for one in problems)]))
        return result

    def _warn(self, names: list[str]) -> None:
        if names:
            display.warning(
                f"{self._host}: the code of {short_list(names)} holds the job files themselves, so a change of any one "
                "of them makes another launch of all: name their folder in code.exclude"
            )

    def _ready(self, spec: Spec, options: Mapping[str, Any], name: str, origin: Mapping[str, Any]) -> Prepared:
        try:
            facts = {"job_file": {**origin, "path": spec.file, "set": name}}
            return self.prepared(spec.job, options["relaunch"], facts)
        except RankzeroError as error:
            raise RankzeroError(f"jobs: {spec.file}: {error.message}; nothing was done", **error.partial) from error

    def _module(self, options: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
        """The cluster's half of one look, or of what precedes the launches."""
        result = self.call(
            "rankzero.slurm.reconcile", {"jobs": options["jobs"], "_request": dict(request)}, self._task_vars
        )
        result.pop("invocation", None)
        return result

    def _launch(self, step: Step, ready: Mapping[str, tuple[Spec, Prepared]], *, rehearse: bool) -> dict[str, Any]:
        """One launch, or what would come of it."""
        spec, prepared = ready[step["name"]]
        before = self._task.check_mode
        self._task.check_mode = before or rehearse
        try:
            return self.launched(spec.job, prepared, {"job": spec.path, "state": "present"}, self._task_vars)
        finally:
            self._task.check_mode = before

    def _rehearse(self, steps: list[Step], ready: Mapping[str, tuple[Spec, Prepared]], result: dict[str, Any]) -> None:
        """Check mode: whether Slurm would take each launch, and what each would bring."""
        for step in steps:
            if step["action"] == "launch":
                answer = self._launch(step, ready, rehearse=True)
                result["slurm_commands"] += answer.get("slurm_commands", 0)
                result["diff"] += answer.get("diff") or []
                if answer.get("failed"):
                    self._refused(step, answer)

    def _act(
        self,
        options: Mapping[str, Any],
        request: Mapping[str, Any],
        steps: list[Step],
        ready: Mapping[str, tuple[Spec, Prepared]],
        result: dict[str, Any],
    ) -> None:
        """Carry the plan out. A job is cancelled for its successor only once the successor can be launched."""
        cancelled = {step["name"] for step in steps if step["action"] == "cancel"}
        held: set[str] = set()
        for step in steps:
            successor = step["action"] == "launch" and step["name"] in cancelled
            if successor and not self._possible(step, self._launch(step, ready, rehearse=True), ready, result):
                held.add(step["name"])
        begun = [step for step in steps if step["name"] not in held]
        wanted = [
            step
            for step in begun
            if step["action"] in ("cancel", "launch") or (step["action"] == "adopt" and not step["ours"])
        ]
        if wanted:
            plan = [{key: value for key, value in step.items() if key not in ("done", "error")} for step in wanted]
            answer = self._module(options, {**request, "steps": plan})
            if answer.get("failed"):
                raise RankzeroError(str(answer.get("msg")), steps=steps)
            result["slurm_commands"] += answer["slurm_commands"]
        for step in begun:
            if step["action"] != "launch":
                step["done"] = True
                continue
            answer = self._launch(step, ready, rehearse=False)
            result["slurm_commands"] += answer.get("slurm_commands", 0)
            if self._possible(step, answer, ready, result):
                step.update(done=True, **{key: answer[key] for key in ("generation", "job_id", "run_dir")})
                how = {"submitted": "submitted", "adopted": "already there and active, adopted"}
                said = how.get(answer["launch_state"], answer["launch_state"])
                self._say(f"{step['name']}: job {step['job_id']}, generation {step['generation']}: {said}")

    def _possible(
        self,
        step: Step,
        answer: Mapping[str, Any],
        ready: Mapping[str, tuple[Spec, Prepared]],
        result: dict[str, Any],
    ) -> bool:
        """Whether a launch was, or could be, made. Else it is noted why: refused, or something must be built first."""
        if answer.get("failed"):
            self._refused(step, answer)
            return False
        spec, prepared = ready[step["name"]]
        needed = self.producers({"missing": _to_build(answer)}, prepared, spec.job)
        known = {ref["path"] for ref in result["missing"]}
        result["missing"] += [ref for ref in needed["missing"] if ref["path"] not in known]
        if needed["missing"]:
            self._say(f"{step['name']}: to be built first: {', '.join(ref['kind'] for ref in needed['missing'])}")
        return not needed["missing"]

    def _refused(self, step: Step, answer: Mapping[str, Any]) -> None:
        step["error"] = str(answer.get("msg"))
        self._say(f"{step['name']}: not possible: {step['error']}", "red")

    def _tell(self, steps: list[Step], name: str, origin: Mapping[str, Any]) -> None:
        at = f" at {str(origin['commit'])[:10]}" if origin.get("commit") else ""
        self._say(f"{name}{at}{' with uncommitted changes' if origin.get('dirty') else ''}")
        for step in steps:
            job = f", job {step['job_id']}" if step["job_id"] else ""
            where = f" ({step['file']}{job})" if step["file"] else f" ({job[2:]})"
            self._say(f"  {step['action']:<10}{step['name']}{where}: {step['reason']}", COLORS.get(step["action"]))

    def _say(self, text: str, color: str | None = None) -> None:
        display.display(f"{self._host}: {text}", color=color)


def _inside_their_code(specs: list[Spec], ready: list[Prepared]) -> list[str]:
    """The names of specs whose code snapshot holds one of the job files."""
    files = [os.path.realpath(spec.path) for spec in specs]
    found = []
    for spec, prepared in zip(specs, ready):
        known = {entry.path for entry in prepared.snapshot.files}
        root = os.path.realpath(prepared.snapshot.src)
        if any(os.path.relpath(file, root) in known for file in files):
            found.append(spec.job.spec.name)
    return found


def _to_build(answer: Mapping[str, Any]) -> list[dict[str, str]]:
    """What is missing but the job runtime, which every launch brings by itself."""
    return [ref for ref in answer.get("missing", []) if ref["kind"] != "runtime"]


def _standing(steps: list[Step]) -> dict[str, str]:
    """The launches before and after, a line each, as Ansible shows a diff."""

    def line(step: Step, state: str) -> str:
        return f"{step['name']} {step['key']} {state}\n"

    before = [line(step, f"job {step['job_id']}") for step in steps if step["action"] in ("cancel", "adopt", "keep")]
    after = [line(step, f"job {step['job_id']}") for step in steps if step["action"] in ("adopt", "keep")]
    after += [line(step, "new job") for step in steps if step["action"] == "launch"]
    return {
        "before_header": "active launches",
        "after_header": "active launches",
        "before": "".join(sorted(before)),
        "after": "".join(sorted(after)),
    }
