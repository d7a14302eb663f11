# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `job`: turn layers into a plan and rendered files, then call the module on the cluster once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import short_list
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import CODE
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.explain import table
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import ACTIVE
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import BOOLEAN, Invalid
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.exclusion import Exclusion
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.launch import LaunchAction
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.compare import Change
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import NOT_CODE, Prepared
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import display
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.hints import commands_of
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.launch_rows import borrowed, head, launched
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import NOTE, WARNING, Row


class ActionModule(LaunchAction):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        try:
            return self.with_inputs(self._launch, task_vars or {})
        except RankzeroError as error:
            return {"failed": True, "msg": error.message, **error.partial}
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)

    def _launch(self, task_vars: dict[str, Any]) -> dict[str, Any]:
        given = self.given("job", "cluster", "overrides", "relaunch", "state", "explain", "missing", "logs_dest")
        job = self.job_of(given)
        prepared = self.prepared(job, given.relaunch)
        state = given.state or "present"
        explained = self._task.check_mode or _asked(given.explain)
        if explained:
            prepared = replace(prepared, lines=[*prepared.lines, *_outside(prepared)])
        host = task_vars.get("inventory_hostname", "localhost")
        result = self.launched(job, prepared, {"job": given.job, "state": state}, task_vars)
        completed = self.completed(result, prepared, job, prepared.lines)
        if not completed.get("failed"):
            artifact = prepared.plan.spec.artifact
            proof = {"path": artifact.path, "require": artifact.require} if artifact else None
            completed.update(variables=prepared.variables, proof=proof)
            if completed.get("standing") in ACTIVE and state == "present":
                completed.update(commands=commands_of(str(completed.get("run_dir")), task_vars))
            if explained and state == "present":
                completed.update(explain=table(prepared.variables))
        if display.draws and not self._task.check_mode:
            for row in _rows(host, completed, prepared, told=bool(self._kept)):
                display.row(row)
            return completed
        for line in _told(completed, prepared):
            display.display(f"{host}: {line}")
        return completed


def _asked(value: Any) -> bool:
    """The value of the option `explain`."""
    try:
        return value is not None and bool(BOOLEAN.parse(value))
    except Invalid as error:
        raise RankzeroError(f"explain: {error}") from None


def _outside(prepared: Prepared) -> list[str]:
    """The files of the project that are not part of the code."""
    paths = prepared.snapshot.left_out
    return [f"left out of the code: {short_list(paths)} (code.include)"] if paths else []


def _rows(host: str, result: dict[str, Any], prepared: Prepared, *, told: bool) -> list[Row]:
    """The result for a callback that draws rows: the launch in one line, what already exists, and its job. `told`: an
    earlier task of this command has shown why it is another launch.
    """
    state = result.get("submission")
    if result.get("failed") or state is None:
        return []
    count = len(prepared.snapshot.files)
    facts = {ref.kind: ref.key[:12] for ref in prepared.plan.refs}
    facts = {**facts, CODE.name: f"{count} file{'' if count == 1 else 's'}"}
    lines = [line for line in prepared.lines if line.startswith("warning: ")] if state == "submitted" else []
    news = [] if told else [*_not_code(prepared), *_changed(result)]
    rows = [Row(host, NOTE, text=line.strip()) for line in news]
    rows += [Row(host, WARNING, text=line.removeprefix("warning: ")) for line in lines]
    notes = [] if state in ("missing", "absent") else [*_left_out(result), *_why(result)]
    rows += [Row(host, NOTE, text=line.strip()) for line in notes]
    return [head(host, prepared.plan), *rows, *launched(host, result, facts)]


def _not_code(prepared: Prepared) -> list[str]:
    """What this command itself writes into the project."""
    return [f"  {line}" for line in prepared.lines if line.startswith(NOT_CODE)]


def _changed(result: dict[str, Any]) -> list[str]:
    """Why this is another launch than the nearest of its name."""
    changed = result.get("changed_since")
    return [f"  {record_of(Change, changed).text}"] if changed else []


def _left_out(result: dict[str, Any]) -> list[str]:
    return [f"  leaves out {Exclusion(**node).words()}" for node in result.get("excluded", [])]


def _why(result: dict[str, Any]) -> list[str]:
    """The variables of the ranks, if `explain` was given."""
    if not result.get("explain") or result.get("submission") == "missing":
        return []
    return ["  the variables of every rank, and why:", *(f"    {line}" for line in result.get("explain", []))]


def _told(result: dict[str, Any], prepared: Prepared) -> list[str]:
    """The result as text: the plan if it is about to run, and always what was done, with the job id."""
    first, *rest = prepared.lines
    plan = [first, *_changed(result), *(f"  {line}" for line in rest)]
    state, job = result.get("submission"), f"job {result.get('job_id')}, generation {result.get('generation')}"
    missing = ", ".join(ref.kind for ref in map(Ref.of, result.get("missing", [])))
    gone = "cancelled" if result.get("changed") else "was cancelled before and is still ending"
    allocation = result.get("allocation")
    plan += [f"  inside {allocation}"] if allocation else []
    sentences = {
        "submitted": f"{job}: submitted; {result.get('run_dir')}",
        "adopted": f"{job}: already there and active, adopted; {result.get('run_dir')}",
        "unchanged": f"{job}: has {result.get('standing')} already, nothing to do (-e rerun=true runs it again)",
        "planned": f"generation {result.get('generation')} would be submitted"
        + (f"; to be built first: {missing}" if missing else ""),
        "missing": f"to be built first: {missing}",
        "absent": f"{job}: {gone}" if result.get("changed") or result.get("job_id") else "no active job",
    }
    if state not in sentences:
        return []
    checks = result.get("checks") or {}
    seen = [f"  looked at: {fact}" for fact in checks.get("facts", [])]
    why = _why(result)
    plan += [f"  {source.kind} {source.key[:12]} from the store {source.store}" for source in borrowed(result)]
    if state in ("missing", "absent", "unchanged"):
        return [first, *_not_code(prepared), *why, f"  {sentences[state]}"]
    return [*plan, *seen, *_left_out(result), *why, f"  {sentences[state]}"]
