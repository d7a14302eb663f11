# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""/shared as a network file system with a client cache (profile site).

The head serves the lab's shared directory over SFTP. Every node mounts it with sshfs, and so does the head, as login
nodes do. Names, attributes and missing names are cached for CACHE_SECONDS, as with NFS: for that long, a file that was
missing seems to be missing, and a file that has grown keeps its old size. link() and rename() work; link counts and
inode numbers are not kept, and file locks work on one machine only. ssh is not used: sshfs connects directly to the
server's port, which needs no keys and no encryption inside the lab's own network.

The server does everything as the lab's user, including root's writes (as exports with all_squash do).
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess

from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab

SERVER, MOUNT = "fileserver", "shared"  # names of the daemons
PORT = 2022
CACHE_SECONDS = 30
# Debian's path, then those of other distributions.
_PROGRAMS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server")


def server_program(lab: Lab) -> str:
    """The path of the SFTP server on the lab's head; "" if there is none."""
    if lab.root:
        return _PROGRAMS[0]
    return next((path for path in _PROGRAMS if os.access(path, os.X_OK)), "")


def obstacle(filesystems: str) -> str:
    """Why /shared cannot be a network file system, from the text of /proc/filesystems; "" if it can. Pure."""
    names = {line.split("\t")[-1] for line in filesystems.splitlines()}
    return "" if "fuse" in names else "this kernel has no FUSE (modprobe fuse)"


def nfs_obstacle(filesystems: str) -> str:
    """Why NFS is not used on this machine. Pure."""
    names = {line.split("\t")[-1] for line in filesystems.splitlines()}
    missing = [f"{what} ({name})" for name, what in (("nfs", "client"), ("nfsd", "server")) if name not in names]
    return (f"this kernel has no NFS {' and no '.join(missing)}; " if missing else "") + "sshfs plays the part"


def mount_argv(lab: Lab) -> list[str]:
    """The command of the daemon that mounts /shared. A mount left by a killed daemon is removed first."""
    options = [
        f"directport={PORT}",
        "allow_other",
        "default_permissions",
        "reconnect",
        # sshfs lists a directory every time; only the kernel caches.
        "dir_cache=no",
        *(f"{what}_timeout={CACHE_SECONDS}" for what in ("attr", "entry", "negative")),
    ]
    source = f"{lab.address('head')}:{lab.shared}"
    command = shlex.join(["sshfs", "-f", source, lab.shared_inside, "-o", ",".join(options)])
    # Releases of sshfs that have this option do not follow links that are absolute or lead upwards, unless told to.
    links = "links=; if sshfs --help 2>&1 | grep -q no_contain_symlinks; then links=,no_contain_symlinks; fi"
    away = f"umount -l {shlex.quote(lab.shared_inside)} 2>/dev/null"
    return ["/bin/sh", "-c", f'{away}; {links}; exec {command}"$links"']


def mounted(pid: int, path: str) -> bool:
    """Whether a process sees a FUSE file system at `path`."""
    with open(f"/proc/{pid}/mountinfo", encoding="utf-8") as stream:
        return any(line.split(" ")[4] == path and " - fuse.sshfs " in line for line in stream)


def main(arguments: list[str]) -> int:
    """Run the server. `arguments`: address, port, program. Each client gets its own process, as with inetd."""
    address, port, program = arguments
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps them
    listener = socket.create_server((address, int(port)))
    while True:
        client = listener.accept()[0]
        with client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # pylint: disable-next=ansible-bad-function
            subprocess.Popen([program], stdin=client.fileno(), stdout=client.fileno(), cwd="/")
