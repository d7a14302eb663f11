# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What follows a submission, without ansible-playbook: the tasks of role launch from the wait to the report.

Nothing here imports Ansible. Nothing here is left to a playbook either: it would launch once more.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters, record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.explain.options import DIAGNOSIS_SPEC
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import LOGS_SPEC, WAIT_SPEC, WaitOptions
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.carrier import Spec
from ansible_collections.rankzero.slurm.plugins.plugin_utils.waits.reconnect import ConnectionLost, retried
from ansible_collections.rankzero.slurm.plugins.plugin_utils.waits.reporting import Ended, reported
from ansible_collections.rankzero.slurm.plugins.plugin_utils.waits.waiting import Wait
from rankzero.direct_launch import LOGS_DEST
from rankzero.direct_logs import Logs
from rankzero.host import Host, Unreached
from rankzero.known_inventory import NotPlain
from rankzero.playbook import Call
from rankzero.tasks import Result, Tasks


class _Wait(Wait):
    """A wait of the command."""

    LOST = (Unreached,)
    FAILED = (NotPlain,)

    def __init__(self, host: Host, arguments: Parameters) -> None:
        self._there, self.arguments = host, arguments
        self.screen, self.host = host.screen, host.login.name

    def done(self) -> ModuleResult:
        """Wait. Returns the result, also of a failure."""
        defaults = {name: spec.get("default") for name, spec in WAIT_SPEC.items()}
        return self.waited(record_of(WaitOptions, {**defaults, **self.arguments}))

    def call(self, module: str, module_args: Parameters, spec: Spec | None) -> ModuleResult:
        return self._there.called(module, module_args, spec or {})


class _Logs(Logs):
    """The logs of a launch that has ended, whose result is shown with or without them."""

    LOST = (Unreached,)

    def done(self) -> ModuleResult:
        """Fetch. Returns the result, also of a lost connection."""
        try:
            return super().done()
        except (ConnectionLost, Unreached) as error:
            message = f"the connection was lost, and {error}. The job is not affected; run it again."
            return {"failed": True, "connection_lost": True, "msg": message}

    def _ask(self, more: Parameters) -> ModuleResult:
        def show_line(line: str, color: str | None) -> None:
            self.screen.display(f"{self.host}: {line}", color)

        seconds = int(LOGS_SPEC["reconnect_timeout"]["default"])
        return retried(lambda: super(_Logs, self)._ask(more), show_line, seconds, lost=self.LOST)


@contextlib.contextmanager
def named_by(options: Sequence[str]) -> Iterator[None]:
    """Let the commands that the output names be those of this command, with these options, as in a playbook that it
    starts. A playbook that the same process starts later names its own.
    """
    own = {"RANKZERO_RECORDS": "", "RANKZERO_OPTIONS": shlex.join(options)}
    before = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def followed(tasks: Tasks, call: Call, launch: Result) -> None:
    """Wait for the result and prove it."""
    with named_by(call.options):
        _followed(tasks, launch)


def _followed(tasks: Tasks, launch: Result) -> None:
    host, run_dir = tasks.host, str(launch.get("run_dir"))
    asked = {"run_dir": run_dir, "wait_timeout": 0, "logs_dest": LOGS_DEST}
    result = tasks.done("job_wait", "Wait for the result", _Wait(host, asked).done)
    logs, why = result.get("logs"), {}
    if logs is None:
        fetch = _Logs(host, {"run_dir": run_dir}, {"dest": LOGS_DEST})
        logs = tasks.done("job_logs", "Fetch the logs of every rank", fetch.done, tolerant=True)
    if result.get("completed") and not result.get("success"):

        def diagnosed() -> ModuleResult:
            return host.called("job_diagnosis", {"run_dir": run_dir}, DIAGNOSIS_SPEC)

        why = tasks.done("job_diagnosis", "Diagnose the failure", diagnosed, tolerant=True)
    ended = Ended(launch, result, logs, why)
    tasks.done(
        "job_report",
        "Show the result",
        lambda: reported(ended, host.screen, {"inventory_hostname": host.login.name}),
    )
