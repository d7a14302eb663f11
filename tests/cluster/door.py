# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An sshd of this machine, on a port of its own and with keys of its own, that leads onto the head of a lab."""

from __future__ import annotations

import getpass
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.cluster.conftest import LabCluster

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")


class Door:
    """An sshd on this machine that leads onto the head of a lab."""

    def __init__(self, folder: Path, lab: LabCluster, onto: Sequence[str] = (), two_factors: bool = False) -> None:
        """`onto`: the words that run a shell on the head, instead of the lab's own, which is root's.

        `two_factors`: besides the key it asks for a code, one that `code` gave. Needs root.
        """
        assert SSHD, "openssh-server is installed by scripts/bootstrap test"
        folder.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.key = folder / "key"
        for name in ("key", "host"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        forced = folder / "onto"
        forced.write_text(
            f'#!/bin/sh\nexec {shlex.join(onto or [str(lab.shell)])} -c "${{SSH_ORIGINAL_COMMAND:-true}}"\n'
        )
        forced.chmod(0o755)
        # SHLVL: bash would take itself for one that sshd has just started, and read ~/.bashrc of this machine.
        (folder / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/key.pub\n"
            f"PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            f"PermitRootLogin prohibit-password\nForceCommand {forced}\nSubsystem sftp internal-sftp\nMaxSessions 50\n"
            "SetEnv SHLVL=9\n"
        )
        self.codes = folder / "codes"
        start = self._asks_for_a_code(folder) if two_factors else []
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self.log = folder / "log"
        with self.log.open("wb") as log:
            argv = [*start, str(SSHD), "-D", "-e", "-f", str(folder / "sshd_config")]
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=log, start_new_session=True)
        lab.wait_until(lambda: b"Server listening" in self.log.read_bytes() or self.process.poll(), 20, "sshd listens")
        assert self.process.poll() is None, self.log.read_text()

    def _asks_for_a_code(self, folder: Path) -> list[str]:
        """The words before sshd, which let PAM ask for a code in its own mounts."""
        settings = folder / "sshd_config"
        # The first value of a name counts.
        asks = "UsePAM yes\nKbdInteractiveAuthentication yes\nPermitRootLogin yes\n"
        asks += "AuthenticationMethods publickey,keyboard-interactive\n"
        settings.write_text(asks + settings.read_text(encoding="utf-8"), encoding="utf-8")
        self.codes.write_text("", encoding="utf-8")
        check = folder / "check"
        used = f'grep -Fxq -- "$code" {self.codes} && sed -i "/^$code\\$/d" {self.codes}'
        check.write_text(f'#!/bin/sh\ncode=$(tr -cd 0-9)\n[ "$code" ] && {used}\n', encoding="utf-8")
        check.chmod(0o755)
        rules = folder / "pam"
        permit = "".join(f"{what} required pam_permit.so\n" for what in ("account", "session"))
        # The second line is for the credentials, of which the first says nothing.
        asked = f"auth requisite pam_exec.so quiet expose_authtok {check}\nauth optional pam_permit.so\n"
        rules.write_text(asked + permit, encoding="utf-8")
        line = 'mount --bind "$1" /etc/pam.d/sshd && shift && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", line, "sh", str(rules)]

    def code(self) -> str:
        """A code that opens it once."""
        made = f"{secrets.randbelow(10**6):06d}"
        with self.codes.open("a", encoding="utf-8") as codes:
            codes.write(f"{made}\n")
        return made

    def variables(self, folder: Path) -> dict[str, Any]:
        """How Ansible gets through it."""
        options = f"-o UserKnownHostsFile={folder}/known -o StrictHostKeyChecking=accept-new -o IdentitiesOnly=yes"
        return {
            "ansible_connection": "ssh",
            "ansible_host": "127.0.0.1",
            "ansible_port": self.port,
            "ansible_user": getpass.getuser(),
            "ansible_ssh_private_key_file": str(self.key),
            "ansible_ssh_common_args": options,
            "ansible_ssh_args": "-o ControlMaster=auto -o ControlPersist=60s",
            "ansible_control_path_dir": str(folder / "cp"),
            "ansible_python_interpreter": "/usr/bin/python3",
        }

    def close(self) -> None:
        """End it with the sessions and masters that it holds."""
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(20)
