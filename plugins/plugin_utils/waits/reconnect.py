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
MASTER_SECONDS = 10


class ConnectionLost(Exception):
    """The host could not be reached for as long as the task allows, or requires a login."""


def asks_for_login(reason: str) -> bool:
    """Whether the message of a refused connection means that a login is needed."""
    return _LOGIN.search(reason) is not None


def master_is_gone(connection: Any) -> bool:
    """Whether an SSH master connection that was opened with a password is gone, so that a new login would need one."""
    if getattr(connection, "transport", "") != "ssh" or not connection.get_option("password"):
        return False
    from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.login import shared_socket

    path = shared_socket(connection)
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
            from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.login import advice

            told = f"the host asks for a login; a wait does not log in again ({reason})"
            raise ConnectionLost(told + advice(connection, reason))
        if not reported:
            say(f"the connection is lost ({reason}); the job is not affected, trying again", "yellow")
            reported = True
        if clock() + pause > until:
            raise ConnectionLost(f"could not be made again within {timeout:.0f} s ({reason})")
        sleep(pause)
        pause = min(pause * 2, 30.0)
