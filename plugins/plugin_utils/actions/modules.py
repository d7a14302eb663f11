# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How an action runs a module of this collection: from the copy of the code on the host, or as Ansible does."""

from __future__ import annotations

import re
import shlex
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from ansible import constants as C
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    ModuleResult,
    Parameters,
    TaskVariables,
    answer_of,
    play_of,
    record_of,
    succeeded,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.plain import plain
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action, display
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.carrier import (
    Request,
    ShellAnswer,
    Spec,
    carry,
    paths_in,
)


def call_module(
    action: Any, module: str, arguments: Parameters, task_vars: TaskVariables | None, spec: Spec | None
) -> ModuleResult:
    """Run a module of this collection on the host of an action. Returns its result, also of a failure.

    `arguments`: the options, as the task gives them; `spec`: the module's argument spec, or None to leave the call to
    Ansible. Raises AnsibleConnectionFailure.
    """
    variables = task_vars or {}
    if spec is not None and _possible(action):
        result = _cached(action, module.rpartition(".")[2], plain(arguments), variables, spec)
        if result is not None:
            return result
    executed: ModuleResult = action._execute_module(
        module, module_args=dict(arguments), task_vars=variables, wrap_async=action._task.async_val
    )
    executed.pop("invocation", None)  # it contains complete files
    # Ansible reports what it requires, or what the interpreter says of code that it cannot read, but not what to do.
    answer = answer_of(executed)
    unable = "module_stderr" in executed or re.search("requires .*Python", str(answer.msg))
    if answer.failed and unable and (message := _too_old(action, variables)):
        return {"failed": True, "changed": False, "msg": message}
    return executed


def interpreter(action: Any, task_vars: TaskVariables) -> str:
    """The Python interpreter that modules use on the host of an action."""
    chosen = str(action._templar.template(task_vars.get("ansible_python_interpreter", "auto")))
    if not chosen.startswith("auto"):
        return chosen
    known = task_vars.get("ansible_facts", {}).get("discovered_interpreter_python", "python3")
    return str(action._discovered_interpreter or known)


def _too_old(action: Any, variables: TaskVariables) -> str:
    """What to do where the host's Python is too old for any module; empty where it is not."""
    from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import (
        OLDEST_PYTHON,
        python_too_old,
    )

    python = interpreter(action, variables)
    # Python 2 accepts this too.
    asked = shlex.quote("import sys; sys.stdout.write('%d.%d.%d' % tuple(sys.version_info[:3]))")
    version = record_of(
        ShellAnswer, action._low_level_execute_command(f"{shlex.quote(python)} -c {asked}")
    ).stdout.strip()
    if not re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", version):
        return ""
    if tuple(map(int, version.split(".")))[:2] >= OLDEST_PYTHON:
        return ""
    return python_too_old(play_of(variables).host, python, version, [])


class Direct(Action):
    """The action of a module that needs nothing from the controller: it runs that module. meta/runtime.yml names those
    that share one.

    Without an action Ansible would run it by itself, and a host whose Python is too old would answer with a traceback.
    """

    _supports_check_mode = True
    _supports_async = True
    TRANSFERS_FILES = False
    #: The module's argument spec, of one that runs from the host's copy of the code.
    spec: Spec | None = None

    def run(self, tmp: str | None = None, task_vars: TaskVariables | None = None) -> ModuleResult:
        """Ansible's entry."""
        super().run(tmp, task_vars)
        return call_module(self, self._task.action, self._task.args, task_vars, self.spec)


class Presented(Action):
    """The action of a module whose result it shows, or writes to files here."""

    _supports_check_mode = True
    _supports_async = False
    #: The options of the module, and those of the task, which are more.
    ARGUMENTS: Spec = {}
    ACTION_ARGUMENTS: Spec = {}

    def run(self, tmp: str | None = None, task_vars: TaskVariables | None = None) -> ModuleResult:
        """Ansible's entry."""
        super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(self.ACTION_ARGUMENTS)
        result = self.asked(options)
        try:
            return self.presented(options, result)
        except RankzeroError as error:
            return {**result, "failed": True, "msg": error.message}

    def asked(self, options: Parameters) -> ModuleResult:
        """Run the module with the options that are its own. Raises ModuleFailed."""
        given = {name: value for name, value in self._task.args.items() if name in self.ARGUMENTS}
        name = type(self).__module__.rpartition(".")[2]
        return succeeded(call_module(self, f"rankzero.slurm.{name}", given, self._task_vars, self.ACTION_ARGUMENTS))

    @abstractmethod
    def presented(self, options: Parameters, result: ModuleResult) -> ModuleResult:
        """Show or write the module's result. Returns the task's. Raises RankzeroError."""

    def show_line(self, text: str, color: str | None = None) -> None:
        """Show a line."""
        display.display(f"{self.host}: {text}", color=color)


def checked(arguments: Parameters, spec: Spec) -> tuple[dict[str, Any], list[str]] | None:
    """The options of a call as Ansible checks and converts them, and the names of those that are paths of the host.

    None if there is a mistake: then Ansible says it.
    """
    validator = ArgumentSpecValidator({name: _without_path(option) for name, option in spec.items()})
    done = validator.validate(dict(arguments))
    if done.error_messages:
        return None
    return done.validated_parameters, paths_in(done.validated_parameters, spec)


def _without_path(option: Mapping[str, Any]) -> dict[str, Any]:
    """An option whose paths are not expanded: `~` is the home on the host, not here."""
    return {name: "str" if name in ("type", "elements") and kind == "path" else kind for name, kind in option.items()}


def _possible(action: Any) -> bool:
    """Whether the connection carries a module on stdin, and nothing asks for Ansible's own way."""
    connection = action._connection
    if action._task.async_val or C.DEFAULT_KEEP_REMOTE_FILES or not connection.has_pipelining:
        return False
    # A terminal, which some sudo require, has no place for what comes on stdin.
    return connection.become is None or action._is_pipelining_enabled("new")


def _cached(
    action: Any, module: str, arguments: Parameters, variables: TaskVariables, spec: Spec
) -> ModuleResult | None:
    """The result of the module from the copy of its code; None if nothing has been done."""
    options = checked(arguments, spec)
    if options is None:
        return None
    request = Request(module, *options, check_mode=bool(action._task.check_mode))

    def send(command: str, data: bytes) -> ShellAnswer:
        return record_of(ShellAnswer, action._low_level_execute_command(command, in_data=data))

    return carry(request, interpreter(action, variables), send, action._compute_environment_string())
