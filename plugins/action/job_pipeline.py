# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs that follow each other: each is rendered with the keys of those before it, and waits for them in Slurm."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import JOB_PIPELINE
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    ModuleAnswer,
    ModuleResult,
    answer_of,
    record_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.many.launches import BatchLaunch, packed
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.result import (
    LaunchResult,
    SubmissionResult,
    SweepResult,
    read_result,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.launch_many import LaunchManyAction
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.launcher import Producers
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.compare import Change
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.pipeline import Rendered, stages
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import display

STATES = ("present", "absent")


@dataclass(frozen=True)
class _Together(ModuleAnswer):
    """The module's answer about jobs of which none follows another: the result of each."""

    results: Sequence[ModuleResult] = ()


class ActionModule(LaunchManyAction):
    def act(self, task_vars: dict[str, Any]) -> dict[str, Any]:
        given = self.given("job", "cluster", "overrides", "relaunch", "state", "missing", "logs_dest")
        state = given.state or "present"
        if state not in STATES:
            raise RankzeroError(f"state: must be one of {', '.join(STATES)}; not {state!r}")
        parsed = stages(given.job, lambda path: self.job_of(replace(given, job=path)), os.getcwd())
        rendered: list[Rendered] = []
        for stage in parsed:
            rendered.append(self.rendered(stage, rendered, given.relaunch))
        if state == "absent":
            return self._cancel(rendered, task_vars)
        if _independent(rendered):
            return self._together(rendered, task_vars)
        results: list[dict[str, Any]] = []
        for job in rendered:
            result = self._launch(job, rendered, results, given.relaunch, task_vars)
            results.append(result)
            answer = answer_of(result)
            if answer.failed:
                break
            for line in _told(job, result, [rendered[index].plan.name for index in job.stage.after]):
                display.display(f"{self.host}: {line}")
            if answer.missing and not self._task.check_mode:
                break
        return self._result(rendered, results)

    def _cancel(self, rendered: list[Rendered], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Cancel the active jobs of each stage, last stage first, so that none starts because an earlier one ended."""
        results: list[dict[str, Any]] = []
        for job in reversed(rendered):
            result = self.launched_stage(job.stage, job.launch, task_vars, state="absent")
            results.insert(0, self.completed(result, job.first, job.stage.job, job.launch.lines))
            if answer_of(result).failed:
                return self._result(rendered[-len(results) :], results)
            made = read_result(result)
            if isinstance(made, LaunchResult):
                results[0] = {**results[0], "diff": _gone(job, made)}
            display.display(f"{self.host}: {_ended(job, made)}")
        return self._result(rendered, results)

    def _launch(
        self,
        job: Rendered,
        rendered: list[Rendered],
        results: list[dict[str, Any]],
        relaunch: str,
        task_vars: dict[str, Any],
    ) -> dict[str, Any]:
        """Launch one stage, which waits for earlier stages that are not over."""
        waits: list[str] = []
        relaunched = False
        texts = {}
        for index in job.stage.after:
            before = read_result(results[index])
            if isinstance(before, LaunchResult):
                texts[rendered[index].plan.token] = str(before.generation)
            if before.hopeless:
                name = rendered[index].plan.name
                return {
                    "failed": True,
                    "changed": False,
                    "msg": (
                        f"{job.plan.name}: follows {name}, which has failed and is not launched again "
                        f"(relaunch: {relaunch}): {results[index].get('message') or 'see its elements'}"
                    ),
                }
            waits += before.active_ids()
            relaunched = relaunched or before.submission in ("submitted", "planned")
        changes: dict[str, object] = {"supersedes": relaunched}  # a waiting job of an older generation can never start
        if not results:
            # Everything that any stage needs must exist before the first one is submitted.
            known = {(ref.kind, ref.key): ref for each in rendered for ref in each.first.refs}
            changes.update(refs=list(known.values()))
        launch = job.submitted(texts, waits, **changes)
        return self._finished(job, rendered, self.launched_stage(job.stage, launch, task_vars))

    def _together(self, rendered: list[Rendered], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Launch jobs of which none follows another, by one call."""

        def called(**more: Any) -> dict[str, Any]:
            shipped: dict[bytes, str] = {b"": ""}
            launches = []
            for number, job in enumerate(rendered):
                lines = b"" if self._task.check_mode else self.secrets(job.stage.job, task_vars)
                if lines not in shipped:
                    shipped[lines] = self.ship_secrets(lines, f"secrets-{len(shipped) - 1}.env")
                launch = job.launch.changed(secrets_file=shipped[lines] or None)
                launches.append(BatchLaunch(str(number), launch.request))
            given = {"job": [job.stage.path for job in rendered], "x_request": {"launches": packed(launches, {})}}
            return self.call("rankzero.slurm.job_pipeline", {**given, **more}, task_vars, JOB_PIPELINE)

        answered = self.with_runtime(called, rendered[0].first.runtime)
        answer = record_of(_Together, answered)
        if answer.failed:
            return answered
        results = [self._finished(job, rendered, result) for job, result in zip(rendered, answer.results)]
        for job, result in zip(rendered, results):
            for line in [] if answer_of(result).failed else _told(job, result, []):
                display.display(f"{self.host}: {line}")
        return {**self._result(rendered, results), "warnings": list(answer.warnings)}

    def _finished(self, job: Rendered, rendered: list[Rendered], result: dict[str, Any]) -> dict[str, Any]:
        """The result of a stage, with what only the controller knows about it."""
        result = self.completed(result, job.first, job.stage.job, job.launch.lines)
        needed = answer_of(result).missing
        if not needed:
            return result
        missing = [
            ref
            for owner in rendered
            for ref in self.producers(needed, owner.first, owner.stage.job).missing
            if _owner(Ref.of(ref), rendered) is owner
        ]
        return {**result, "missing": missing}

    def _result(self, rendered: list[Rendered], results: list[dict[str, Any]]) -> dict[str, Any]:
        shown = []
        for job, result in zip(rendered, results):
            kind = "sweep" if job.is_sweep else "job"
            shown.append({"kind": kind, "file": os.path.relpath(job.stage.path), **result})
        answers = [answer_of(result) for result in results]
        broken = any(answer.failed for answer in answers)
        # A stage that failed names none.
        named = [record_of(Producers, result) for result in results if "store_root" in result]
        missing = {Ref.of(ref).path: ref for answer in answers for ref in answer.missing}
        whole: dict[str, Any] = {
            "changed": any(answer.changed for answer in answers),
            "stages": shown,
            "missing": list(missing.values()),
            "store_root": next((producers.store_root for producers in named), None),
            "snapshots": next((producers.snapshots for producers in named if producers.snapshots), None),
            "store_group_writable": any(producers.store_group_writable for producers in named),
        }
        diffs: list[Any] = []
        for result in shown:
            diff = result.pop("diff", [])
            diffs += diff if isinstance(diff, list) else [diff]
        # What must be built first is built, and the action runs again: it reports these problems then.
        if broken and not missing:
            files = [f"{job.stage.path}: " if _independent(rendered) else "" for job in rendered]
            texts = [f"{file}{answer.msg}" for file, answer in zip(files, answers) if answer.failed]
            return {**whole, "failed": True, "msg": "\n".join(texts)}
        return {**whole, "diff": diffs}


def _independent(rendered: list[Rendered]) -> bool:
    """Whether these are several jobs of which none follows another, so that one call can submit them all."""
    return len(rendered) > 1 and not any(job.stage.after or job.is_sweep for job in rendered)


def _owner(ref: Ref, rendered: list[Rendered]) -> Rendered | None:
    """The first stage that needs this input, which tells how to build it."""
    for job in rendered:
        if any((each.kind, each.key) == (ref.kind, ref.key) for each in job.first.refs):
            return job
    return None


def _gone(job: Rendered, made: LaunchResult) -> dict[str, str]:
    """A job before and after its end, in the form of Ansible's diff."""
    line = f"{job.plan.name} {job.plan.key} job {made.job_id}\n" if made.changed else ""
    header = job.plan.runs_dir()
    return {"before_header": header, "after_header": header, "before": line, "after": ""}


def _ended(job: Rendered, made: SubmissionResult) -> str:
    """One line for each stage: what was cancelled."""
    name = job.plan.name
    if not made.changed:
        ending = any(row.why for row in made.elements) if isinstance(made, SweepResult) else made.job_id
        return f"{name}: {'was cancelled before and is still ending' if ending else 'nothing is active'}"
    if isinstance(made, SweepResult):
        return f"{name}: {made.counts.get('cancelled', 0)} elements cancelled"
    return f"{name}: job {made.job_id} cancelled"


def _told(job: Rendered, result: dict[str, Any], after: list[str]) -> list[str]:
    """One line for each stage: what was done, and what it waits for."""
    follows = f", after {' and '.join(after)}" if after else ""
    answer = read_result(result)
    if answer.missing:
        return [f"{job.plan.name}: to be built first: {', '.join(ref.kind for ref in answer.missing)}"]
    if isinstance(answer, SweepResult):
        counts = ", ".join(f"{count} {name}" for name, count in answer.counts.items())
        return [f"{job.plan.name}: sweep: {counts}{follows}; {answer.sweep_dir}"]
    outcomes = {
        "submitted": f"job {answer.job_id} submitted",
        "adopted": f"job {answer.job_id} is active, adopted",
        "unchanged": f"has {answer.standing} already",
        "planned": "would be submitted",
    }
    changed = result.get("changed_since")
    return [
        f"{job.plan.name}: {outcomes[answer.submission]}{follows}; {answer.run_dir}",
        *([f"{job.plan.name}: {record_of(Change, changed).text}"] if changed else []),
    ]
