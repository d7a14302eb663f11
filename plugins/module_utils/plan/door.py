# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How ssh reaches an interactive session on its node, without anything that only root can do. Pure.

    ssh on the user's machine -> login node: connect -> srun --overlap: sshd -i on the node, as the user

`connect` runs a step in the session's job, and in it an sshd that talks over the step's own input and output: it
listens on no port, and Slurm refuses the step to everybody else. Each side knows the other by a key that was made for
the session. The folder `door` of the session's folder has the files, in mode 700. The job and the node are in its file
`open` as long as the session lasts (runtime/start/serve.sh).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.shell import SCRIPT, folder_of, step

#: What a session may serve in place of a shell.
SERVED = ("jupyter", "code")
CONNECT, SETTINGS, AUTHORIZED = "connect", "sshd_config", "authorized_keys"
#: The folder for ssh on the user's machine, where `Include rankzero/*.conf` in ~/.ssh/config finds it.
AT_HOME = "~/.ssh/rankzero"

_SETTINGS = """\
HostKey "{door}/host_key"
AuthorizedKeysFile "{door}/authorized_keys"
AuthenticationMethods publickey
PasswordAuthentication no
PidFile none
UsePAM no
StrictModes no
X11Forwarding no
LogLevel ERROR
Subsystem sftp internal-sftp
"""

_CONNECT = """\
#!/bin/sh
# Written by rankzero.slurm: carries one connection of ssh into the session of {name}.
if ! read -r job node place 2> /dev/null < {open}; then
    echo '[rankzero] no session of {name} is open; rankzero shell with --code or --jupyter opens one' >&2
    exit 69
fi
exec {step} /bin/bash {script} sshd "$place"
"""


def host_of(name: str, login: str) -> str:
    """Return the name by which ssh knows the session of a job. `login`: the login node's name in the inventory."""
    return f"rankzero-{name}-{re.sub('[^A-Za-z0-9._-]', '-', login)}"


def refused(plan: Plan) -> str:
    """Return why a session of this plan can serve nothing; empty if it can."""
    if plan.container is not None and not plan.container.words:
        return (
            f"does not go together with container.runtime {plan.spec.container.runtime}, which enters the container "
            "before any sshd can run: open a shell, or use container.runtime apptainer"
        )
    return ""


def files_of(plan: Plan, authorized: str) -> dict[str, str]:
    """Return the files of the folder `door`, by name. `authorized`: the public key of the user's machine."""
    folder = folder_of(plan)
    door = f"{folder}/door"
    command = f'srun --quiet --unbuffered --jobid="$job" --nodelist="$node" {shlex.join(step(plan, folder))}'
    connect = _CONNECT.format(
        name=plan.name, open=shlex.quote(f"{door}/open"), step=command, script=shlex.quote(f"{folder}/{SCRIPT}")
    )
    return {CONNECT: connect, SETTINGS: _SETTINGS.format(door=door), AUTHORIZED: f"{authorized}\n"}


def host_block(host: str, user: str, login: Sequence[str], folder: str) -> str:
    """Return the text of HOST.conf. `login`: the command, in words, that runs `connect` on the login node. `folder`:
    where the keys are on the user's machine.
    """
    proxy = shlex.join(login).replace("%", "%%")
    return f"""\
# Written by rankzero.slurm: a session on its node. It ends with the session.
Host {host}
  HostName {host}
  User {user}
  IdentityFile "{folder}/{host}.key"
  IdentitiesOnly yes
  UserKnownHostsFile "{folder}/{host}.known"
  StrictHostKeyChecking yes
  ProxyCommand {proxy}
"""
