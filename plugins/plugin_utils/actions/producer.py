# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Code shared by the actions of producers (code_snapshot, uv_environment): options, module calls, transfers."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import (
    JsonObject,
    ModuleResult,
    Parameters,
    TaskVariables,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import Action, display
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import RUNNING, Row
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.results import STEPS, own_action
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.allowed_folders import ANYWHERE, Roots


class Producer(Action):
    """Makes something on the cluster from files of the controller: check first, then send what is missing."""

    # A run that finds everything in place transfers nothing: the host's folder is created only when there is something
    # to send.
    TRANSFERS_FILES = False
    MODULE = ""
    OPTIONS: Mapping[str, Any] = {}
    roots = ANYWHERE
    # Options that the module needs even if nothing on the controller is read.
    WHERE = ("store_root", "stores", "store_group_writable", "state")

    def run(self, tmp: str | None = None, task_vars: TaskVariables | None = None) -> ModuleResult:
        """Ansible's entry: check the options, then `produce`. A RankzeroError becomes a failed result."""
        super().run(tmp, task_vars)
        self._variables = task_vars or {}
        try:
            _checked, options = self.validate_argument_spec(argument_spec=dict(self.OPTIONS))
            self.roots = Roots.of(options.pop("code_roots"), os.getcwd())
            return self.produce(options)
        except RankzeroError as error:
            return {"failed": True, "changed": False, "msg": error.message, **error.partial}

    @abstractmethod
    def produce(self, options: JsonObject) -> ModuleResult:
        """The work of the subclass. Returns the task's result."""

    def without_source(self, key: str, options: Parameters) -> JsonObject:
        """Remove the object with this key, without reading anything on the controller."""
        if options["state"] != "absent":
            raise RankzeroError("key: is allowed only with state: absent, to name what to remove; omit it.")
        return self.call(**{name: options[name] for name in self.WHERE}, key=key)

    def call(self, **arguments: Any) -> ModuleResult:
        """Run the module of this action on the host."""
        result: dict[str, Any] = self._execute_module(
            self.MODULE,
            module_args={name: value for name, value in arguments.items() if value is not None},
            task_vars=self._variables,
        )
        result.pop("invocation", None)  # it contains complete files
        return result

    def say(self, text: str) -> None:
        """Show what the step is doing: in its row, or as a line."""
        name = STEPS.get(own_action(self.MODULE), "")
        if name and display.draws:
            display.row(Row(self.host(), RUNNING, name, text, news=True))
        else:
            display.display(f"{self.host()}: {text}")

    def host(self) -> str:
        """The host of the task, as the inventory names it."""
        return str(self._variables.get("inventory_hostname", "host"))

    def send(self, paths: Iterable[str]) -> str:
        """Transfer local files to this task's folder on the host, which Ansible removes; returns that folder."""
        folder: str = self._connection._shell.tmpdir or self._make_tmp_path()
        sent = [folder]
        for path in paths:
            remote = self._connection._shell.join_path(folder, os.path.basename(path))
            self._transfer_file(path, remote)
            sent.append(remote)
        self._fixup_perms2(sent)
        return folder
