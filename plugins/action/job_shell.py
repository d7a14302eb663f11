# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `job_shell`: from a job's plan to the commands of an interactive session, shown or opened."""

from __future__ import annotations

import os
import shlex
from dataclasses import asdict
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.shell import (
    SCRIPT,
    Session,
    described,
    folder_of,
    notes,
    programs,
    session,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import BOOLEAN, Invalid
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.launch import LaunchAction
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.render import render_shell
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.request import allocation_asked
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import display
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.terminal import NO_TERMINAL, hand_over, terminal_of


def ssh_argv(option: Any, command: str) -> list[str]:
    """The command of the user's own ssh to the host of a connection, with a terminal. `option`: name -> value."""
    words = [str(option("ssh_executable") or "ssh"), "-t"]
    for flag, name in (("-p", "port"), ("-l", "remote_user"), ("-i", "private_key_file")):
        if option(name):
            words += [flag, str(option(name))]
    for name in ("ssh_args", "ssh_common_args", "ssh_extra_args"):
        words += shlex.split(str(option(name) or ""))
    return [*words, str(option("host")), command]


class ActionModule(LaunchAction):
    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        try:
            return self._session(task_vars or {})
        except RankzeroError as error:
            return {"failed": True, "msg": error.message, **error.partial}
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)

    def _session(self, task_vars: dict[str, Any]) -> dict[str, Any]:
        arguments = self.given("job", "cluster", "overrides", "open")
        try:
            wanted = bool(BOOLEAN.parse(arguments.get("open") or False))
        except Invalid as error:
            raise RankzeroError(f"open: {error}") from None
        job = self.job_of(arguments)
        prepared = self.prepared(job, "never")
        plan = prepared.plan
        templates = job.settings.templates and os.path.abspath(job.settings.templates)
        asked = allocation_asked(plan)
        request = {
            "folder": folder_of(plan),
            "files": {
                SCRIPT: render_shell(plan, templates),
                **{name: prepared.runtime[name] for name in programs(plan)},
            },
            "refs": [ref for ref in prepared.arguments["refs"] if ref["kind"] != "runtime"],
            "stores": prepared.arguments["stores"],
            "attach": asked and asdict(asked),
        }
        result = self.call("rankzero.slurm.job_shell", {"job": arguments["job"], "_request": request}, task_vars)
        result.pop("invocation", None)
        if result.get("failed"):
            return result
        shell_session = session(plan, result["nodes"])
        result.update(described(shell_session), notes=notes(plan), **self.producers(result, prepared, job))
        if not job.settings.store_shared:
            result["notes"].append(
                "not on the nodes: code and environment, which only a job copies there (store_shared)"
            )
        host = task_vars.get("inventory_hostname", "localhost")
        for line in _lines(shell_session, result):
            display.display(f"{host}: {line}")
        if not wanted or result["missing"] or self._task.check_mode:
            return result
        return {**result, "changed": True, "exit_code": self._open(shell_session, task_vars)}

    def _open(self, session: Session, task_vars: dict[str, Any]) -> int:
        """Give the session the user's terminal until it ends. Returns its exit code."""
        by_hand = f"type the commands yourself: {' ; '.join(session.lines)}"
        terminal = terminal_of(os.getppid())
        if terminal is None:
            raise RankzeroError(f"open: ansible-playbook runs at no terminal, and a shell needs one; {by_hand}")
        if self._play_context.become:
            raise RankzeroError(f"open: does not go together with become; {by_hand}")
        command = f"exec {shlex.join(session.command)}"
        transport = self._connection.transport
        if transport == "local":
            # The start-up files of an interactive shell are not wanted here.
            argv = [str(task_vars.get("ansible_shell_executable") or "/bin/sh"), "-c", command]
        elif transport == "ssh":
            argv = ssh_argv(self._connection_option, command)
        else:
            raise RankzeroError(f"open: over a connection of kind {transport} no terminal can be had; {by_hand}")
        code = hand_over(terminal, argv)
        if code == NO_TERMINAL:
            raise RankzeroError(f"open: the terminal {terminal} cannot be opened; {by_hand}")
        if code == 255 and transport == "ssh":
            raise RankzeroError(f"open: ssh ended with 255: it could not connect, or lost the connection; {by_hand}")
        return code

    def _connection_option(self, name: str) -> Any:
        return self._connection.get_option(name)


def _lines(session: Session, result: dict[str, Any]) -> list[str]:
    """The result as text: the commands, one on each line, and notes about them."""
    lines = [f"inside {result['allocation']}"] if result["allocation"] else []
    missing = ", ".join(ref["kind"] for ref in result["missing"])
    if missing:
        return [*lines, f"to be built first: {missing}"]
    lines += [*(["allocate:", *session.lines[:1]] if session.allocate else []), "open a shell:", session.lines[-1]]
    return lines + list(result["notes"])
