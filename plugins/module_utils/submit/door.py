# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the folder through which ssh reaches an interactive session (plan/door.py), with the session's host key."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.core import children
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import child_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import write_text

HOST_KEY = "host_key"


def make(folder: str, files: Mapping[str, str]) -> dict[str, str]:
    """Write the files into FOLDER, which nobody else enters, and make the host key if there is none.

    Returns the public host key and the user who is reached, as `host_key` and `user`. Raises RankzeroError.
    """
    key = os.path.join(folder, HOST_KEY)
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        os.chmod(folder, 0o700)
        for name, text in files.items():
            write_text(os.path.join(folder, name), text)
        if not os.path.exists(key):
            _ssh_keygen("-q", "-t", "ed25519", "-N", "", "-C", "rankzero", "-f", key)
        public = " ".join(_ssh_keygen("-y", "-f", key).split()[:2])
    except FileNotFoundError as error:
        missing = f"there is no {error.filename} on the login node: install its OpenSSH client"
        raise RankzeroError(f"serve: {missing}") from error
    except OSError as error:
        raise RankzeroError(f"serve: cannot write {folder}: {error.strerror}") from error
    return {"host_key": public, "user": pwd.getpwuid(os.geteuid()).pw_name}


def _ssh_keygen(*arguments: str) -> str:
    """What it prints. Raises RankzeroError, and OSError if it is not there."""
    done = children.run(["ssh-keygen", *arguments], child_environment(os.environ))
    if done.returncode != 0:
        raise RankzeroError(f"serve: ssh-keygen on the login node failed: {done.stderr.strip()}")
    return done.stdout
