# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One launch: from its layers to a plan and rendered files, one call of module `job`, and what is said of it.

The action `job` and the command `rankzero` both do this. Nothing here imports Ansible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    ModuleResult,
    Parameters,
    answer_of,
    record_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import CODE
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import ACTIVE
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import BOOLEAN, Invalid
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.result import LaunchResult
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.launcher import Given, Launcher
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.compare import Change
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import NOT_CODE, Prepared
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.request import (
    asked_clusters,
    planned_generation,
    word_of,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.ending import Proof
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.launch_rows import Source, borrowed, head, launched
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import NOTE, WARNING, Row


class OneLaunch(Launcher):
    """A launch of one job."""

    def launch(self, given: Given) -> ModuleResult:
        """Plan, and submit unless something is missing on the host. Shows what was done, and returns it.

        Raises RankzeroError.
        """
        job = self.job_of(given)
        prepared = self.prepared(job, given.relaunch)
        state = given.state or "present"
        if given.planned:
            prepared = prepared.changed(last=planned_generation(prepared.request, given.planned))
        if given.first and not isinstance(given.first, Mapping):
            raise RankzeroError(f"first: {given.first!r} must be a map of clusters, grant_within and reopens")
        if given.first:
            prepared = prepared.changed(first=asked_clusters(given.first, job.spec))
        asked = _asked(given.explain)
        result = self.launched(job, prepared, {"job": given.job, "state": state}, self._task_vars)
        completed = self.completed(result, prepared, job, prepared.lines)
        if answer_of(completed).failed:
            return completed
        launch = LaunchResult.of(completed)
        artifact = prepared.plan.spec.artifact
        proof = Proof(artifact.path, artifact.require) if artifact else None
        completed.update(variables=prepared.variables, proof=proof and vars(proof))
        if launch.generation and state == "present":
            completed.update(planned=word_of(prepared.request, launch.generation))
        if launch.standing in ACTIVE and state == "present":
            completed.update(commands=self.commands(str(launch.run_dir)))
        if (asked or self.check_mode) and state == "present":
            completed.update(explain=prepared.explained())
        answer = _Answer(launch, prepared, asked=asked, **{name: completed.get(name) for name in _ADDED})
        if self.screen.draws and not self.check_mode:
            for row in answer.rows(self.host, told=bool(self._kept)):
                self.screen.row(row)
            return completed
        for line in answer.lines():
            self.screen.display(f"{self.host}: {line}")
        return completed


def _asked(value: Any) -> bool:
    """The value of the option `explain`."""
    try:
        return value is not None and bool(BOOLEAN.parse(value))
    except Invalid as error:
        raise RankzeroError(f"explain: {error}") from None


# What carry_out of the cluster and the action add to the result of the launch.
_ADDED = ("changed_since", "sources")
# The fact of the checks that decides: when Slurm would start the job.
_START = "Slurm would start it"
_MORE = "-e explain=true (rankzero: --explain) shows the code, what is taken from where, the checks, each variable"


@dataclass(frozen=True)
class _Answer:
    """What has become of a launch, for people. `changed_since`: how it differs from the nearest launch of its name.

    `asked`: whether everything is to be explained. `sources`: the stores of its inputs.
    """

    launch: LaunchResult
    prepared: Prepared
    changed_since: Parameters | None
    asked: bool
    sources: Sequence[Parameters] | None

    def rows(self, host: str, *, told: bool) -> list[Row]:
        """For a callback that draws rows: the launch in one line, what already exists, and its job. `told`: an earlier
        task of this command has shown why it is another launch.
        """
        prepared, state = self.prepared, self.launch.submission
        count = len(prepared.snapshot.files)
        facts = {ref.kind: ref.key[:12] for ref in prepared.plan.refs}
        facts = {**facts, CODE.name: f"{count} file{'' if count == 1 else 's'}"}
        lines = [line for line in prepared.lines if line.startswith("warning: ")] if state == "submitted" else []
        news = [] if told else [*self._not_code(), *self._changed()]
        rows = [Row(host, NOTE, text=line.strip()) for line in news]
        rows += [Row(host, WARNING, text=line.removeprefix("warning: ")) for line in lines]
        notes = [] if state in ("missing", "absent") else [*self._left_out(), *self._why()]
        rows += [Row(host, NOTE, text=line.strip()) for line in notes]
        return [head(host, prepared.plan), *rows, *launched(host, self.launch, facts, self._borrowed())]

    def lines(self) -> list[str]:
        """As text: the plan if it is about to run, and always what was done, with the job id."""
        made, (first, *rest) = self.launch, self.prepared.lines
        job = f"job {made.job_id}, generation {made.generation}"
        missing = ", ".join(ref.kind for ref in made.missing)
        gone = "cancelled" if made.changed else "was cancelled before and is still ending"
        sentences = {
            "submitted": f"{job}: submitted; {made.run_dir}",
            "adopted": f"{job}: already there and active, adopted; {made.run_dir}",
            "unchanged": f"{job}: has {made.standing} already, nothing to do (-e rerun=true runs it again)",
            "planned": f"generation {made.generation} would be submitted"
            + (f"; to be built first: {missing}" if missing else ""),
            "missing": f"to be built first: {missing}",
            "absent": f"{job}: {gone}" if made.changed or made.job_id else "no active job",
        }
        if made.submission not in sentences:
            return []
        done = f"  {sentences[made.submission]}"
        if made.submission in ("missing", "absent", "unchanged"):
            return [first, *self._not_code(), *self._why(), done]
        plan = [first, *self._changed(), *(f"  {line}" for line in rest)]
        plan += [f"  inside {made.allocation}"] if made.allocation else []
        plan += [f"  {source.kind} {source.key[:12]} from the store {source.store}" for source in self._borrowed()]
        facts = (made.checks or {}).get("facts", [])
        seen = [f"  looked at: {fact}" for fact in facts if self.asked or _START in fact]
        more = [] if self.asked or made.submission != "planned" else [f"  {_MORE}"]
        return [*plan, *seen, *self._left_out(), *self._why(), done, *more]

    def _not_code(self) -> list[str]:
        """What this command itself writes into the project."""
        return [f"  {line}" for line in self.prepared.lines if line.startswith(NOT_CODE)]

    def _changed(self) -> list[str]:
        """Why this is another launch than the nearest of its name."""
        return [f"  {record_of(Change, self.changed_since).text}"] if self.changed_since else []

    def _left_out(self) -> list[str]:
        return [f"  leaves out {node.words()}" for node in self.launch.excluded]

    def _why(self) -> list[str]:
        """What explains the plan further, if it was asked for."""
        shown = self.asked and self.launch.submission not in ("missing", "absent")
        return [f"  {line}" for line in self.prepared.explained()] if shown else []

    def _borrowed(self) -> list[Source]:
        """The inputs of a launch that are in the store of another owner."""
        return borrowed(self.sources or (), self.prepared.request.stores.store_root)
