# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's two networks: bridges in the head's network namespace, and one virtual cable from each bridge to each node.

The host's network is never changed: the cables are created inside the head's namespace, with their other ends inside
the nodes'. There is no default route. The texts are input for `ip -batch`.

Each hardware address is made of the IPv4 address, so a node that comes back has the one that the others still have in
their neighbour tables. With an address that the kernel draws, they reach the node again only after about ten seconds.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import control
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab

INTERFACES = ("eth0", "ib0")
# The head's own interface is the management bridge itself.
_BRIDGES = {"eth0": "eth0", "ib0": "fabric"}


def hardware_address(address: str) -> str:
    """The hardware address of the interface that has an IPv4 address: locally administered, unicast."""
    return ":".join(f"{part:02x}" for part in (0x02, 0, *(int(byte) for byte in address.split("."))))


def head_batch(lab: Lab) -> str:
    """Loopback, both bridges, and the head's management address."""
    lines = ["link set lo up"]
    for interface in INTERFACES:
        # Without an address of its own a bridge takes the lowest of its cables', and changes it as they come and go.
        hardware = hardware_address(str(lab.subnet(interface)[1]))
        lines.append(f"link add {_BRIDGES[interface]} address {hardware} type bridge forward_delay 0 stp_state 0")
        lines.append(f"link set {_BRIDGES[interface]} up")
    lines.append(f"address add {lab.address('head')}/{lab.subnet('eth0').prefixlen} brd + dev {_BRIDGES['eth0']}")
    return "\n".join(lines) + "\n"


def cable_batch(nodes: Mapping[str, int]) -> str:
    """Commands for the head's namespace: create the cables of nodes (name -> pid of the node's agent on the host)."""
    lines = []
    for name, pid in nodes.items():
        for interface in INTERFACES:
            cable = f"{name}-{interface}"
            lines.append(f"link add {cable} type veth peer name {interface} netns {pid}")
            lines.append(f"link set {cable} master {_BRIDGES[interface]} up")
    return "\n".join(lines) + "\n"


def node_batch(lab: Lab, name: str) -> str:
    """Commands for the node's namespace: loopback and both interfaces."""
    lines = ["link set lo up"]
    for interface in INTERFACES:
        address = lab.address(name, interface)
        lines.append(f"link set {interface} address {hardware_address(address)}")
        lines.append(f"address add {address}/{lab.subnet(interface).prefixlen} brd + dev {interface}")
        lines.append(f"link set {interface} up")
    return "\n".join(lines) + "\n"


def batch(pid: int, text: str) -> None:
    """Run `ip -batch` in the network namespace of a process. Raises RankzeroError at the first command that fails."""
    control.must(["nsenter", f"--net=/proc/{pid}/ns/net", "ip", "-batch", "-"], text)


def connect(lab: Lab, head: int, nodes: Mapping[str, int]) -> None:
    """Connect nodes (name -> pid) to the head's bridges and set their addresses."""
    batch(head, cable_batch(nodes))
    for name, pid in nodes.items():
        batch(pid, node_batch(lab, name))


def plugged(pid: int) -> bool:
    """Whether the process's network namespace has all interfaces of a node (up or down)."""
    with open(f"/proc/{pid}/net/dev", encoding="ascii") as stream:
        present = {line.partition(":")[0].strip() for line in stream}
    return present.issuperset(INTERFACES)
