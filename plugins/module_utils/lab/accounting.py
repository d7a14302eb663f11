# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's accounting: a small MariaDB that listens only on a unix socket, and slurmdbd, which uses it."""

from __future__ import annotations

import contextlib
import os
import pwd

from ansible_collections.rankzero.slurm.plugins.module_utils.core.clearing import remove_tree
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import control, profile, roots, slurmconf
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.slurmconf import Host


def grants(user: str) -> str:
    """SQL that the server runs first at every start. Users authenticate by operating system account, not password."""
    return (
        "CREATE DATABASE IF NOT EXISTS slurm_acct_db;\n"
        f"CREATE USER IF NOT EXISTS '{user}'@'localhost' IDENTIFIED VIA unix_socket;\n"
        f"GRANT ALL PRIVILEGES ON slurm_acct_db.* TO '{user}'@'localhost';\n"
    )


def initialise(lab: Lab) -> None:
    """Create an empty data directory, once in the life of a lab.

    It is built under another name and then renamed, so that an incomplete one is never used.
    """
    directory, building = lab.path("db"), lab.path("db.new")
    if lab.accounting != "slurmdbd" or os.path.isdir(directory):
        return
    with contextlib.suppress(OSError):
        remove_tree(building)
    user = "mysql" if lab.realistic else pwd.getpwuid(os.getuid()).pw_name
    os.makedirs(building, 0o700)
    if lab.realistic:
        os.chown(building, *roots.owner(lab, user))
    control.must(
        [
            *(control.enter(lab, "head") if lab.root else []),
            "mariadb-install-db",
            "--no-defaults",
            f"--user={user}",
            f"--datadir={building}",
            f"--tmpdir={building}",  # in /tmp, the start of another lab's server would remove its tables
            "--skip-test-db",
            "--auth-root-authentication-method=socket",
            "--innodb-log-file-size=16M",
        ]
    )
    os.rename(building, directory)


def start(lab: Lab, host: Host, agent: control.Agent, pid: int) -> None:
    """Start MariaDB and slurmdbd, and register the cluster, which slurmctld needs before it starts."""
    start_mariadbd(lab, host, agent, pid)
    start_slurmdbd(lab, host, agent, pid)
    marker = lab.path("db", "cluster-registered")
    if not os.path.exists(marker):
        for command in [["add", "cluster", lab.cluster_name], *profile.account_commands(lab)]:
            control.must([*control.enter(lab, "head"), "sacctmgr", "--immediate", "--quiet", *command])
        with open(marker, "w", encoding="utf-8"):
            pass


def start_mariadbd(lab: Lab, host: Host, agent: control.Agent, pid: int) -> None:
    """Start MariaDB and wait for its socket. `pid`: a process that sees the daemon's /run (realistic way)."""
    socket = f"/proc/{pid}/root/run/mysqld/mysqld.sock" if lab.realistic else f"{host.socket_directory}/mysqld.sock"
    control.start_with_socket(lab, agent, "mariadbd", "head", socket)


def start_slurmdbd(lab: Lab, host: Host, agent: control.Agent, pid: int) -> None:
    """Start slurmdbd and wait until it listens. Raises RankzeroError if it does not."""
    port = slurmconf.DATABASE_PORT if lab.realistic else host.port_block + 1
    agent.start("slurmdbd")
    control.wait_for_service(lab, agent, "slurmdbd", "head", lambda: port in control.ports(pid))
