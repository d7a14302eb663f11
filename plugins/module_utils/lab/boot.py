# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starting a lab: write its directory, start its agents, then its daemons in the order of their dependencies.

Everything here is a step of `start`. The process may be killed between any two steps: `cluster.py` then finds what is
left by the lab's marks and starts again.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.rankzero.slurm.plugins.module_utils.core.clearing import remove_tree
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import text_of
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import (
    accounting,
    agents,
    control,
    profile,
    roots,
    slurmconf,
    wrappers,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.machine import network, processes, sharing
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.slurmconf import Host


def interpreter() -> str:
    """The agents' Python: the system's, which every user may run and which outlives virtual environments."""
    system = "/usr/bin/python3"
    return system if os.access(system, os.X_OK) else sys.executable


def settle_host(lab: Lab) -> Host:
    """Find out what the configuration needs to know about this machine: user, socket directory, free ports."""
    uid = os.getuid()
    user = "slurm" if lab.realistic else pwd.getpwuid(uid).pw_name
    block = 0 if lab.realistic else _free_block(lab)
    hostname = socket.gethostname().partition(".")[0]
    return Host(hostname, user, block, lab.socket_directory(uid), profile.probe(lab), sharing.server_program(lab))


def _free_block(lab: Lab) -> int:
    for attempt in range(221 - lab.ports // 100):
        first = lab.port_block(attempt)
        if all(_is_free(port) for port in (first, first + 1, *range(first + 10, first + 10 + lab.nodes))):
            return first
    raise RankzeroError(
        f"lab_cluster: no block of {lab.ports} free ports between 10000 and 31999; stop another lab first"
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


# ---- the directory ----------------------------------------------------------------------------------------------


def write_directory(lab: Lab, host: Host) -> None:
    """Write everything on disk that the daemons need. Keeps what a stopped lab left in shared, state and db."""
    owner = roots.owner(lab, host.user)
    munge = roots.owner(lab, "munge") if lab.realistic else owner
    for name in ("etc/agents", "etc/slurm", "bin", "lib", "nodes", "head", "spool"):
        os.makedirs(lab.path(name), exist_ok=True)
    os.chmod(lab.directory, 0o755)
    _directory(lab.shared, 0o1777 if lab.realistic else 0o755)
    if lab.site:
        # Nobody else can write there over the network.
        _own(lab.shared, 0o755, (profile.UID, profile.UID))
    elif lab.realistic:
        _directory(lab.path("shared", "home"), 0o755)
        _directory(lab.path("shared", "home", profile.USER), 0o755, (profile.UID, profile.UID))
    _directory(lab.path("state"), 0o755, owner)
    _directory(host.socket_directory, 0o755)
    for name in ["head", *lab.node_names]:
        _directory(lab.path("log", name), 0o755, owner if name == "head" else None)
        if lab.realistic:
            _directory(lab.path("log", "munge", name), 0o700, munge)
        else:
            os.makedirs(lab.path("spool", name), exist_ok=True)
    _directory(lab.path("log", agents.SUPERVISOR), 0o755)
    for name, text in slurmconf.render(lab, host).items():
        private = name == "slurmdbd.conf"
        write_file(lab.path("etc", "slurm", name), text, 0o600 if private else 0o644, owner if private else None)
    for name, text in {**agents.static_files(lab), **_user_files(lab)}.items():
        write_file(lab.path("etc", name), text)
    for name, config in agents.render(lab, host, interpreter()).items():
        write_file(agents.config_path(lab, name), json.dumps(config, indent=1) + "\n")
    for name, text in wrappers.render(lab, host, interpreter()).items():
        write_file(lab.path(name), text, 0o755)
    write_file(lab.path("inventory.yml"), wrappers.inventory(lab))
    _directory(lab.path("etc", "munge"), 0o700, munge)
    _key(lab.path("etc", "munge", "munge.key"), munge)
    if slurmconf.setting(lab, "AuthType") == "auth/slurm":
        _key(lab.path("etc", "slurm", "slurm.key"), owner)
    if not lab.realistic:
        _fake_devices(lab)
    if lab.accounting == "slurmdbd":
        write_file(lab.path("etc", "grants.sql"), accounting.grants(host.user))


def _user_files(lab: Lab) -> dict[str, str]:
    """/etc/passwd and /etc/group of the head and the nodes, with the lab's own user."""
    if not lab.realistic:
        return {}
    if lab.root:
        users = roots.account_files(lab)
    else:
        users = {name: text_of(f"/etc/{name}") for name in ("passwd", "group")}
    return profile.user_files(lab, users["passwd"], users["group"])


def _directory(path: str, mode: int, owner: tuple[int, int] | None = None) -> None:
    os.makedirs(path, exist_ok=True)
    _own(path, mode, owner)


def _own(path: str, mode: int, owner: tuple[int, int] | None) -> None:
    os.chmod(path, mode)
    if owner and os.getuid() == 0:
        os.chown(path, *owner)


def write_file(path: str, text: str, mode: int = 0o644, owner: tuple[int, int] | None = None) -> None:
    """Replace a file atomically: a start that is killed here leaves the old file or the new one."""
    temporary = f"{path}.new"
    with open(temporary, "w", encoding="utf-8") as stream:
        stream.write(text)
    _own(temporary, mode, owner)
    os.replace(temporary, path)


def _key(path: str, owner: tuple[int, int]) -> None:
    """A secret of the lab's daemons, made once."""
    if not os.path.exists(path):
        descriptor = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o400)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(os.urandom(1024))
        os.rename(f"{path}.new", path)
    _own(path, 0o400, owner)


def _fake_devices(lab: Lab) -> None:
    os.makedirs(lab.path("dev"), exist_ok=True)
    for index in range(lab.gpus):
        with contextlib.suppress(FileExistsError):
            os.symlink("/dev/null", lab.path("dev", f"nvidia{index}"))


# ---- the processes ----------------------------------------------------------------------------------------------


def start_agents(lab: Lab, host: Host) -> processes.Identity:
    """Start the supervisor, which starts the other agents, and wait for it. Node disks start empty every time."""
    for name in ("nodes", "head"):
        with contextlib.suppress(OSError):
            remove_tree(lab.path(name))
        os.makedirs(lab.path(name))
    log = lab.path("log", agents.SUPERVISOR, "agent.log")
    with open(log, "ab") as stream:
        # pylint: disable-next=ansible-bad-function
        subprocess.Popen(
            agents.argv(lab, agents.SUPERVISOR, interpreter()),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            cwd="/",
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "RANKZERO_LAB_MEMBER": lab.directory},
            start_new_session=True,
        )
    return wait_for_agent(lab, host, agents.SUPERVISOR)


def wait_for_agent(lab: Lab, host: Host, name: str) -> processes.Identity:
    """Wait until an agent has set up its namespace, and record its pid for the wrappers."""
    agent = control.agent(host, name)
    answer: list[processes.Identity] = []

    def ready() -> bool:
        with contextlib.suppress(control.AgentGone):
            agent.services()
            answer.append(agent.identity())
        if answer or name == agents.SUPERVISOR:
            return bool(answer)
        # An agent that could not set up its namespace has ended; its log says why.
        return not control.agent(host, agents.SUPERVISOR).running(name)

    if not control.until(ready, 20.0) or not answer:
        raise RankzeroError(f"lab {lab.name}: {name} did not come up\n{control.log_tail(lab, name)}")
    write_file(f"{host.socket_directory}/{name}.pid", f"{answer[0]}\n")
    return answer[0]


def start_daemons(lab: Lab, host: Host) -> None:
    """Start all daemons after the agents have started, until all nodes are up."""
    if not lab.realistic:
        accounting.initialise(lab)
        _start_head(lab, host, control.agent(host, agents.SUPERVISOR), os.getpid())
        for name in lab.node_names:
            control.agent(host, agents.SUPERVISOR).start(f"{name}.slurmd")
        return
    # Starting the head mostly means waiting for its database, so the nodes are set up at the same time.
    with ThreadPoolExecutor(3) as pool:
        head = wait_for_agent(lab, host, "head")
        database = pool.submit(accounting.initialise, lab)
        network.batch(head.pid, network.head_batch(lab))
        _share_on_head(lab, host, control.agent(host, "head"), head.pid)
        if lab.internet:
            control.agent(host, agents.SUPERVISOR).start("internet")
        database.result()
        chain = pool.submit(_start_head, lab, host, control.agent(host, "head"), head.pid)
        furnish = pool.submit(_furnish_nodes, lab, host, head, lab.node_names)
        furnish.result()
        chain.result()
    for name in lab.node_names:
        control.agent(host, name).start("slurmd")


def _furnish_nodes(lab: Lab, host: Host, head: processes.Identity, names: list[str]) -> None:
    pids = {name: wait_for_agent(lab, host, name).pid for name in names}
    network.connect(lab, head.pid, pids)
    for name, pid in pids.items():
        start_munged(lab, host, control.agent(host, name), pid, name)
        _share_on_node(lab, host, name, pid)


def _share_on_head(lab: Lab, host: Host, agent: control.Agent, pid: int) -> None:
    """Start the server of /shared, and mount it on the head."""
    if profile.on(host.features, "network_share"):
        agent.start(sharing.SERVER)
        control.wait_for_service(lab, agent, sharing.SERVER, "head", lambda: sharing.PORT in control.ports(pid))
        _mount_shared(lab, agent, pid, "head")


def _share_on_node(lab: Lab, host: Host, name: str, pid: int) -> None:
    if profile.on(host.features, "network_share"):
        _mount_shared(lab, control.agent(host, name), pid, name)


def _mount_shared(lab: Lab, agent: control.Agent, pid: int, where: str) -> None:
    agent.start(sharing.MOUNT)
    control.wait_for_service(lab, agent, sharing.MOUNT, where, lambda: sharing.mounted(pid, lab.shared_inside))


def start_node(lab: Lab, host: Host, name: str) -> None:
    """Start a node that is powered off: agent, network, daemons."""
    control.agent(host, agents.SUPERVISOR).start(name)
    _furnish_nodes(lab, host, control.agent(host, "head").identity(), [name])
    control.agent(host, name).start("slurmd")


def mend(lab: Lab, host: Host) -> None:
    """Start everything that has ended in a lab whose supervisor and head still run. What runs is left alone."""
    if not lab.realistic:
        start_daemons(lab, host)
        return
    supervisor = control.agent(host, agents.SUPERVISOR)
    if lab.internet:
        supervisor.start("internet")
    head = control.agent(host, "head")
    _share_on_head(lab, host, head, head.identity().pid)
    _start_head(lab, host, head, head.identity().pid)
    for name in lab.node_names:
        agent = control.agent(host, name)
        if supervisor.running(name) and not network.plugged(agent.identity().pid):
            supervisor.end(name, signal.SIGKILL, 30)  # its start was interrupted before it had a network
        if not supervisor.running(name):
            start_node(lab, host, name)
        start_munged(lab, host, agent, agent.identity().pid, name)
        _share_on_node(lab, host, name, agent.identity().pid)
        agent.start("slurmd")


def start_munged(lab: Lab, host: Host, agent: control.Agent, pid: int, where: str) -> None:
    """Start munged and wait for its socket. `pid`: a process that sees the daemon's /run (realistic way)."""
    path = f"/proc/{pid}/root/run/munge/munge.socket.2" if lab.realistic else host.munge_socket
    control.start_with_socket(lab, agent, "munged", where, path)


def _start_head(lab: Lab, host: Host, agent: control.Agent, pid: int) -> None:
    """Start munged, the database, slurmdbd and slurmctld. `pid`: a process in the network namespace of the daemons."""
    start_munged(lab, host, agent, pid, "head")
    if lab.accounting == "slurmdbd":
        accounting.start(lab, host, agent, pid)
    start_controller(lab, host, agent, pid)


def start_controller(lab: Lab, host: Host, agent: control.Agent, pid: int) -> None:
    """Start slurmctld and wait until it listens. Raises RankzeroError if it does not."""
    port = slurmconf.CONTROLLER_PORT if lab.realistic else host.port_block
    agent.start("slurmctld")
    control.wait_for_service(lab, agent, "slurmctld", "head", lambda: port in control.ports(pid))


def nodes_up(lab: Lab) -> dict[str, str]:
    """Node -> state as sinfo prints it. Empty if the controller does not answer."""
    done = control.run([*control.enter(lab, "head"), "sinfo", "--noheader", "--Node", "--format=%N %T"], timeout=20)
    if done.returncode != 0:
        return {}
    pairs = (line.split() for line in done.stdout.splitlines())
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def wait_for_nodes(lab: Lab, host: Host, names: list[str]) -> None:
    """Wait until the named nodes are up. Drained nodes count as up: an administrator chose to drain them."""
    seen: dict[str, str] = {}

    def settled() -> bool:
        seen.update(nodes_up(lab))
        return all(_up(seen.get(name, "")) for name in names) or bool(_lost(lab, host, names))

    # One machine starts all of many.
    most = 60.0 + len(names) / 4
    in_time = control.until(settled, most, 0.05)
    lost = _lost(lab, host, names)
    if lost or not in_time:
        how = f"slurmd ended on {', '.join(lost)}" if lost else f"not ready after {most:.0f} s"
        states = ", ".join(f"{name} {seen.get(name, 'unknown')}" for name in names if not _up(seen.get(name, "")))
        tails = "\n".join(control.log_tail(lab, name, 6) for name in (lost or names)[:2])
        raise RankzeroError(f"lab {lab.name}: {how}: {states}\n{tails}")


def _lost(lab: Lab, host: Host, names: list[str]) -> list[str]:
    """Nodes whose slurmd has ended, for which it is useless to wait longer."""
    if not lab.realistic:
        services = control.agent(host, agents.SUPERVISOR).services()
        return [name for name in names if services[f"{name}.slurmd"]["pid"] is None]
    return [name for name in names if not control.agent(host, name).running("slurmd")]


def _up(state: str) -> bool:
    """Whether a node's state means that it is up. sinfo marks a node that does not respond with '*'."""
    return bool(state) and not state.endswith("*") and state.rstrip("#~%$@+^-!") not in ("down", "unknown", "future")
