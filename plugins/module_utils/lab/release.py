# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm releases that a lab can run besides the host's: each from a root file system of the Debian suite that has it.

Pure. A root is identified by a key over its recipe (suite, packages, how it is made), so that a lab knows the path of
its root before it is built. `roots.py` builds, checks, keeps and removes roots.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence

HOST = "host"
STORE = "/var/lib/rankzero-lab/.roots"  # next to root's labs; a lab's name cannot begin with a dot

# slurm has the same uid on every Debian; the users of the other daemons get any free uid when they are installed.
# With fixed uids, the files of a stopped lab keep their owners when its root is rebuilt.
USERS = {"munge": 700, "mysql": 701}

PACKAGES = (
    "ca-certificates",
    "fuse3",
    "iproute2",
    "liblua5.4-0",  # opened at run time by job_submit/lua
    "mariadb-server",
    "mount",
    "munge",
    "openssh-sftp-server",
    "procps",
    "python3",
    "python3-venv",
    "slurm-client",
    "slurm-wlm-basic-plugins",
    "slurm-wlm-mysql-plugin",
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "sshfs",  # with fuse3 and the server above, needed for a share over the network
)
# Documentation is not needed on head and nodes.
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")

# What a head of another release does not take from the host: the directories of the distribution, and the lab's own.
# Everything else in / (homes, /tmp, /opt, other file systems) is the host's, as on a head with the host's Slurm.
OWN_DIRECTORIES = (
    *("bin", "boot", "etc", "lib", "lib32", "lib64", "libx32", "run", "sbin", "sys", "usr", "var"),
    *("bin.usr-is-merged", "lib.usr-is-merged", "sbin.usr-is-merged", "lost+found", "shared"),
)
# How the host's clients reach their package indexes and which certificates they trust. Copied to the head if present.
CLIENT_SETTINGS = ("/etc/pip.conf", "/etc/uv/uv.toml", "/etc/ssl/certs/ca-certificates.crt")


@dataclasses.dataclass(frozen=True)
class Release:
    """Slurm `version` (its first two numbers) comes with Debian's `suite`."""

    version: str
    suite: str
    packages: tuple[str, ...] = PACKAGES

    @property
    def key(self) -> str:
        """Identifies the recipe: any change to how the root is built changes the key. The mirror is not part of it."""
        return hashlib.sha256(json.dumps(build_argv(self, "", "", ())).encode()).hexdigest()[:12]

    @property
    def place(self) -> str:
        """Its directory in the store: `root` is the file system, `manifest.json` lists its contents."""
        return f"{STORE}/{self.version}-{self.key}"

    @property
    def root(self) -> str:
        """The root file system of this Slurm release."""
        return f"{self.place}/root"


RELEASES = {release.version: release for release in (Release("24.11", "trixie"), Release("26.05", "sid"))}
CHOICES = (HOST, *RELEASES)


def hooks() -> list[str]:
    """Shell lines that mmdebstrap runs once dpkg works and before it installs other packages; "$1" is the root."""
    lines = []
    for name, number in sorted(USERS.items()):
        lines.append(f'echo "{name}:x:{number}:" >>"$1/etc/group"')
        lines.append(f'echo "{name}:x:{number}:{number}::/nonexistent:/usr/sbin/nologin" >>"$1/etc/passwd"')
    return lines


def build_argv(release: Release, target: str, mirror: str, apt_options: Sequence[str]) -> list[str]:
    """The command that builds the root in `target` from the archive at `mirror` (a URI)."""
    argv = ["mmdebstrap", "--variant=essential", "--format=directory", f"--include={','.join(release.packages)}"]
    argv += [f"--aptopt={option}" for option in apt_options]
    argv += [f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT]
    argv += [f"--essential-hook={line}" for line in hooks()]
    # The nodes must not learn how this machine reaches its archive.
    argv += ['--customize-hook=rm -f "$1"/etc/apt/apt.conf.d/99mmdebstrap "$1"/etc/apt/sources.list']
    return [*argv, release.suite, target, f"deb {mirror} {release.suite} main"]
