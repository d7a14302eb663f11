# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reconnect after a connection was lost during a wait, but never if that would need a login.

Sites with a second factor lock out users after repeated attempts. The open master connection of SSH (ControlPersist)
may be used any number of times. A new login is tried only if keys are sufficient, and one refusal ends the attempts.
Nothing here imports Ansible.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core import children
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult

# Messages of ssh, sshpass and the server that mean that a login is needed.
_LOGIN = re.compile(
    r"permission denied|authentication fail|too many authentication|keyboard-interactive|invalid/incorrect password"
    r"|verification code|one-time|host key verification failed|passphrase",
    re.IGNORECASE,
)
# What a server that took the key, or has none of it, asks for besides.
_FACTOR = re.compile(r"permission denied \([^)]*(?:keyboard-interactive|password)", re.IGNORECASE)
MASTER_SECONDS = 10


class ConnectionLost(Exception):
    """The host could not be reached for as long as the task allows, or requires a login."""


def asks_for_login(reason: str) -> bool:
    """Whether the message of a refused connection means that a login is needed."""
    return _LOGIN.search(reason) is not None


def how_to_log_in(reason: str, address: str, user: str | None, port: object, control_path: str | None) -> str:
    """The sentences after the message of a refused connection: which command opens one that is then used.

    Empty if only a key is asked for, or no connection is shared.
    """
    if not control_path or not _FACTOR.search(reason):
        return ""
    words = ["ssh", "-o", "ControlMaster=auto", "-o", "ControlPersist=12h", "-o", f"ControlPath={control_path}"]
    words += ["-p", str(port)] if port else []
    command = shlex.join([*words, f"{user}@{address}" if user else address, "true"])
    return (
        f" {address} asks for more than a key, and nothing here types it. Log in once, and that connection is used "
        f"for 12 hours: {command}"
    )


def advice(connection: Any, reason: str) -> str:
    """`how_to_log_in` for a connection of Ansible's."""
    if getattr(connection, "transport", "") != "ssh":
        return ""
    address, user, port = (connection.get_option(name) for name in ("host", "remote_user", "port"))
    return how_to_log_in(reason, str(address), user, port, _control_path(connection))


def _control_path(connection: Any) -> str | None:
    """The socket of a connection of Ansible's, which names it relative to a folder of its settings."""
    path: str | None = getattr(connection, "control_path", None)
    return path and path % {"directory": os.path.expanduser(connection.get_option("control_path_dir") or "")}


def master_is_gone(connection: Any) -> bool:
    """Whether an SSH master connection that was opened with a password is gone, so that a new login would need one."""
    if getattr(connection, "transport", "") != "ssh" or not connection.get_option("password"):
        return False
    path = _control_path(connection)
    if not path:
        return True
    address = connection.get_option("host")
    argv = [connection.get_option("ssh_executable"), "-O", "check", "-o", f"ControlPath={path}", address]
    try:
        done = children.run(argv, os.environ, seconds=MASTER_SECONDS)
    except (OSError, children.Late):
        return True
    return done.returncode != 0


def retried(
    command: Callable[[], ModuleResult],
    say: Callable[[str, str | None], None],
    timeout: float,
    connection: Any = None,
    *,
    lost: tuple[type[Exception], ...],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> ModuleResult:
    """Run `command`. While the connection is lost, retry for `timeout` seconds with growing pauses.

    `lost`: what a broken connection raises. `say(line, color)` reports once that the connection is lost, and once that
    it is back. Raises ConnectionLost.
    """
    until, pause = clock() + timeout, 1.0
    reported = False
    while True:
        try:
            result = command()
        except lost as error:
            reason = str(error)
        else:
            if not result.get("unreachable"):
                if reported:
                    say("the connection is back", None)
                return result
            reason = str(result.get("msg", ""))
        if asks_for_login(reason) or master_is_gone(connection):
            raise ConnectionLost(f"the host asks for a login; a wait does not log in again ({reason})")
        if not reported:
            say(f"the connection is lost ({reason}); the job is not affected, trying again", "yellow")
            reported = True
        if clock() + pause > until:
            raise ConnectionLost(f"could not be made again within {timeout:.0f} s ({reason})")
        sleep(pause)
        pause = min(pause * 2, 30.0)
