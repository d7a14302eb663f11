# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""plan without ansible-playbook. Nothing here imports Ansible."""

from __future__ import annotations

import shlex
import tempfile

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    JsonObject,
    ModuleResult,
    Parameters,
    TaskVariables,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.parse import ARGUMENTS, SHORT_ARGUMENTS, short_names
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.launcher import Given
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.one_launch import OneLaunch
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import Job
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.hints import commands_of
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.carrier import ShellAnswer, Spec
from rankzero.host import Host
from rankzero.known_inventory import NotPlain
from rankzero.playbook import Call

#: As in playbooks/plan.yml.
_LOOK = "command -v sbatch && timeout 20 scontrol ping"


class _Launch(OneLaunch):
    """A launch of the command. `folder`: for files of this command."""

    def __init__(self, host: Host, call: Call, folder: str) -> None:
        self.begin()
        self._there, self._given, self._folder = host, call, folder
        self.screen, self.check_mode, self.host = host.screen, host.check_mode, host.login.name

    def asked(self) -> ModuleResult:
        """Launch as the command line says."""
        given = self._given.variables
        relaunch = "always" if given.get("rerun") else "on_failure"
        cluster, overrides = self._there.login.cluster, given.get("launch_overrides", {})
        return self.launch(Given(given.get("job", ""), cluster, overrides, relaunch, explain=given.get("explain")))

    def job_of(self, given: Given) -> Job:
        """As the base says. A mistake is refused before the host is asked for Slurm. Raises NotPlain without Slurm."""
        job = super().job_of(given)
        if " is UP" not in self._there.shell(_LOOK).stdout:
            raise NotPlain("no Slurm answers on the host")
        return job

    def call(self, module: str, module_args: Parameters, task_vars: TaskVariables, spec: Spec | None) -> ModuleResult:
        if spec is None:
            raise NotPlain(f"module {module} needs Ansible")
        return self._there.called(module, module_args, spec)

    def shell_answer(self, command: str) -> ShellAnswer:
        return self._there.shell(command)

    def secrets(self, job: Job, task_vars: TaskVariables) -> bytes:
        if any(source.kind != "from_file" for source in job.spec.all_secrets.values()):
            raise NotPlain("secrets: Ansible masks their values and brings them to the host")
        return b""

    def ship_secrets(self, lines: bytes) -> str:
        raise NotPlain("secrets: Ansible brings them to the host")

    def command_line(self) -> JsonObject:
        names = (*short_names(), ARGUMENTS, SHORT_ARGUMENTS)
        return {name: self._given.variables[name] for name in names if name in self._given.variables}

    def commands(self, run_dir: str) -> dict[str, str]:
        return commands_of(run_dir, None, {"RANKZERO_RECORDS": "", "RANKZERO_OPTIONS": shlex.join(self._given.options)})

    def temporary(self) -> str:
        return self._folder


def plan(host: Host, call: Call) -> ModuleResult:
    """What playbooks/plan.yml does where Slurm answers. Raises NotPlain, RankzeroError."""
    with tempfile.TemporaryDirectory(prefix="rankzero-") as folder:
        return _Launch(host, call, folder).asked()
