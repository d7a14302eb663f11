# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interfaces of this node, and which of them reach the nodes that may become the first one."""

import contextlib
import fcntl
import os
import socket
import struct
import time

from core.files import await_document

SIOCGIFFLAGS, SIOCGIFADDR = 0x8913, 0x8915
UP_AND_RUNNING = 0x1 | 0x40
ARPHRD_INFINIBAND = 32
# Names of the fast networks of common sites: InfiniBand, Slingshot, RDMA over Ethernet.
FAST_NAMES = ("ib", "hsn", "hsi", "rdma")
CONNECT_SECONDS = 2.0
HEAD_SECONDS = 15.0
FIRST_PORT, PORTS = 15000, 5000


def ask_kernel(request, interface):
    """The answer to an interface ioctl (netdevice(7)), or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            return fcntl.ioctl(probe, request, struct.pack("256s", interface.encode()[:15]))
        except OSError:
            return None


def interfaces():
    """{name: IPv4 address} of what is up, has a cable and an address; the loop-back is none."""
    addresses = {}
    for _index, name in socket.if_nameindex():
        flags, address = ask_kernel(SIOCGIFFLAGS, name), ask_kernel(SIOCGIFADDR, name)
        if flags is None or address is None or name == "lo":
            continue
        if struct.unpack("H", flags[16:18])[0] & UP_AND_RUNNING == UP_AND_RUNNING:
            addresses[name] = socket.inet_ntoa(address[20:24])
    return addresses


def fast(name):
    try:
        with open(f"/sys/class/net/{name}/type") as stream:
            if int(stream.read()) == ARPHRD_INFINIBAND:
                return True
    except (OSError, ValueError):
        pass
    return name.startswith(FAST_NAMES)


def fastest_first(names):
    return sorted(names, key=lambda name: (not fast(name), name))


def bind_to(probe, name, source):
    """Send over one interface only. Kernels before 5.7 keep that for root; the source address then has to do."""
    with contextlib.suppress(OSError):
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name.encode())
    probe.bind((source, 0))


def carries(name, source, target):
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


def usable(own, own_name, heads, folder):
    """{first node: own interfaces that reach it, the fast ones first} for each node that may become the first one."""
    names = fastest_first(own)
    deadline = time.monotonic() + HEAD_SECONDS
    interfaces_of = {}
    for head in heads:
        if head == own_name:
            interfaces_of[head] = names
            continue
        addresses = await_document(os.path.join(folder, head + ".addresses"), deadline) or {}
        interfaces_of[head] = [
            name for name in names if name in addresses and carries(name, own[name], addresses[name])
        ]
    return interfaces_of


def free_port(job):
    """MASTER_PORT, were this the first node: the starting point of the job or step (JOB.STEP), as job.sh has it, then
    what nobody uses here.
    """
    job_id, _dot, step = job.partition(".")
    start, used = int(job_id) * 37 + int(step or 0) * 101, set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(path) as stream:
            used |= {int(line.split()[1].rsplit(":", 1)[1], 16) for line in list(stream)[1:]}
    candidates = (FIRST_PORT + (start + attempt) % PORTS for attempt in range(PORTS))
    return next((port for port in candidates if port not in used), None)
