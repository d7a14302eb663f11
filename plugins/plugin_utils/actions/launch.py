# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Code shared by the actions that launch: prepare a launch from the task's options, and call the module."""

from __future__ import annotations

import os
import re
import shlex
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ansible import constants as C

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import JOB, MISSING_CHOICES
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    JsonObject,
    ModuleResult,
    Parameters,
    TaskVariables,
    record_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import CODE
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Site, Upstream
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.parse import ARGUMENTS, SHORT_ARGUMENTS, short_names
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.needs import A_MONTH
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Predecessor
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.extra_variables import (
    check_extra_variables,
    extra_variables,
    options_of_command_line,
    tell_localhost,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.masking import masked
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import call_module
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.one_cluster import is_checked, refuse_unchosen
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.plain import plain
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.compare import compared
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.outbound import described
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import Prepared, prepare, secret_lines
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
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.carrier import ShellAnswer, Spec
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.kept_snapshots import VARIABLE, Snapshots

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
class _Code:
    """Missing code, as `described` describes it."""

    src: str
    exclude: list[str]


@dataclass(frozen=True)
class Given:
    """The options of the actions that launch. `job`, `cluster` and `overrides` are layers of the job spec as given."""

    job: Any = None
    cluster: Any = None
    overrides: Any = None
    relaunch: str = "on_failure"
    state: str | None = None
    explain: object = None
    open: object = None
    logs_dest: str | None = None
    elements: Sequence[str] | None = None
    generation: object = None
    path: str | None = None


@dataclass(frozen=True)
class _Used:
    """What module usage_info answers: the rows of the months, and what active launches may still use."""

    rows: Sequence[Mapping[str, float | None]]
    promised: Mapping[str, float | None]


class LaunchAction(Action):
    """Base of the actions that render a launch. launch_many.py adds sweeps and pipelines."""

    of_one_cluster = True

    def run(self, tmp: str | None = None, task_vars: TaskVariables | None = None) -> ModuleResult:
        """Ansible's entry: check where it acts, then `act`. A RankzeroError becomes a failed result."""
        super().run(tmp, task_vars)
        self._task_vars = task_vars or {}
        # Set by our role and playbooks for the second part of a command, after missing inputs have been built.
        given = self._task_vars.get(VARIABLE)
        self._kept = plain(self._templar.template(given)) if given else None
        self._snapshots = Snapshots()
        self._logs_dest: str | None = None
        self._conda: dict[str, str] = {}
        try:
            if not is_checked(self._task_vars):
                tell_localhost(self, None, extra_variables(self), self._task_vars)
            refuse_unchosen(self, self._task_vars)
            return self.with_inputs(self.act, self._task_vars)
        except RankzeroError as error:
            return {"failed": True, "msg": error.message, **error.partial}
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)

    @abstractmethod
    def act(self, task_vars: TaskVariables) -> ModuleResult:
        """The work of the subclass. Returns the task's result."""

    def given(self, *allowed: str) -> Given:
        """The task's options, and those of the command line. Raises an error for an unknown one."""
        arguments = plain(self._task.args)
        arguments.update(options_of_command_line(self, arguments, self._task_vars))
        unknown = sorted(set(arguments) - set(allowed))
        if unknown:
            raise RankzeroError(f"unknown option {', '.join(unknown)}; allowed: {', '.join(allowed)}")
        made = record_of(Given, {**arguments, "relaunch": arguments.get("relaunch") or "on_failure"})
        for name, value in (("cluster", made.cluster), ("overrides", made.overrides)):
            if not isinstance(value or {}, Mapping):
                raise RankzeroError(f"{name}: must be a map, not {value!r}")
        if made.relaunch not in RELAUNCH:
            raise RankzeroError(f"relaunch: must be one of {', '.join(RELAUNCH)}; not {made.relaunch!r}")
        self._logs_dest = made.logs_dest if made.state != "absent" else None
        return made

    def job_of(self, given: Given) -> Job:
        """Read the job file with all its layers. Raises RankzeroError with every mistake."""
        return read_job(given.job, given.cluster, given.overrides, self._command_line(), os.getcwd())

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
        answer = call_module(self, "rankzero.slurm.usage_info", given, self._task_vars, None)
        if answer.get("failed"):
            raise RankzeroError(f"launch_cluster.budget: what was used this month is not known: {answer.get('msg')}")
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
            ships = bool(lines) and not self._task.check_mode
            launch = prepared.changed(secrets_file=self.ship_secrets(lines)) if ships else prepared
            return self.call("rankzero.slurm.job", {**arguments, "x_request": launch.sent(), **more}, task_vars, JOB)

        result = self.with_runtime(called, prepared.runtime)
        if "predecessor" in result:
            before = result.pop("predecessor")
            changed, diff = compared(prepared, record_of(Predecessor, before) if before else None)
            return {
                **result,
                "changed_since": changed and asdict(changed),
                "diff": [diff] if result.get("changed") else [],
            }
        return result

    def with_inputs(self, launch: Callable[[TaskVariables], ModuleResult], task_vars: TaskVariables) -> ModuleResult:
        """Launch, and do with what is missing on the cluster what the option `missing` says.

        `build` sends the code and launches again: that takes seconds, and no choice. What takes minutes or a network is
        an error, and so is anything for `fail`. Raises RankzeroError.
        """
        wanted = plain(self._task.args).get("missing") or BUILD
        if wanted not in (BUILD, FAIL, REPORT):
            raise RankzeroError(f"missing: must be one of {BUILD}, {FAIL}, {REPORT}; not {wanted!r}")
        result = launch(task_vars)
        missing = result.get("missing") or []
        if not missing or wanted == REPORT or result.get("failed") or self._task.check_mode:
            return result
        kinds = {ref.kind: ref.declared for ref in map(Ref.of, missing) if wanted == FAIL or ref.declared != CODE}
        if kinds:
            modules = " and ".join(f"rankzero.slurm.{kinds[name].producer}" for name in sorted(kinds))
            return {
                **result,
                "failed": True,
                "msg": (
                    f"{' and '.join(sorted(kinds))}: not on the cluster, so nothing was submitted (missing: {wanted}). "
                    "Use the role rankzero.slurm.launch, which builds all that a job needs, or run "
                    f"{modules} before this task. With `missing: {REPORT}` this task returns what to build."
                ),
            }
        needed = record_of(Producers, result)
        for ref in missing:
            self._send_code(record_of(_Code, ref), needed)
        self._kept = needed.snapshots
        return launch(task_vars)

    def _send_code(self, code: _Code, needed: Producers) -> None:
        """Run the action code_snapshot for what is missing. Raises RankzeroError."""
        name = f"rankzero.slurm.{CODE.producer}"
        task = self._task.copy()
        task.action = name
        task.args = {
            "src": code.src,
            "exclude": code.exclude,
            "store_root": needed.store_root,
            "store_group_writable": needed.store_group_writable,
        }
        action = self._shared_loader_obj.action_loader.get(
            name,
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        sent = action.run(task_vars={**self._task_vars, VARIABLE: needed.snapshots})
        if sent.get("failed"):
            raise RankzeroError(str(sent.get("msg")))

    def completed(self, result: ModuleResult, prepared: Prepared, job: Job, lines: list[str]) -> ModuleResult:
        """Add to a module's result what only the controller knows: the plan, and how to build what is missing."""
        if not result.get("failed"):
            unstaged = [ref for ref in map(Ref.of, result.get("missing", [])) if ref.declared.advice]
            if unstaged and not self._task.check_mode:
                kind = unstaged[0].declared
                paths = ", ".join(ref.path for ref in unstaged if ref.kind == kind.name)
                raise RankzeroError(f"{kind.option}: {paths} is not on the cluster: {kind.advice}")
            needed = self.producers(result.get("missing", []), prepared, job)
            return {**result, **vars(needed), "plan": lines}
        return result

    def with_runtime(self, ask: Callable[..., ModuleResult], runtime: Mapping[str, str]) -> ModuleResult:
        """Call the module. If the job runtime is missing (once per cluster and version), copy it and call again."""
        result = ask()
        missing = map(Ref.of, result.get("missing", []))
        if any(not ref.declared.in_store for ref in missing) and not self._task.check_mode:
            result = ask(x_runtime=runtime)
        return result

    def secrets(self, job: Job, task_vars: TaskVariables) -> bytes:
        """The secrets whose values the controller holds, as lines."""

        def variable(name: str) -> Any:
            return self._templar.template(task_vars[name]) if name in task_vars else None

        return masked(secret_lines(job.spec, os.environ, variable))

    def ship_secrets(self, lines: bytes, name: str = "secrets.env") -> str:
        """Write the values through the connection into the task's remote folder (0700). The module reads them there."""
        if not self._connection._shell.tmpdir:
            self._make_tmp_path()
        path: str = self._connection._shell.join_path(self._connection._shell.tmpdir, name)
        self._transfer_data(path, lines)
        self._fixup_perms2([self._connection._shell.tmpdir, path])
        return path

    def located(self, job: Job) -> Job:
        """The same job with the paths of the conda environments that it names. Raises SpecError."""
        wanted = [program.environment for program in job.spec.programs.values()]
        for environment in wanted:
            name = environment.conda
            if name is not None and name not in self._conda:
                self._conda[name] = conda_place(name, self._shell_answer(conda_list()).stdout, environment.path)
        return job.at_environments(self._conda) if any(environment.conda for environment in wanted) else job

    def _adopted(self, job: Job) -> dict[str, Adopted]:
        """The site's environments that the job names, by their paths."""
        standing: dict[str, Adopted] = {}
        for wanted in (program.environment for program in job.spec.programs.values()):
            if wanted.mode == "path" and wanted.path is not None and wanted.path not in standing:
                done = self._shell_answer(inspect_command(wanted.path))
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
            self._snapshots.path = self._snapshots.save(C.DEFAULT_LOCAL_TMP)
        return Producers(
            [described(ref, prepared.snapshot, job) for ref in missing],
            self._snapshots.path,
            prepared.request.stores.store_root,
            prepared.request.stores.store_group_writable,
        )

    def call(self, module: str, module_args: Parameters, task_vars: TaskVariables, spec: Spec) -> ModuleResult:
        """Run the module on the host."""
        return call_module(self, module, module_args, task_vars, spec)

    def _shell_answer(self, command: str) -> ShellAnswer:
        """Run a command of the shell on the host."""
        return record_of(ShellAnswer, self._low_level_execute_command(command, sudoable=True))

    def _command_line(self) -> dict[str, Any]:
        """Overrides given as `-e nodes=8`: only names of the closed list, only from the command line.
        A user's own play is checked here; our playbooks have checked before.
        """
        extra = extra_variables(self)
        if not is_checked(self._task_vars):
            check_extra_variables(self, None, extra, self._task_vars)
        return {name: plain(extra[name]) for name in (*short_names(), ARGUMENTS, SHORT_ARGUMENTS) if name in extra}

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
        done = self._shell_answer("printf '%s\\n' " + " ".join(words))
        paths = [line.strip() for line in done.stdout.splitlines()][-len(roots) :]
        if done.rc != 0 or len(paths) != len(roots) or not all(line.startswith("/") for line in paths):
            raise RankzeroError(
                f"launch_cluster: {' and '.join(roots)} cannot be expanded on the cluster; give absolute paths"
            )
        return [path.rstrip("/") for path in paths]
