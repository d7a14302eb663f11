# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The login node of a command that runs without ansible-playbook: modules are called through the carrier of the
playbooks' own actions, over the connection that Ansible would use. Nothing here imports Ansible.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.login import how_to_log_in
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.messages import Screen
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import carrier
from rankzero.known_inventory import Login, NotPlain
from rankzero.library import collection

# Ansible's own defaults for a connection, in its order, so that its connection is used again, and ours by a playbook.
_SSH = ("ssh", "-C", "-o", "ControlMaster=auto", "-o", "ControlPersist=60s")
_NO_PASSWORD = (
    *("-o", "KbdInteractiveAuthentication=no"),
    *("-o", "PreferredAuthentications=gssapi-with-mic,gssapi-keyex,hostbased,publickey"),
    *("-o", "PasswordAuthentication=no"),
)
_TIMEOUT = ("-o", "ConnectTimeout=10")
_CONTROL = "~/.ansible/cp"
#: The exit code of ssh itself, when it could not reach the host or lost it.
_UNREACHED = 255


class Unreached(NotPlain):
    """The host could not be reached, or was lost. What it was asked may have been done."""


@dataclass
class Warnings:
    """In place of Ansible's display: warnings become part of the result, as in a task."""

    told: list[str] = field(default_factory=list)

    def warning(self, text: str) -> None:
        """Keep a warning."""
        self.told.append(text)

    def taken(self) -> list[str]:
        """The warnings since the last call."""
        told, self.told = self.told, []
        return told


class Host:
    """The login node of one command. `check_mode`: whether modules may change nothing."""

    def __init__(self, login: Login, check_mode: bool) -> None:
        self.login, self.check_mode = login, check_mode
        self.warnings = Warnings()
        self.screen = Screen(self.warnings)

    def called(self, module: str, arguments: Mapping[str, Any], spec: carrier.Spec) -> ModuleResult:
        """The result of a module, also of a failure. `arguments`: those of the task, of the types of the spec.

        Raises NotPlain if a playbook must do it.
        """
        # As Ansible completes the arguments of a task.
        defaults = {name: option.get("default") for name, option in spec.items() if name not in arguments}
        options = {**arguments, **defaults}
        paths = carrier.paths_in(options, spec)
        request = carrier.Request(module.rpartition(".")[2], options, paths, self.check_mode)
        answer = carrier.carry(request, self.login.python, self.shell)
        if answer is None:
            raise NotPlain(f"the host does not run module {request.module}")
        return answer

    def shell(self, command: str, data: bytes = b"") -> carrier.ShellAnswer:
        """What a command of the shell answers. Raises NotPlain."""
        code, out, err = self.sent(command, data)
        return carrier.ShellAnswer(code, out.decode("utf-8", "replace"), err)

    def sent(self, command: str, data: bytes = b"", into: IO[bytes] | None = None) -> tuple[int, bytes, str]:
        """Exit code, output and messages of a command. `into`: takes the output, which may be large, in its place.

        Raises NotPlain if it was not run, or not to its end.
        """
        folder = os.path.join(collection(), "playbooks") if self.login.connection == "local" else None
        try:
            # The process that keeps an SSH connection open holds the messages open as well: they go to a file.
            with tempfile.TemporaryFile() as messages:
                with subprocess.Popen(
                    words_for(self.login, command),
                    cwd=folder,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE if into is None else into,
                    stderr=messages,
                    # As Ansible's: Ctrl-C ends this command, and leaves what the module does there to its end.
                    start_new_session=True,
                ) as process:
                    out, _none = process.communicate(data)
                messages.seek(0)
                err = messages.read().decode("utf-8", "replace")
        except OSError as error:
            raise NotPlain(f"the host cannot be asked: {error}") from None
        if self.login.connection == "ssh" and process.returncode == _UNREACHED:
            login = self.login
            advice = how_to_log_in(err, login.address, login.user, login.port, control_path(login))
            raise Unreached(
                f'Data could not be sent to remote host "{login.address}". '
                f"Make sure this host can be reached over ssh: {err.strip()}{advice}"
            )
        return process.returncode, out or b"", err


def control_folder() -> bool:
    """Make the folder of the connections that are shared with playbooks. False: it cannot be made."""
    try:
        os.makedirs(os.path.expanduser(_CONTROL), mode=0o700, exist_ok=True)
    except OSError:
        return False
    return True


def control_path(login: Login) -> str:
    """The socket of the connection to a login node, under the name that Ansible gives it."""
    name = hashlib.sha1(f"{login.address}-{login.port}-{login.user}".encode(), usedforsecurity=False).hexdigest()[:10]
    return f"{os.path.expanduser(_CONTROL)}/{name}"


def words_for(login: Login, command: str) -> list[str]:
    """The program that runs a command in the shell of a login node, as Ansible's connection does."""
    line = f"{login.shell} -c {shlex.quote(f'{command} && sleep 0')}"
    if login.connection == "local":
        return ["/bin/sh", "-c", line]
    port = ["-o", f"Port={login.port}"] if login.port else []
    user = ["-o", f'User="{login.user}"'] if login.user else []
    control = ["-o", f'ControlPath="{control_path(login)}"']
    return [*_SSH, *port, *_NO_PASSWORD, *user, *_TIMEOUT, *control, login.address, line]
