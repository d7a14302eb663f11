# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""plan and run without ansible-playbook. Nothing here imports Ansible."""

from __future__ import annotations

import base64
import io
import shlex
import tempfile
from collections.abc import Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    JsonObject,
    ModuleResult,
    Parameters,
    TaskVariables,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import amount
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import CODE
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import ACTIVE
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.elsewhere import short_names
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.parse import ARGUMENTS, SHORT_ARGUMENTS
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.launcher import Given
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.one_launch import OneLaunch
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import Prepared
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import Job
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.hints import commands_of
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import OK, Row
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.carrier import ShellAnswer, Spec
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import pack
from rankzero.host import Host, Unreached
from rankzero.known_inventory import NotPlain
from rankzero.playbook import Call
from rankzero.tasks import Lost

#: As in playbooks/plan.yml.
_LOOK = "command -v sbatch && timeout 20 scontrol ping"


#: Code of so many bytes goes with the call. Of more, the producer sends only what has changed.
MOST_CODE = 1_000_000
#: The folder for logs of role launch, where one host is launched on.
LOGS_DEST = "runs"


def commands(call: Call, run_dir: str) -> dict[str, str]:
    """The commands to follow a launch that still runs, and to cancel it."""
    return commands_of(run_dir, None, {"RANKZERO_RECORDS": "", "RANKZERO_OPTIONS": shlex.join(call.options)})


def is_active(launch: ModuleResult) -> bool:
    """Whether the job of a launch waits or runs."""
    return launch.get("standing") in ACTIVE


class _Launch(OneLaunch):
    """A launch of the command. `folder`: for files of this command."""

    def __init__(self, host: Host, call: Call, folder: str) -> None:
        self.begin()
        self._there, self._given, self._folder = host, call, folder
        self.screen, self.check_mode, self.host = host.screen, host.check_mode, host.login.name

    def asked(self) -> ModuleResult:
        """Launch as the command line says."""
        given = self._given.variables
        relaunch = given.get("launch_relaunch") or ("always" if given.get("rerun") else "on_failure")
        cluster, overrides = self._there.login.cluster, given.get("launch_overrides", {})
        options = {
            "explain": given.get("explain"),
            "planned": given.get("launch_planned"),
            "first": given.get("launch_first"),
        }
        return self.launch(Given(given.get("job", ""), cluster, overrides, relaunch, **options))

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
        return commands(self._given, run_dir)

    def temporary(self) -> str:
        return self._folder


class _Plan(_Launch):
    """What playbooks/plan.yml does where Slurm answers."""

    def job_of(self, given: Given) -> Job:
        """As the base says. A mistake is refused before the host is asked for Slurm. Raises NotPlain without Slurm."""
        job = super().job_of(given)
        if " is UP" not in self._there.shell(_LOOK).stdout:
            raise NotPlain("no Slurm answers on the host")
        return job


class _Submission(_Launch):
    """What the first task of role launch does where nothing is to be built.

    Raises NotPlain only where nothing was submitted: a playbook that launched again could meet a launch that has failed
    meanwhile, and submit it a second time.
    """

    _logs_dest = LOGS_DEST
    _sent: Row | None = None

    def asked(self) -> ModuleResult:
        """As the base says, and what was sent for it."""
        result = super().asked()
        if self._sent and result.get("submission") == "submitted":
            self.screen.row(self._sent)
        return result

    def riding(self, missing: Sequence[Ref], prepared: Prepared) -> str | None:
        """Code that is all that is missing, and small, as after an edit. Raises RankzeroError."""
        code, size = prepared.snapshot, prepared.snapshot.size
        if [(ref.kind, ref.key) for ref in missing] != [(CODE.name, code.digest)] or size > MOST_CODE:
            return None
        archive = io.BytesIO()
        pack(code, archive)
        text = f"{code.digest[:12]}  {amount(len(archive.getvalue()))} sent"
        self._sent = Row(self.host, OK, CODE.label, text)
        return base64.b64encode(archive.getvalue()).decode()

    def call(self, module: str, module_args: Parameters, task_vars: TaskVariables, spec: Spec | None) -> ModuleResult:
        try:
            return super().call(module, module_args, task_vars, spec)
        except Unreached as lost:
            if self.check_mode:
                raise
            raise Lost(str(lost)) from None

    def completed(self, result: ModuleResult, prepared: Prepared, job: Job, lines: list[str]) -> ModuleResult:
        """As the base says. Raises NotPlain where something must be built first."""
        completed = super().completed(result, prepared, job, lines)
        if completed.get("missing"):
            kinds = sorted({ref.kind for ref in map(Ref.of, completed["missing"])})
            raise NotPlain(f"{' and '.join(kinds)} must be built first")
        return completed


def planned(host: Host, call: Call) -> ModuleResult:
    """What playbooks/plan.yml does where Slurm answers. Raises NotPlain, RankzeroError."""
    with tempfile.TemporaryDirectory(prefix="rankzero-") as folder:
        return _Plan(host, call, folder).asked()


def submitted(host: Host, call: Call) -> ModuleResult:
    """What the first task of role launch does. Raises NotPlain where nothing was submitted, RankzeroError, Lost."""
    with tempfile.TemporaryDirectory(prefix="rankzero-") as folder:
        return _Submission(host, call, folder).asked()
