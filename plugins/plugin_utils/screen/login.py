# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What to do where a host asks for a second factor: a command that logs in once, into the connection that is shared.

Nothing here imports Ansible.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import Any

# What a server that took the key, or takes none, asks for besides.
_FACTOR = re.compile(r"permission denied \([^)]*(?:keyboard-interactive|password)", re.IGNORECASE)


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
    return how_to_log_in(reason, str(address), user, port, shared_socket(connection))


def shared_socket(connection: Any) -> str | None:
    """The socket of a connection of Ansible's, which names it relative to a folder of its settings."""
    path: str | None = getattr(connection, "control_path", None)
    return path and path % {"directory": os.path.expanduser(connection.get_option("control_path_dir") or "")}
