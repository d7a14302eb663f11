# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs that follow each other: each is rendered with the keys of those before it, and submitted to wait for them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from ansible.utils.display import Display

from ansible_collections.rankzero.slurm.plugins.module_utils.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.launch.plan import Upstream
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.arrays import active_ids
from ansible_collections.rankzero.slurm.plugins.plugin_utils.launch_action import LaunchAction
from ansible_collections.rankzero.slurm.plugins.plugin_utils.launching import Prepared
from ansible_collections.rankzero.slurm.plugins.plugin_utils.layers import Job, read_job
from ansible_collections.rankzero.slurm.plugins.plugin_utils.pipeline import Stage, stages, text_replaced
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sweeping import PreparedSweep

display = Display()


@dataclass(frozen=True)
class _Rendered:
    """A stage and what is shipped for it."""

    stage: Stage
    launch: Prepared | PreparedSweep

    @property
    def is_sweep(self) -> bool:
        return isinstance(self.launch, PreparedSweep)

    @property
    def request(self) -> dict[str, Any]:
        """The request of its job or of its array."""
        found: dict[str, Any] = self.launch.arguments["array"] if self.is_sweep else self.launch.arguments
        return found

    @property
    def first(self) -> Prepared:
        return self.launch.first if isinstance(self.launch, PreparedSweep) else self.launch

    def upstream(self) -> Upstream:
        request = self.request
        # Of a sweep the folder that holds all of its arrays; its elements are named in sweep.json there.
        path = request["runs_dir"] if self.is_sweep else f"{request['runs_dir']}/{request['token']}"
        return Upstream(request["name"], request["key"], path)


class ActionModule(LaunchAction):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        try:
            return self._pipeline(task_vars or {})
        except RankzeroError as error:
            return {"failed": True, "msg": error.message, **error.partial}
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)

    def _pipeline(self, task_vars: dict[str, Any]) -> dict[str, Any]:
        arguments = self.given("job", "cluster", "overrides", "relaunch")
        found = stages(arguments.get("job"), lambda path: self._read(path, arguments), os.getcwd())
        rendered: list[_Rendered] = []
        for stage in found:
            after = [rendered[index].upstream() for index in stage.after]
            prepare = self.prepared_sweep if stage.job.spec.sweep else self.prepared
            rendered.append(_Rendered(stage, prepare(stage.job, arguments["relaunch"], after=after)))
        host = task_vars.get("inventory_hostname", "localhost")
        results: list[dict[str, Any]] = []
        for one in rendered:
            result = self._launch(one, rendered, results, arguments["relaunch"], task_vars)
            results.append(result)
            if result.get("failed"):
                break
            for line in _told(one, result, [rendered[index].request["name"] for index in one.stage.after]):
                display.display(f"{host}: {line}")
            if result["missing"] and not self._task.check_mode:
                break
        return self._result(rendered, results)

    def _read(self, path: str, arguments: dict[str, Any]) -> Job:
        return read_job(path, arguments.get("cluster"), arguments.get("overrides"), self._command_line(), os.getcwd())

    def _launch(
        self,
        one: _Rendered,
        rendered: list[_Rendered],
        results: list[dict[str, Any]],
        relaunch: str,
        task_vars: dict[str, Any],
    ) -> dict[str, Any]:
        """Launch one stage, to wait for the stages before it that are not over."""
        waits: list[str] = []
        anew = False
        texts = {}
        for index in one.stage.after:
            before = results[index]
            if not rendered[index].is_sweep:
                texts[rendered[index].request["token"]] = str(before["generation"])
            if _hopeless(before):
                name = rendered[index].request["name"]
                return {
                    "failed": True,
                    "changed": False,
                    "msg": (
                        f"{one.request['name']}: follows {name}, which has failed and is not launched again "
                        f"(relaunch: {relaunch}): {before.get('message') or 'see its elements'}"
                    ),
                }
            waits += active_ids(before) if rendered[index].is_sweep else _active(before)
            anew = anew or before["launch_state"] in ("submitted", "planned")
        request = text_replaced({"files": one.request["files"]}, texts)
        request["waits_for"] = [f"afterok:{':'.join(waits)}"] if waits else []
        # Whatever still waits for something older can never start.
        request["supersedes"] = anew
        if not results:
            # All that any stage needs is there before the first one is submitted.
            known = {(ref["kind"], ref["key"]): ref for each in rendered for ref in each.request["refs"]}
            request["refs"] = list(known.values())
        launch = one.launch
        if isinstance(launch, PreparedSweep):
            own = text_replaced({name: launch.arguments[name] for name in ("elements", "manifest")}, texts)
            array = {**launch.arguments["array"], **request}
            launch = replace(launch, arguments={**launch.arguments, **own, "array": array})
            given = {"job": one.stage.path, "state": "present", "elements": []}
            result = self.launched_sweep(one.stage.job, launch, given, task_vars)
        else:
            launch = replace(launch, arguments={**launch.arguments, **request})
            result = self.launched(one.stage.job, launch, {"job": one.stage.path, "state": "present"}, task_vars)
        result = self.completed(result, one.first, one.stage.job, launch.lines)
        if result.get("missing"):
            result["missing"] = [
                ref
                for owner in rendered
                for ref in self.producers(result, owner.first, owner.stage.job)["missing"]
                if _owner(ref, rendered) is owner
            ]
        return result

    def _result(self, rendered: list[_Rendered], results: list[dict[str, Any]]) -> dict[str, Any]:
        found = []
        for one, result in zip(rendered, results):
            kind = "sweep" if one.is_sweep else "job"
            found.append({"kind": kind, "file": os.path.relpath(one.stage.path), **result})
        broken = next((result for result in results if result.get("failed")), None)
        whole: dict[str, Any] = {
            "changed": any(result.get("changed") for result in results),
            "stages": found,
            "missing": results[0].get("missing", []) if results else [],
            "store_root": next((result["store_root"] for result in results if "store_root" in result), None),
        }
        diffs: list[Any] = []
        for result in found:
            diff = result.pop("diff", [])
            diffs += diff if isinstance(diff, list) else [diff]
        if broken:
            return {**whole, "failed": True, "msg": broken["msg"]}
        return {**whole, "diff": diffs}


def _owner(ref: dict[str, Any], rendered: list[_Rendered]) -> _Rendered | None:
    """The first stage that needs something: it says how that is built."""
    for one in rendered:
        if any(each["kind"] == ref["kind"] and each["key"] == ref["key"] for each in one.request["refs"]):
            return one
    return None


def _active(result: dict[str, Any]) -> list[str]:
    return [str(result["job_id"])] if result["standing"] == "active" and result["job_id"] else []


def _hopeless(result: dict[str, Any]) -> bool:
    """Whether a stage has failed and stays so."""
    if "elements" in result:
        return any(row["launch_state"] == "unchanged" and row["standing"] == "failed" for row in result["elements"])
    return bool(result["launch_state"] == "unchanged" and result["standing"] == "failed")


def _told(one: _Rendered, result: dict[str, Any], after: list[str]) -> list[str]:
    """One line a stage: what was done, and what it waits for."""
    follows = f", after {' and '.join(after)}" if after else ""
    missing = ", ".join(ref["kind"] for ref in result["missing"])
    if missing:
        return [f"{one.request['name']}: to be built first: {missing}"]
    if one.is_sweep:
        counts = ", ".join(f"{count} {name}" for name, count in result["counts"].items())
        return [f"{one.request['name']}: sweep: {counts}{follows}; {result['sweep_dir']}"]
    said = {
        "submitted": f"job {result['job_id']} submitted",
        "adopted": f"job {result['job_id']} is active, adopted",
        "unchanged": f"has {result['standing']} already",
        "planned": "would be submitted",
    }
    return [f"{one.request['name']}: {said[result['launch_state']]}{follows}; {result['run_dir']}"]
