# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fault switches: break one part of a running lab, and repair it. For tests, and for the program <directory>/bin/fault.

Daemon faults work in both ways of a lab. Faults that need namespaces (hiding a directory, power, links) are refused in
the simple way.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import accounting, agents, boot, control, record
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.machine import network, processes
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.slurmconf import Host

HEAD_DAEMONS = ("slurmctld", "slurmdbd", "mariadbd", "munged")
NODE_DAEMONS = ("slurmd", "munged")
_HIDDEN = "rankzero-hidden"


class Faults:
    """The fault switches of one lab. Every method returns once the fault has taken effect."""

    def __init__(self, lab: Lab, host: Host) -> None:
        self.lab = lab
        self.host = host

    @classmethod
    def of(cls, directory: str) -> Faults:
        """The switches of the lab in `directory`. Raises RankzeroError if no lab is recorded there."""
        known = record.load(directory)
        if known is None:
            raise RankzeroError(f"no lab in {directory}; start one with the playbook rankzero.slurm.lab")
        return cls(known.lab, known.host)

    # Directories.

    def hide(self, node: str, path: str) -> None:
        """Mount an empty read-only directory over a directory of a node, as if its file system were not mounted."""
        if not path.startswith("/"):
            raise RankzeroError(f"hide: {path!r} is not allowed; give an absolute path as the node sees it")
        if path in self._hidden(node):
            return
        self._inside(node, ["mount", "-t", "tmpfs", "-o", "ro,size=4k,mode=755", _HIDDEN, path])

    def unhide(self, node: str, path: str) -> None:
        """Undo `hide`. Does nothing if the directory is not hidden."""
        if path in self._hidden(node):
            self._inside(node, ["umount", path])

    def protect(self, node: str, path: str) -> None:
        """Make a directory of a node read-only for what is opened from now on, as after an error of its file system."""
        if not path.startswith("/"):
            raise RankzeroError(f"protect: {path!r} is not allowed; give an absolute path as the node sees it")
        if not self._protected(node, path):
            self._inside(node, ["mount", "--bind", path, path])
            self._inside(node, ["mount", "-o", "remount,bind,ro", path])

    def unprotect(self, node: str, path: str) -> None:
        """Undo `protect`. Does nothing if the directory is not read-only. Its users may still be in it."""
        if self._protected(node, path):
            self._inside(node, ["umount", "--lazy", path])

    def _protected(self, node: str, path: str) -> bool:
        with open(f"/proc/{self._pid(node)}/mountinfo", encoding="utf-8") as stream:
            mounts = [line.split(" ") for line in stream]
        # The last mount over a directory is the one in effect; field 5 has the options of the mount itself.
        return "ro" in next((mount[5].split(",") for mount in reversed(mounts) if mount[4] == path), [])

    def _hidden(self, node: str) -> list[str]:
        with open(f"/proc/{self._pid(node)}/mountinfo", encoding="utf-8") as stream:
            return [line.split(" ")[4] for line in stream if _HIDDEN in processes.mounted_sources(line)]

    # Daemons.

    def crash(self, daemon: str, node: str = "") -> None:
        """SIGKILL a daemon (slurmctld, slurmdbd, mariadbd on the head; slurmd on a node). It is not restarted."""
        self._end(daemon, node, signal.SIGKILL)

    def stop(self, daemon: str, node: str = "") -> None:
        """End a daemon cleanly (SIGTERM)."""
        self._end(daemon, node, signal.SIGTERM)

    def start(self, daemon: str, node: str = "") -> None:
        """Start a daemon that is not running, and wait until it serves."""
        agent, service = self._service(daemon, node)
        pid = self._pid(node or "head") if self.lab.realistic else os.getpid()
        where = node or "head"
        if daemon == "slurmctld":
            boot.start_controller(self.lab, self.host, agent, pid)
        elif daemon == "slurmdbd":
            accounting.start_slurmdbd(self.lab, self.host, agent, pid)
        elif daemon == "mariadbd":
            accounting.start_mariadbd(self.lab, self.host, agent, pid)
        elif daemon == "munged":
            boot.start_munged(self.lab, self.host, agent, pid, where)
        else:
            agent.start(service)
            boot.wait_for_nodes(self.lab, self.host, [node])

    def restart(self, daemon: str, node: str = "") -> None:
        """Stop and start a daemon. `node`: the node whose slurmd is meant."""
        self.stop(daemon, node)
        self.start(daemon, node)

    def freeze(self, daemon: str, node: str = "") -> None:
        """SIGSTOP a daemon: it keeps its connections and answers nothing, as in an endless lock or on a full disk."""
        agent, service = self._service(daemon, node)
        agent.signal(service, signal.SIGSTOP)

    def thaw(self, daemon: str, node: str = "") -> None:
        """Let a frozen daemon go on. Does nothing if it is not frozen."""
        agent, service = self._service(daemon, node)
        agent.signal(service, signal.SIGCONT)

    def _end(self, daemon: str, node: str, number: int) -> None:
        agent, service = self._service(daemon, node)
        if not agent.end(service, number, 30):
            raise RankzeroError(f"lab {self.lab.name}: {daemon} did not end within 30 s")

    def _service(self, daemon: str, node: str) -> tuple[control.Agent, str]:
        allowed = NODE_DAEMONS if node else HEAD_DAEMONS
        if daemon not in allowed:
            place = f"on node {node}" if node else "on the head (give a node for slurmd)"
            raise RankzeroError(f"daemon: {daemon!r} is not allowed {place}; allowed are {', '.join(allowed)}")
        if node:
            self._known(node)
        if self.lab.realistic:
            return control.agent(self.host, node or "head"), daemon
        if node and daemon == "munged":
            raise RankzeroError("daemon: 'munged' on a node does not exist in the simple way; all share the head's")
        return control.agent(self.host, agents.SUPERVISOR), f"{node}.{daemon}" if node else daemon

    # Power.

    def power_off(self, node: str) -> None:
        """Switch a node off at once: processes, memory file systems and network are lost. Its disk is kept."""
        self._namespaces("power_off")
        self._known(node)
        supervisor = control.agent(self.host, agents.SUPERVISOR)
        if not supervisor.running(node):
            return
        inside = [control.agent(self.host, node).identity()]
        if not (supervisor.end(node, signal.SIGKILL, 30) and processes.wait_gone(inside, 30)):
            raise RankzeroError(f"lab {self.lab.name}: {node} did not die within 30 s")

    def power_on(self, node: str) -> None:
        """Boot a node that is off, and wait until it is up in Slurm."""
        self._namespaces("power_on")
        self._known(node)
        if not control.agent(self.host, agents.SUPERVISOR).running(node):
            boot.start_node(self.lab, self.host, node)
        boot.wait_for_nodes(self.lab, self.host, [node])

    # Links.

    def slow(self, node: str, interface: str = "eth0", rate: str = "1mbit", delay_ms: int = 0) -> None:
        """Limit what a node sends over an interface to `rate` (tc's notation: 500kbit, 10mbit), `delay_ms` later.

        The rate limit works on every kernel (tbf). A delay needs the kernel's netem; if that is missing, the error says
        so.
        """
        self._link(node, interface)
        command = ["tc", "qdisc", "replace", "dev", interface, "root"]
        if not delay_ms:
            self._inside(node, [*command, "tbf", "rate", rate, "burst", "32kbit", "latency", "400ms"])
            return
        done = control.run([*self._prefix(node), *command, "netem", "rate", rate, "delay", f"{delay_ms}ms"])
        if done.returncode != 0:
            raise RankzeroError(
                f"delay_ms: {delay_ms} is not possible here: the kernel refused netem ({done.stderr.strip()});"
                " load sch_netem, or leave out delay_ms to limit the rate only"
            )

    def unslow(self, node: str, interface: str = "eth0") -> None:
        """Restore full speed. Does nothing if the interface was not slowed."""
        self._link(node, interface)
        shown = control.must([*self._prefix(node), "tc", "qdisc", "show", "dev", interface])
        if "qdisc tbf" in shown or "qdisc netem" in shown:
            self._inside(node, ["tc", "qdisc", "del", "dev", interface, "root"])

    def link_down(self, node: str, interface: str = "ib0") -> None:
        """Take an interface of a node down."""
        self._link(node, interface)
        self._inside(node, ["ip", "link", "set", interface, "down"])

    def link_up(self, node: str, interface: str = "ib0") -> None:
        """Bring an interface of a node up again."""
        self._link(node, interface)
        self._inside(node, ["ip", "link", "set", interface, "up"])

    # Helpers.

    def _known(self, node: str) -> None:
        if node not in self.lab.node_names:
            names = self.lab.node_names
            raise RankzeroError(f"node: {node!r} is not allowed; the lab has {names[0]} to {names[-1]}")

    def _namespaces(self, what: str) -> None:
        if not self.lab.realistic:
            raise RankzeroError(f"{what}: not possible in a lab of the simple way; start one with way=realistic (root)")

    def _link(self, node: str, interface: str) -> None:
        self._namespaces("a link fault")
        self._known(node)
        if interface not in network.INTERFACES:
            raise RankzeroError(f"interface: {interface!r} is not allowed; allowed are {', '.join(network.INTERFACES)}")

    def _pid(self, where: str) -> int:
        return control.agent(self.host, where).identity().pid

    def _prefix(self, node: str) -> list[str]:
        self._namespaces("this fault")
        self._known(node)
        return control.enter(self.lab, node)

    def _inside(self, node: str, command: list[str]) -> None:
        control.must([*self._prefix(node), *command])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fault", description="Break one thing of the lab, and mend it.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, words in (
        ("hide", "cover a directory of a node"),
        ("unhide", "show it again"),
        ("protect", "make a directory of a node read-only"),
        ("unprotect", "let it be written again"),
    ):
        sub = verbs.add_parser(verb, help=words)
        sub.add_argument("node")
        sub.add_argument("path")
    for verb, words in (
        ("crash", "SIGKILL a daemon"),
        ("stop", "end a daemon properly"),
        ("start", "start a daemon and wait for it"),
        ("restart", "stop and start a daemon"),
        ("freeze", "SIGSTOP a daemon"),
        ("thaw", "let a frozen daemon go on"),
    ):
        sub = verbs.add_parser(verb, help=words)
        sub.add_argument("daemon", choices=sorted({*HEAD_DAEMONS, *NODE_DAEMONS}))
        sub.add_argument("node", nargs="?", default="", help="for slurmd (and munged of a node)")
    for verb, words in (("power-off", "a node is gone at once"), ("power-on", "boot it and wait for it")):
        verbs.add_parser(verb, help=words).add_argument("node")
    for verb, default, words in (
        ("slow", "eth0", "limit a node's sending rate"),
        ("unslow", "eth0", "full speed again"),
        ("link-down", "ib0", "take an interface down"),
        ("link-up", "ib0", "take it up again"),
    ):
        sub = verbs.add_parser(verb, help=words)
        sub.add_argument("node")
        sub.add_argument("--interface", default=default, choices=network.INTERFACES)
        if verb == "slow":
            sub.add_argument("--rate", default="1mbit")
            sub.add_argument("--delay-ms", type=int, default=0, dest="delay_ms")
    return parser


def main(directory: str, arguments: list[str]) -> int:
    """Run the program: its verbs are the methods of Faults. Exit code 1, with a message, if a fault is refused."""
    options = vars(_parser().parse_args(arguments))
    verb = options.pop("verb").replace("-", "_")
    try:
        action: Callable[..., None] = getattr(Faults.of(directory), verb)
        action(**options)
    except RankzeroError as error:
        sys.stderr.write(f"fault: {error.message}\n")
        return 1
    return 0
