# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interfaces of this node, and which of them reach the nodes that may become the first one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import time

from core.files import HEADS, await_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SIOCGIFFLAGS, SIOCGIFADDR = 0x8913, 0x8915
UP_AND_RUNNING = 0x1 | 0x40
ARPHRD_INFINIBAND = 32
SYSFS = "/sys/class"
# Names of the fast networks of common sites: InfiniBand, Slingshot, RDMA over Ethernet.
FAST_NAMES = ("ib", "hsn", "hsi", "rdma")
# What makes an interface a fast one, best first. An Ethernet with RDMA comes last: it may as well be the management's.
INFINIBAND, NAMED, RDMA = "InfiniBand", "a name of fast networks", "RDMA adapter"
CONNECT_SECONDS = 2.0
HEAD_SECONDS = 15.0


def ask_kernel(request: int, interface: str) -> bytes | None:
    """The answer to an interface ioctl (netdevice(7)), or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            return fcntl.ioctl(probe, request, struct.pack("256s", interface.encode()[:15]))
        except OSError:
            return None


def interfaces() -> dict[str, str]:
    """{name: IPv4 address} of what is up, has a cable and an address; the loop-back is none."""
    addresses = {}
    for _index, name in socket.if_nameindex():
        flags, address = ask_kernel(SIOCGIFFLAGS, name), ask_kernel(SIOCGIFADDR, name)
        if flags is None or address is None or name == "lo":
            continue
        if struct.unpack("H", flags[16:18])[0] & UP_AND_RUNNING == UP_AND_RUNNING:
            addresses[name] = socket.inet_ntoa(address[20:24])
    return addresses


def number_in(path: str) -> int:
    try:
        with open(path) as stream:
            return int(stream.read())
    except (OSError, ValueError):
        return 0


def entries_of(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def adapters() -> dict[str, str]:
    """{interface: RDMA adapter} of the ports of this node: RoCE makes of any ens1f0 or eth1 a fast one."""
    adapters: dict[str, str] = {}
    for adapter in entries_of(f"{SYSFS}/infiniband"):
        for name in entries_of(f"{SYSFS}/infiniband/{adapter}/device/net"):
            adapters.setdefault(name, adapter)
    return adapters


def beneath(name: str) -> list[str]:
    """The interfaces that a bond, a bridge or a VLAN consists of, and this one."""
    folder = f"{SYSFS}/net/{name}"
    return [name, *(entry.partition("_")[2] for entry in entries_of(folder) if entry.startswith("lower_"))]


def rules(names: Iterable[str]) -> dict[str, str]:
    """{interface: why it is fast} of those that are."""
    of_adapter, why = adapters(), {}
    for name in names:
        below = [lower for lower in beneath(name) if lower in of_adapter]
        if number_in(f"{SYSFS}/net/{name}/type") == ARPHRD_INFINIBAND:
            why[name] = INFINIBAND
        elif name.startswith(FAST_NAMES):
            why[name] = NAMED
        elif below:
            via = "" if below[0] == name else f" of {below[0]}"
            why[name] = f"{RDMA} {of_adapter[below[0]]}{via}"
    return why


def sort_key(name: str, why: Mapping[str, str]) -> tuple[bool, bool, int, str]:
    """What sorts the fast interfaces before the others, and the faster of two Ethernets first."""
    rule = why.get(name, "")
    speed = number_in(f"{SYSFS}/net/{name}/speed") if rule.startswith(RDMA) else 0
    return (not rule, rule.startswith(RDMA), -speed, name)


def fastest_first(names: Iterable[str]) -> list[str]:
    why = rules(names)
    return sorted(names, key=lambda name: sort_key(name, why))


def bind_to(probe: socket.socket, name: str, source: str) -> None:
    """Send over one interface only. Kernels before 5.7 keep that for root; the source address then has to do."""
    with contextlib.suppress(OSError):
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name.encode())
    probe.bind((source, 0))


def carries(name: str, source: str, target: str) -> bool:
    """Whether this interface reaches an address. Nobody listens there: a refusal comes from the other end, too."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(CONNECT_SECONDS)
        try:
            bind_to(probe, name, source)
            probe.connect((target, 9))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        return True


def usable(own: Mapping[str, str], own_name: str, heads: list[str], folder: str) -> dict[str, list[str]]:
    """{first node: own interfaces that reach it, the fast ones first} for each node that may become the first one."""
    names = fastest_first(own)
    deadline = time.monotonic() + HEAD_SECONDS
    interfaces_of = {}
    for head in heads:
        if head == own_name:
            interfaces_of[head] = names
            continue
        addresses = await_document(os.path.join(folder, HEADS, head + ".addresses"), deadline) or {}
        interfaces_of[head] = [
            name for name in names if name in addresses and carries(name, own[name], addresses[name])
        ]
    return interfaces_of
