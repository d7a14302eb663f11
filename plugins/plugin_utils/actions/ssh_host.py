# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files on the user's machine by which ssh reaches an interactive session: `~/.ssh/rankzero/HOST.*`.

They are read by `ssh -F`, or by a line `Include` that the user writes; his own ~/.ssh/config is never touched.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core import children
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import child_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.door import AT_HOME
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place


@dataclass(frozen=True)
class SshHost:
    """The name of a session for ssh, and its files."""

    name: str

    @property
    def config(self) -> str:
        """The file with its Host block, as a shell of the user expands it."""
        return f"{AT_HOME}/{self.name}.conf"

    @property
    def folder(self) -> str:
        """The folder of its files."""
        return os.path.expanduser(AT_HOME)

    @property
    def lines(self) -> list[str]:
        """What to type for it."""
        included = "with the line `Include rankzero/*.conf` at the top of ~/.ssh/config"
        return [f"ssh -F {self.config} {self.name}", f"or, {included}: ssh {self.name}, and this name in VS Code"]

    def public_key(self) -> str:
        """Return the public half of the key of this machine for it, which is made first. Raises RankzeroError."""
        public = f"{self.name}.key.pub"
        try:
            with Place.of(AT_HOME).opened(mode=0o700) as folder:
                if folder.read(public) is None:
                    path = os.path.join(folder.path, f"{self.name}.key")
                    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.name, "-f", path]
                    done = children.run(words, child_environment(os.environ))
                    if done.returncode != 0:
                        raise RankzeroError(f"serve: ssh-keygen made no key: {done.stderr.strip()}")
                return (folder.read(public) or "").strip()
        except OSError as error:
            raise RankzeroError(f"serve: {error.filename}: {error.strerror}") from error

    def write(self, block: str, host_key: str) -> None:
        """Make ssh know the session, by this text and the session's public key. Raises RankzeroError."""
        try:
            with Place.of(AT_HOME).opened(mode=0o700) as folder:
                for name, text in (("known", f"{self.name} {host_key}\n"), ("conf", block)):
                    folder.write(f"{self.name}.{name}", text)
                    # ssh reads no settings that a group may write.
                    os.chmod(os.path.join(folder.path, f"{self.name}.{name}"), 0o600)
        except OSError as error:
            raise RankzeroError(f"serve: {self.config} cannot be written: {error.strerror}") from error

    def remove(self) -> None:
        """Make ssh forget the session."""
        with contextlib.suppress(OSError, RankzeroError), Place.of(AT_HOME).opened(create=False) as folder:
            for name in ("conf", "known", "key", "key.pub"):
                folder.remove(f"{self.name}.{name}")
