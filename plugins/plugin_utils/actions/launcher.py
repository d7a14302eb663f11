# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prepare a launch, and call the module that submits it: the same for an action and for the command `rankzero`.

How the host is reached is left to the subclasses. Nothing here imports Ansible.
"""

from __future__ import annotations

import abc
import os
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import JOB, MISSING_CHOICES
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    JsonObject,
    ModuleResult,
    Parameters,
    TaskVariables,
    answer_of,
    record_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Site, Upstream
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.needs import A_MONTH
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Predecessor
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.compare import compared
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.outbound import described
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import Prepared, prepare
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import Job, read_job
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.site_environment import (
    Adopted,
    adopted,
    conda_list,
    conda_place,
    inspect_command,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.version import collection_version
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.messages import Screen
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.carrier import ShellAnswer, Spec
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.kept_snapshots import Snapshots

RELAUNCH = ("on_failure", "always", "never")
#: Values of the option `missing`.
BUILD, FAIL, REPORT = MISSING_CHOICES


@dataclass(frozen=True)
class Producers:
    """What is missing on the cluster, for those who make it. `snapshots`: the file of the code's snapshots."""

    missing: list[JsonObject]
    snapshots: str | None
    store_root: str
    store_group_writable: bool


@dataclass(frozen=True)
class Given:
    """The options of the actions that launch. `job`, `cluster` and `overrides` are layers of the job spec as given."""

    job: Any = None
    cluster: Any = None
    overrides: Any = None
    relaunch: str = "on_failure"
    state: str | None = None
    explain: object = None
    planned: str | None = None
    first: Any = None
    open: object = None
    role: str | None = None
    serve: str | None = None
    session: str | None = None
    logs_dest: str | None = None
    elements: Sequence[str] | None = None
    generation: object = None
    path: str | None = None


@dataclass(frozen=True)
class _Used:
    """What module usage_info answers: the rows of the months, and what active launches may still use."""

    rows: Sequence[Mapping[str, float | None]]
    promised: Mapping[str, float | None]


class Launcher(abc.ABC):
    """A launch on one host. `screen`: where it is shown; `check_mode`: whether nothing may be changed."""

    screen: Screen
    check_mode = False
    host = "localhost"
    _task_vars: TaskVariables = {}
    _kept: Any = None
    _logs_dest: str | None = None

    def begin(self) -> None:
        """Forget what an earlier launch has found."""
        self._snapshots = Snapshots()
        self._conda: dict[str, str] = {}

    @abc.abstractmethod
    def call(self, module: str, module_args: Parameters, task_vars: TaskVariables, spec: Spec | None) -> ModuleResult:
        """Run a module on the host. `spec`: its argument spec; None where only Ansible can call it."""

    @abc.abstractmethod
    def shell_answer(self, command: str) -> ShellAnswer:
        """Run a command of the shell on the host."""

    @abc.abstractmethod
    def secrets(self, job: Job, task_vars: TaskVariables) -> bytes:
        """The secrets whose values the controller holds, as lines."""

    @abc.abstractmethod
    def ship_secrets(self, lines: bytes) -> str:
        """Bring the secrets to the host, and return their path there."""

    @abc.abstractmethod
    def command_line(self) -> JsonObject:
        """The values of the job that the command line sets by their short names."""

    @abc.abstractmethod
    def commands(self, run_dir: str) -> dict[str, str]:
        """The commands to follow a launch that still runs, and to cancel it."""

    @abc.abstractmethod
    def temporary(self) -> str:
        """The folder of this machine whose files are removed at the end of the command."""

    def job_of(self, given: Given) -> Job:
        """Read the job file with all its layers. Raises RankzeroError with every mistake."""
        return read_job(given.job, given.cluster, given.overrides, self.command_line(), os.getcwd())

    def prepared(
        self,
        job: Job,
        relaunch: str,
        facts: Mapping[str, object] | None = None,
        *,
        elements: Sequence[LaunchSpec] = (),
        after: Sequence[Upstream] | None = None,
    ) -> Prepared:
        """Plan and render. Only the roots need a query to the cluster. `facts`: additional values for launch.json.
        `elements` and `after`: as in prepare.
        """
        job = self.located(job)
        if self._logs_dest:
            Place.of(self._logs_dest, job.spec.name).refuse_unwritable()
        state_root, store_root, *caches = self.roots(job)
        if self._kept and not self._snapshots.path:
            self._snapshots = Snapshots(self._kept)
        monthly = any(option.endswith(A_MONTH) for option in job.settings.budget)
        used = self._used_in_month(state_root) if monthly else {}
        prepared = prepare(
            job,
            Site(state_root, store_root, job.settings, caches[0] if caches else None, used),
            relaunch=relaunch,
            facts={"collection": collection_version(), **(facts or {})},
            adopted=self._adopted(job),
            elements=elements,
            after=after,
            snapshots=self._snapshots,
        )
        if prepared.snapshot.written:
            from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import record

            record(os.path.join(prepared.snapshot.src, path) for path in prepared.snapshot.written)
        return prepared

    def _used_in_month(self, state_root: str) -> dict[str, float]:
        """What the launches of this month have used or may still use, in hours. Raises RankzeroError if not known."""
        month = time.strftime("%Y-%m")
        given = {"state_root": state_root, "by": ["month"], "since": month, "until": month}
        answer = self.call("rankzero.slurm.usage_info", given, self._task_vars, None)
        outcome = answer_of(answer)
        if outcome.failed:
            raise RankzeroError(f"launch_cluster.budget: what was used this month is not known: {outcome.msg}")
        used = record_of(_Used, answer)
        rows = [*used.rows, used.promised]
        return {name: sum(row.get(name) or 0.0 for row in rows) for name in ("node_hours", "gpu_hours")}

    def launched(self, job: Job, prepared: Prepared, arguments: Parameters, task_vars: TaskVariables) -> ModuleResult:
        """Call module `job`, with the secrets, and return its result. A second call follows if the job runtime is
        missing.

        arguments: the module's `job` and `state`.
        """
        lines = self.secrets(job, task_vars) if arguments.get("state") == "present" else b""

        def called(**more: Any) -> ModuleResult:
            ships = bool(lines) and not self.check_mode
            launch = prepared.changed(secrets_file=self.ship_secrets(lines)) if ships else prepared
            return self.call("rankzero.slurm.job", {**arguments, "x_request": launch.sent(), **more}, task_vars, JOB)

        result = self.with_runtime(called, prepared.runtime, prepared)
        if "predecessor" in result:
            before = result.pop("predecessor")
            changed, diff = compared(prepared, record_of(Predecessor, before) if before else None)
            return {
                **result,
                "changed_since": changed and asdict(changed),
                "diff": [diff] if answer_of(result).changed else [],
            }
        return result

    def completed(self, result: ModuleResult, prepared: Prepared, job: Job, lines: list[str]) -> ModuleResult:
        """Add to a module's result what only the controller knows: the plan, and how to build what is missing."""
        answer = answer_of(result)
        if not answer.failed:
            unstaged = [ref for ref in map(Ref.of, answer.missing) if ref.declared.advice]
            if unstaged and not self.check_mode:
                kind = unstaged[0].declared
                paths = ", ".join(ref.path for ref in unstaged if ref.kind == kind.name)
                raise RankzeroError(f"{kind.option}: {paths} is not on the cluster: {kind.advice}")
            needed = self.producers(answer.missing, prepared, job)
            return {**result, **vars(needed), "plan": lines}
        return result

    def with_runtime(
        self, ask: Callable[..., ModuleResult], runtime: Mapping[str, str], prepared: Prepared | None = None
    ) -> ModuleResult:
        """Call the module. If the job runtime is missing (once per cluster and version), or what `riding` brings, call
        again with it.
        """
        result = ask()
        missing = [Ref.of(ref) for ref in answer_of(result).missing]
        more: dict[str, Any] = {}
        if any(not ref.declared.in_store for ref in missing):
            more.update(x_runtime=runtime)
        code = self.riding([ref for ref in missing if ref.declared.in_store], prepared) if prepared else None
        if code is not None:
            more.update(x_code=code)
        return ask(**more) if more and not self.check_mode else result

    def riding(self, missing: Sequence[Ref], prepared: Prepared) -> str | None:
        """The code as an archive (base64) that goes with the call; None where a producer sends what is missing."""
        return None

    def located(self, job: Job) -> Job:
        """The same job with the paths of the conda environments that it names. Raises SpecError."""
        wanted = [program.environment for program in job.spec.programs.values()]
        for environment in wanted:
            name = environment.conda
            if name is not None and name not in self._conda:
                self._conda[name] = conda_place(name, self.shell_answer(conda_list()).stdout, environment.path)
        return job.at_environments(self._conda) if any(environment.conda for environment in wanted) else job

    def _adopted(self, job: Job) -> dict[str, Adopted]:
        """The site's environments that the job names, by their paths."""
        standing: dict[str, Adopted] = {}
        for wanted in (program.environment for program in job.spec.programs.values()):
            if wanted.mode == "path" and wanted.path is not None and wanted.path not in standing:
                done = self.shell_answer(inspect_command(wanted.path))
                standing[wanted.path] = adopted(wanted.path, f"{done.stdout}\n{done.stderr}", wanted.python)
        return standing

    def producers(self, lacking: Sequence[JsonObject], prepared: Prepared, job: Job) -> Producers:
        """Describe what is missing on the cluster: what its producers need to know, and where the results go."""
        missing = [Ref.of(ref) for ref in lacking]
        if missing and self._kept:
            raise RankzeroError(
                f"{' and '.join(sorted({ref.kind for ref in missing}))} is not on the cluster although this "
                "command has built what was missing: a file that it is made of changed meanwhile, or it was removed. "
                "This launch was not submitted; run the same command again."
            )
        if missing and not self._snapshots.path:
            self._snapshots.path = self._snapshots.save(self.temporary())
        owners = {step.built: step.name for step in prepared.plan.roles if step.built}
        jobs = [job.of_role(owners[ref.key]) if ref.key in owners else job for ref in missing]
        return Producers(
            [described(ref, prepared.snapshot, own) for ref, own in zip(missing, jobs)],
            self._snapshots.path,
            prepared.request.stores.store_root,
            prepared.request.stores.store_group_writable,
        )

    def roots(self, job: Job) -> list[str]:
        """state_root, store_root and, if given, caches as absolute paths. `~` and $NAME are expanded on the cluster."""
        settings = job.settings
        roots = [root for root in (settings.state_root, settings.store_root, settings.caches) if root]
        if all(root.startswith("/") for root in roots):
            return [root.rstrip("/") or "/" for root in roots]
        words = []
        for root in roots:
            match = re.fullmatch(r"(~|\$[A-Za-z_][A-Za-z0-9_]*|)(/.*|)", root)
            if not match:
                raise RankzeroError(f"launch_cluster: the path {root!r} may begin with ~/ or $NAME/ only (no ~name)")
            start, rest = match.groups()
            # An unset name is an error: without it, $SCRATCH/rankzero would be /rankzero.
            expanded = '"$HOME"' if start == "~" else f'"${{{start[1:]}:?}}"' if start else ""
            words.append(expanded + shlex.quote(rest))
        done = self.shell_answer("printf '%s\\n' " + " ".join(words))
        paths = [line.strip() for line in done.stdout.splitlines()][-len(roots) :]
        if done.rc != 0 or len(paths) != len(roots) or not all(line.startswith("/") for line in paths):
            raise RankzeroError(
                f"launch_cluster: {' and '.join(roots)} cannot be expanded on the cluster; give absolute paths"
            )
        return [path.rstrip("/") for path in paths]
