# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""/shared as a file system that comes over the network and caches what it has seen (profile site).

The head serves the lab's shared directory by SFTP; every node mounts it with sshfs, and so does the head, as login
nodes do. Names, attributes and the absence of names are remembered for CACHE_SECONDS, as NFS remembers them: a file
that was missing stays missing that long, a file that has grown keeps its old size. link() and rename() work; link
counts and inode numbers are not kept, and file locks hold on one machine only. No ssh takes part: sshfs speaks to the
server's port directly, which needs no keys and no encryption inside the lab's own network.

All that arrives at the server is done in the name of the lab's user, root's writes too (as exports with all_squash).
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
# Debian's place, and that of others.
_PROGRAMS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server")


def server_program(lab: Lab) -> str:
    """The SFTP server where the lab's head has it; "" when there is none."""
    if lab.root:
        return _PROGRAMS[0]
    return next((path for path in _PROGRAMS if os.access(path, os.X_OK)), "")


def obstacle(filesystems: str) -> str:
    """Why /shared cannot come over the network, judged by a /proc/filesystems text; "" when it can. Pure."""
    names = {line.split("\t")[-1] for line in filesystems.splitlines()}
    return "" if "fuse" in names else "this kernel has no FUSE (modprobe fuse)"


def nfs_obstacle(filesystems: str) -> str:
    """What is to be said of NFS on this machine. Pure."""
    names = {line.split("\t")[-1] for line in filesystems.splitlines()}
    missing = [f"{what} ({name})" for name, what in (("nfs", "client"), ("nfsd", "server")) if name not in names]
    return (f"this kernel has no NFS {' and no '.join(missing)}; " if missing else "") + "sshfs plays the part"


def mount_argv(lab: Lab) -> list[str]:
    """The daemon that mounts /shared. What a killed one left there is taken away first."""
    options = [
        f"directport={PORT}",
        "allow_other",
        "default_permissions",
        "reconnect",
        # The listing of a folder is asked anew each time; what is remembered is what the kernel remembers.
        "dir_cache=no",
        *(f"{what}_timeout={CACHE_SECONDS}" for what in ("attr", "entry", "negative")),
    ]
    source = f"{lab.address('head')}:{lab.shared}"
    command = shlex.join(["sshfs", "-f", source, lab.shared_inside, "-o", ",".join(options)])
    # Releases of sshfs that know this option follow no link that is absolute or goes up, unless they are told to.
    links = "links=; if sshfs --help 2>&1 | grep -q no_contain_symlinks; then links=,no_contain_symlinks; fi"
    away = f"umount -l {shlex.quote(lab.shared_inside)} 2>/dev/null"
    return ["/bin/sh", "-c", f'{away}; {links}; exec {command}"$links"']


def mounted(pid: int, path: str) -> bool:
    """Whether a process sees a FUSE file system at `path`."""
    with open(f"/proc/{pid}/mountinfo", encoding="utf-8") as stream:
        return any(line.split(" ")[4] == path and " - fuse.sshfs " in line for line in stream)


def main(arguments: list[str]) -> int:
    """The server. `arguments`: address, port, program. A program of its own for each client, as inetd does it."""
    address, port, program = arguments
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps them
    listener = socket.create_server((address, int(port)))
    while True:
        client = listener.accept()[0]
        with client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            subprocess.Popen([program], stdin=client.fileno(), stdout=client.fileno(), cwd="/")
