# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller part of `job_shell`: from a job's plan to the commands of an interactive session, shown or opened."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import JOB_SHELL
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, record_of, succeeded
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.door import (
    CONNECT,
    SERVED,
    files_of,
    host_block,
    host_of,
    refused,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.shell import (
    NAME,
    SCRIPT,
    UNNAMED,
    Session,
    brought,
    described,
    folder_of,
    notes,
    programs,
    session,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import BOOLEAN, Invalid
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.launch import LaunchAction
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.launcher import Given
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.ssh_host import SshHost
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.render import render_shell
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.request import allocation_asked
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import display
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.terminal import NO_TERMINAL, hand_over, terminal_of

# What salloc prints as soon as it has an allocation. The option quiet, which suppresses it, is not allowed in a job.
_GRANTED = re.compile(r"salloc: (Granted job allocation|Nodes .+ are ready for job)")
# Lines of Slurm's programs, also of a shell that does not find them; and ssh's own last line.
_SLURM = re.compile(r"(.*: )?(salloc|srun|slurmstepd)(: |-)")
_SSH_END = re.compile(r"(Shared c|C)onnection to .+ closed\.")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]|\^C")
REASON_LINES = 4


def not_opened(printed: str, allocates: bool) -> str:
    """Why a session that ended with an error never had a shell; empty if it had one, or if that is not certain.

    `printed`: the beginning of its output. A shell prints a prompt, so a session in which only Slurm printed had none.
    """
    lines = [_CONTROL.sub("", line).strip() for line in printed.splitlines()]
    lines = [line for line in lines if line and not _SSH_END.fullmatch(line)]
    slurm = [line for line in lines if _SLURM.match(line)]
    granted = not allocates or any(_GRANTED.match(line) for line in lines)
    if not slurm or (granted and slurm != lines):
        return ""
    reasons = [line for line in slurm if not _GRANTED.match(line) and "Relinquishing job allocation" not in line]
    what = "no shell opened in the job" if granted else "no allocation was granted"
    return f"{what}: {' / '.join(reasons[-REASON_LINES:])}" if reasons else ""


def not_served(printed: str) -> str:
    """Why the script of a session ended it, from the beginning of its output; empty if it did not."""
    lines = [_CONTROL.sub("", line).strip() for line in printed.splitlines()]
    reasons = [line.partition("] ")[2] for line in lines if line.startswith("[rankzero] ")]
    return reasons[-1] if reasons else ""


def ssh_argv(option: Any, command: str, terminal: bool = True) -> list[str]:
    """The command of the user's own ssh to the host of a connection. `option`: name -> value."""
    words = [str(option("ssh_executable") or "ssh"), *(["-t"] if terminal else [])]
    for flag, name in (("-p", "port"), ("-l", "remote_user"), ("-i", "private_key_file")):
        if option(name):
            words += [flag, str(option(name))]
    for name in ("ssh_args", "ssh_common_args", "ssh_extra_args"):
        words += shlex.split(str(option(name) or ""))
    return [*words, str(option("host")), command]


def held_command(command: Sequence[str], held: str) -> str:
    """The command of a session for a shell of the login node; `held`: a file that is removed when it ends, or "".

    The login node's own shell removes it: whatever becomes of this program and of the connection, Slurm's command ends
    with its terminal, and then that shell does.
    """
    if not held:
        return shlex.join(command)
    removes = shlex.quote(f"rm -f -- {shlex.quote(held)}")
    # A shell that a signal ends without a trap for it does not run the one for EXIT.
    traps = f"trap {removes} EXIT; trap : INT; trap 'exit 129' HUP; trap 'exit 143' TERM"
    script = f"{traps}; {shlex.join(command)}; exit $?"
    return shlex.join(["/bin/sh", "-c", script])


@dataclass(frozen=True)
class _Answer:
    """The module's answer. `allocation`: the running job that holds the session, in words. `host_key`, `user`: whom ssh
    meets in a session that serves something.
    """

    missing: Sequence[JsonObject]
    nodes: Sequence[str]
    allocation: str | None
    host_key: str
    user: str


@dataclass(frozen=True)
class _Wanted:
    """Whether the session is opened, its name, and what it serves."""

    opens: bool
    name: str
    serves: str | None

    @classmethod
    def of(cls, given: Given) -> _Wanted:
        try:
            opens = bool(BOOLEAN.parse(given.open or False))
        except Invalid as error:
            raise RankzeroError(f"open: {error}") from None
        try:
            name = NAME.parse(UNNAMED if given.session is None else given.session)
        except Invalid as error:
            raise RankzeroError(f"session: {error}") from None
        if given.serve not in (None, *SERVED):
            raise RankzeroError(f"serve: must be {' or '.join(SERVED)}, not {given.serve!r}")
        return cls(opens, name, given.serve)


class ActionModule(LaunchAction):
    def act(self, task_vars: dict[str, Any]) -> dict[str, Any]:
        given = self.given("job", "cluster", "overrides", "role", "serve", "session", "open", "missing")
        wanted = _Wanted.of(given)
        launch = self.job_of(given)
        job, role = launch.of_role(given.role), given.role or next(iter(launch.spec.roles), "")
        prepared = self.prepared(job, "never")
        plan = prepared.plan
        if wanted.serves and (why := refused(plan)):
            raise RankzeroError(f"serve: {why}")
        known = SshHost(host_of(plan.name, self.host)) if wanted.serves else None
        templates = job.settings.templates and os.path.abspath(job.settings.templates)
        asked = allocation_asked(plan)
        opens = wanted.opens and not self._task.check_mode
        lines = self.secrets(job, task_vars) if opens else b""
        request = {
            "folder": folder_of(plan),
            "files": {
                SCRIPT: render_shell(plan, templates, role),
                **{name: prepared.runtime[name] for name in programs(plan)},
            },
            "refs": [ref.record() for ref in plan.refs],
            "stores": asdict(prepared.request.stores),
            "inside_job": asked and asdict(asked),
            "role": role,
            "door": files_of(plan, "" if self._task.check_mode else known.public_key()) if known else None,
            **({"secrets_file": self.ship_secrets(lines)} if lines else {}),
            **({"from_files": {name: path for name, path in brought(plan).items() if path}} if opens else {}),
            **({"environments": plan.environments_inside} if plan.environments_inside else {}),
        }
        sent = {"job": given.job, "x_request": request}
        result = succeeded(self.call("rankzero.slurm.job_shell", sent, task_vars, JOB_SHELL))
        laid_out = record_of(_Answer, result)
        served = (wanted.serves, known.name) if wanted.serves and known else ()
        shell_session = session(plan, laid_out.nodes, served, wanted.name)
        held = str(result.pop("secrets"))
        needed = self.producers(list(laid_out.missing), prepared, job)
        remarks = [*([f"the shell is of role {role}"] if role else []), *notes(plan, wanted.opens)]
        if not job.settings.store_shared:
            remarks.append("not on the nodes: code and environment, which only a job copies there (store_shared)")
        result.update(described(shell_session), notes=remarks, **vars(needed))
        for line in _lines(shell_session, laid_out, remarks):
            display.display(f"{self.host}: {line}")
        if known:
            result.update(ssh_host=known.name, ssh_config=known.config)
        if laid_out.missing or self._task.check_mode:
            return result
        if known:
            login = self._login(f"exec /bin/sh {shlex.quote(f'{shell_session.folder}/door/{CONNECT}')}", task_vars)
            known.write(host_block(known.name, laid_out.user, login, known.folder), laid_out.host_key)
            for line in ["reach the session, while it is open:", *known.lines]:
                display.display(f"{self.host}: {line}")
        if not wanted.opens:
            return result
        try:
            return {**result, "changed": True, "exit_code": self._open(shell_session, task_vars, bool(known), held)}
        finally:
            if held:  # if no session came of it
                self.shell_answer(f"rm -f -- {shlex.quote(held)}")
            if known:
                known.remove()

    def _open(self, session: Session, task_vars: dict[str, Any], serves: bool, held: str) -> int:
        """Give the session the user's terminal until it ends. Returns its exit code. `held`: the file of secrets."""
        by_hand = f"type the commands yourself: {' ; '.join(session.lines)}"
        terminal = terminal_of(os.getppid())
        if terminal is None:
            raise RankzeroError(f"open: ansible-playbook runs at no terminal, and a shell needs one; {by_hand}")
        if self._play_context.become:
            raise RankzeroError(f"open: does not go together with become; {by_hand}")
        transport = self._connection.transport
        if transport not in ("local", "ssh"):
            raise RankzeroError(f"open: over a connection of kind {transport} no terminal can be had; {by_hand}")
        argv = self._login(f"exec {held_command(session.command, held)}", task_vars, terminal=True)
        code, printed = hand_over(terminal, argv)
        if code == NO_TERMINAL:
            raise RankzeroError(f"open: the terminal {terminal} cannot be opened; {by_hand}")
        if code == 255 and transport == "ssh":
            raise RankzeroError(f"open: ssh ended with 255: it could not connect, or lost the connection; {by_hand}")
        reason = not_opened(printed, bool(session.allocate)) or (not_served(printed) if serves else "")
        if code and reason:
            raise RankzeroError(f"open: {reason} (exit code {code})")
        return code

    def _login(self, command: str, task_vars: dict[str, Any], terminal: bool = False) -> list[str]:
        """The words that run a command of the shell on the login node, by the connection of the play."""
        if self._connection.transport == "ssh":
            return ssh_argv(self._connection_option, command, terminal)
        if self._connection.transport != "local" or self._play_context.become:
            raise RankzeroError("serve: needs a connection of kind ssh or local without become, which ssh uses, too")
        # The start-up files of an interactive shell are not wanted here.
        return [str(task_vars.get("ansible_shell_executable") or "/bin/sh"), "-c", command]

    def _connection_option(self, name: str) -> Any:
        return self._connection.get_option(name)


def _lines(session: Session, laid_out: _Answer, remarks: Sequence[str]) -> list[str]:
    """The result as text: the commands, one on each line, and notes about them."""
    lines = [f"inside {laid_out.allocation}"] if laid_out.allocation else []
    missing = ", ".join(ref.kind for ref in map(Ref.of, laid_out.missing))
    if missing:
        return [*lines, f"to be built first: {missing}"]
    lines += [*(["allocate:", *session.lines[:1]] if session.allocate else []), "open a shell:", session.lines[-1]]
    return [*lines, *remarks]
