# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Code shared by the actions that launch: prepare a launch from the task's options, and call the module."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible import constants as C

try:
    from ansible.module_utils.secrets import register_secrets
except ImportError:  # before ansible-core 2.22
    register_secrets = None

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    JsonObject,
    ModuleResult,
    Parameters,
    TaskVariables,
    answer_of,
    record_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import CODE
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.run.secrets.sums import SHORTEST, values_of
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.elsewhere import short_names
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.parse import ARGUMENTS, SHORT_ARGUMENTS
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.extra_variables import (
    check_extra_variables,
    extra_variables,
    options_of_command_line,
    tell_localhost,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.launcher import (
    BUILD,
    FAIL,
    RELAUNCH,
    REPORT,
    Given,
    Launcher,
    Producers,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.modules import call_module
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.one_cluster import is_checked, refuse_unchosen
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.plain import plain
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import secret_lines
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import Job
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action, display
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.hints import commands_of
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.carrier import ShellAnswer, Spec
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.kept_snapshots import VARIABLE


def masked(lines: bytes) -> bytes:
    """The same lines NAME=base64. Their values are masked from now on in all that Ansible prints or gives to callbacks,
    but for words that occur in any text.
    """
    if register_secrets is not None:
        texts = [value.decode("utf-8", "replace") for value in values_of(lines.decode("ascii"))]
        register_secrets([text for text in texts if len(text) >= SHORTEST])
    return lines


@dataclass(frozen=True)
class _Code:
    """Missing code, as `described` describes it."""

    src: str
    exclude: list[str]


class LaunchAction(Launcher, Action):
    """Base of the actions that render a launch. launch_many.py adds sweeps and pipelines."""

    of_one_cluster = True
    screen = display

    def run(self, tmp: str | None = None, task_vars: TaskVariables | None = None) -> ModuleResult:
        """Ansible's entry: check where it acts, then `act`. A RankzeroError becomes a failed result."""
        super().run(tmp, task_vars)
        # Set by our role and playbooks for the second part of a command, after missing inputs have been built.
        given = self._task_vars.get(VARIABLE)
        self._kept = plain(self._templar.template(given)) if given else None
        self.begin()
        self.check_mode = bool(self._task.check_mode)
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

    def with_inputs(self, launch: Callable[[TaskVariables], ModuleResult], task_vars: TaskVariables) -> ModuleResult:
        """Launch, and do with what is missing on the cluster what the option `missing` says.

        `build` sends the code and launches again: that takes seconds, and no choice. What takes minutes or a network is
        an error, and so is anything for `fail`. Raises RankzeroError.
        """
        wanted = plain(self._task.args).get("missing") or BUILD
        if wanted not in (BUILD, FAIL, REPORT):
            raise RankzeroError(f"missing: must be one of {BUILD}, {FAIL}, {REPORT}; not {wanted!r}")
        result = launch(task_vars)
        answer = answer_of(result)
        missing = answer.missing
        if not missing or wanted == REPORT or answer.failed or self._task.check_mode:
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
        sent = answer_of(action.run(task_vars={**self._task_vars, VARIABLE: needed.snapshots}))
        if sent.failed:
            raise RankzeroError(str(sent.msg))

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

    def call(self, module: str, module_args: Parameters, task_vars: TaskVariables, spec: Spec | None) -> ModuleResult:
        """Run the module on the host."""
        return call_module(self, module, module_args, task_vars, spec)

    def shell_answer(self, command: str) -> ShellAnswer:
        """Run a command of the shell on the host."""
        return record_of(ShellAnswer, self._low_level_execute_command(command, sudoable=True))

    def command_line(self) -> JsonObject:
        """Overrides given as `-e nodes=8`: only names of the closed list, only from the command line.
        A user's own play is checked here; our playbooks have checked before.
        """
        extra = extra_variables(self)
        if not is_checked(self._task_vars):
            check_extra_variables(self, None, extra, self._task_vars)
        return {name: plain(extra[name]) for name in (*short_names(), ARGUMENTS, SHORT_ARGUMENTS) if name in extra}

    def commands(self, run_dir: str) -> dict[str, str]:
        """As the base says, for the inventory of this playbook."""
        return commands_of(run_dir, self._task_vars)

    def temporary(self) -> str:
        """Ansible's own folder of this command."""
        return str(C.DEFAULT_LOCAL_TMP)
