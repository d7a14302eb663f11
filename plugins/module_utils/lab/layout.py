# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of one lab, and everything derived from them (paths, addresses, ports).

Pure except for `from_options`, which asks who runs it. Two instances never conflict: every path is below the instance's
own directory, the network exists only inside the lab's own namespaces, and the ports of the simple way come from a
block derived from the directory.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import pwd
import re
import zlib
from collections.abc import Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import release

NAME = re.compile(r"[a-z][a-z0-9-]{0,30}\Z")
PARTITION_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,30}\Z")
WAYS = ("realistic", "simple")
ACCOUNTING = ("slurmdbd", "none")
# One machine runs them all. Nodes of their own have addresses for so many; those that share the host have ports.
MOST_NODES = {"realistic": 80, "simple": 1024}
# What is shared, as the head and the nodes see it. On a site it is as long as such paths are: what is too long for a
# socket or an argument shows.
SHARED = "/shared"
SITE_SHARED = "/lustre/fsw/portfolios/research/projects/research_foundation_models/users"
SOCKET_LIMIT = 100  # a unix socket's path must fit into 108 bytes; the rest is room for variants of the file name


@dataclasses.dataclass(frozen=True)
class Partition:
    """A partition that contains all nodes. `max_time` is in slurm.conf's notation (minutes or D-HH:MM:SS).

    Jobs of a higher `priority` preempt those of a lower one, which then have `grace_time` seconds.
    """

    name: str
    max_time: str = "UNLIMITED"
    default: bool = False
    priority: int = 1
    grace_time: int = 0


DEFAULT_PARTITIONS = (Partition("batch", "UNLIMITED", True), Partition("short", "01:00:00"))
SITE_PARTITIONS = (Partition("batch", "1-00:00:00", True, grace_time=15), Partition("urgent", "01:00:00", priority=10))


@dataclasses.dataclass(frozen=True)
class Lab:
    """One instance. `way` is resolved (never "auto"), `directory` is absolute, memory is in MiB per node."""

    name: str
    directory: str
    way: str = "realistic"
    nodes: int = 8
    cpus: int = 16
    memory: int = 64000
    gpus: int = 8
    accounting: str = "slurmdbd"
    job_comments: bool = False
    internet: bool = True
    partitions: tuple[Partition, ...] = DEFAULT_PARTITIONS
    slurm_conf: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()
    profile: str = "friendly"
    gpu_type: str = ""
    gres: tuple[str, ...] = ()
    slurm: str = release.HOST

    @property
    def root(self) -> str:
        """The root file system of head and nodes where it differs from the host's; otherwise ""."""
        return release.RELEASES[self.slurm].root if self.slurm in release.RELEASES else ""

    @property
    def site(self) -> bool:
        """Whether this is a lab of profile site; see profile.py."""
        return self.profile == "site"

    @property
    def group(self) -> str:
        """The name of the lab's control groups."""
        return f"rankzero-lab-{self._hash:08x}"

    @property
    def realistic(self) -> bool:
        """Whether the nodes have their own namespaces and so behave like separate machines."""
        return self.way == "realistic"

    @property
    def node_names(self) -> list[str]:
        """The names of the nodes: node01 and so on."""
        return [f"node{number:02d}" for number in range(1, self.nodes + 1)]

    @property
    def cluster_name(self) -> str:
        """Slurm's ClusterName: unique for each directory, so that job records of two labs are never mixed up."""
        return f"{self.name}-{self._hash % 0xFFFF:04x}"

    @property
    def _hash(self) -> int:
        return zlib.crc32(self.directory.encode())

    # Addresses: one /16 per instance out of 10.64.0.0/10; .0 is management (eth0), .1 is the fabric (ib0).

    def subnet(self, interface: str) -> ipaddress.IPv4Network:
        """The network of `interface` ("eth0" or "ib0")."""
        return ipaddress.IPv4Network(f"10.{64 + self._hash % 64}.{_INTERFACES.index(interface)}.0/24")

    def address(self, host: str, interface: str = "eth0") -> str:
        """The IPv4 address of `host` ("head" or a node). The head has none on the fabric: login nodes rarely do."""
        offset = 1 if host == "head" else 10 + self.node_names.index(host) + 1
        return str(self.subnet(interface)[offset])

    # Ports (simple way only, where the nodes share the host; the realistic way uses Slurm's own ports).

    @property
    def ports(self) -> int:
        """How many ports there are: whole hundreds, of which the first ten are those of the head."""
        return -(-(10 + self.nodes) // 100) * 100

    def port_block(self, attempt: int = 0) -> int:
        """The first of the ports, all below the ephemeral range. `attempt` n selects the n-th alternative block."""
        return 10000 + ((self._hash + attempt * 37) % (221 - self.ports // 100)) * 100

    # Paths on the host.

    def path(self, *parts: str) -> str:
        """A path below the lab's directory."""
        return "/".join((self.directory, *parts))

    @property
    def shared(self) -> str:
        """The shared directory as the host sees it."""
        return self.path("shared")

    @property
    def shared_inside(self) -> str:
        """The shared directory as the head and the nodes see it."""
        if not self.realistic:
            return self.shared
        return SITE_SHARED if self.site else SHARED

    @property
    def marker(self) -> str:
        """The source of the lab's tmpfs mounts: a process with such a mount belongs to this lab."""
        return f"rankzero-lab:{self.directory}"

    def socket_directory(self, uid: int) -> str:
        """The directory of the unix sockets: in the lab's directory, or in /tmp if that path would be too long."""
        own = self.path("run")
        return own if len(own) + len("/munge.socket.2") <= SOCKET_LIMIT else f"/tmp/rankzero-lab-{uid}-{self._hash:08x}"


_INTERFACES = ("eth0", "ib0")


def processors() -> int:
    """The number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def default_directory(name: str, uid: int, home: str) -> str:
    """The default directory of an instance."""
    return f"/var/lib/rankzero-lab/{name}" if uid == 0 else f"{home}/.local/share/rankzero-lab/{name}"


def _problem(option: str, value: object, allowed: str) -> str:
    return f"{option}: {value!r} is not allowed; {allowed}"


def check(lab: Lab, uid: int) -> None:
    """Raise one RankzeroError that names every invalid option of `lab`."""
    problems = []
    if not NAME.match(lab.name):
        problems.append(
            _problem("name", lab.name, "use lower-case letters, digits and '-', at most 31, a letter first")
        )
    if not lab.directory.startswith("/") or re.search(r"[\s'\"\\,:]", lab.directory):
        # Slurm's files have no quoting, and overlay options are split at ',' and ':'.
        problems.append(_problem("directory", lab.directory, "an absolute path without spaces, quotes, ',' and ':'"))
    for option, least, most in (
        ("nodes", 1, MOST_NODES.get(lab.way, 0) or min(MOST_NODES.values())),
        ("cpus", 1, 1024),
        ("memory", 256, 16777216),
        ("gpus", 0, 16),
    ):
        value = getattr(lab, option)
        if not least <= value <= most:
            problems.append(_problem(option, value, f"allowed are {least} to {most}"))
    if lab.accounting not in ACCOUNTING:
        problems.append(_problem("accounting", lab.accounting, "allowed are " + ", ".join(ACCOUNTING)))
    if lab.way not in WAYS:
        problems.append(_problem("way", lab.way, "allowed are auto, " + ", ".join(WAYS)))
    elif lab.realistic and uid != 0:
        problems.append(_problem("way", lab.way, "namespaces of this kind need root; become root or use way=simple"))
    if lab.slurm not in release.CHOICES:
        problems.append(_problem("slurm", lab.slurm, "allowed are " + ", ".join(release.CHOICES)))
    elif lab.root and lab.way == "simple":
        problems.append(
            _problem("slurm", lab.slurm, "another Slurm than the host's needs way=realistic, which needs root")
        )
    if lab.site and not lab.realistic:
        problems.append(_problem("profile", lab.profile, "it needs nodes of their own: way=realistic, as root"))
    if lab.site and lab.cpus > processors():
        problems.append(
            _problem("cpus", lab.cpus, f"profile site binds ranks to real cores; this machine has {processors()}")
        )
    if not re.match(r"[A-Za-z0-9_.-]*\Z", lab.gpu_type):
        problems.append(_problem("gpu_type", lab.gpu_type, "use letters, digits, '_', '.' and '-', such as h100"))
    for gres in lab.gres:
        if not re.match(r"(?!gpu:)[a-z][a-z0-9_]*:[1-9]\d{0,8}\Z", gres):
            problems.append(_problem("gres", gres, "write NAME:COUNT, such as lscratch:500; GPUs are option gpus"))
    problems.extend(_partition_problems(lab.partitions))
    problems.extend(_line_problems("slurm_conf", lab.slurm_conf))
    share = SITE_SHARED if lab.site else SHARED
    for bind in lab.binds:
        below, above = f"{bind}/".startswith(f"{share}/"), share.startswith(f"{bind.rstrip('/')}/")
        if not bind.startswith("/") or below or above:
            problems.append(
                _problem("binds", bind, f"an absolute path of a host directory, neither above nor below {share}")
            )
    if problems:
        raise RankzeroError("lab_cluster: " + "; ".join(problems), problems=problems)


def _partition_problems(partitions: Sequence[Partition]) -> list[str]:
    problems = []
    for partition in partitions:
        if not PARTITION_NAME.match(partition.name):
            problems.append(
                _problem("partitions", partition.name, "a name has letters, digits, '_' and '-', a letter first")
            )
        if not re.match(r"(UNLIMITED|INFINITE|[0-9]+(-[0-9]+)?(:[0-9]+){0,2})\Z", partition.max_time):
            problems.append(
                _problem("partitions.max_time", partition.max_time, "use UNLIMITED, minutes, HH:MM:SS or D-HH:MM:SS")
            )
        if partition.priority not in range(1, 65534) or partition.grace_time < 0:
            problems.append(
                _problem(
                    "partitions",
                    f"priority {partition.priority}, grace_time {partition.grace_time}",
                    "a priority is 1 to 65533, a grace_time 0 or more seconds",
                )
            )
    names = [partition.name for partition in partitions]
    if len(set(names)) != len(names) or not names:
        problems.append(_problem("partitions", names, "give at least one, each name once"))
    if sum(partition.default for partition in partitions) > 1:
        problems.append(_problem("partitions", names, "only one can be the default"))
    return problems


def _line_problems(option: str, lines: Sequence[str]) -> list[str]:
    return [
        _problem(option, line, "one Key=Value line each, without line breaks")
        for line in lines
        if "\n" in line or "=" not in line
    ]


def from_options(options: Parameters) -> Lab:
    """Build a Lab from the module's options, for the user who runs this.

    `way` may be auto and `directory` empty. Where `cpus`, `gpu_type` or `partitions` is empty, the profile decides.
    """
    uid = os.getuid()
    fields = dict(options)
    site = fields["profile"] == "site"
    fields["cpus"] = fields["cpus"] or (processors() if site else 16)
    fields["gpu_type"] = fields["gpu_type"] or ("h100" if site else "")
    usual = SITE_PARTITIONS if site else DEFAULT_PARTITIONS
    fields["partitions"] = fields["partitions"] or [dataclasses.asdict(partition) for partition in usual]
    if fields["way"] == "auto":
        fields["way"] = "realistic" if uid == 0 else "simple"
    home = pwd.getpwuid(uid).pw_dir
    fields["directory"] = (fields["directory"] or default_directory(fields["name"], uid, home)).rstrip("/")
    fields["partitions"] = tuple(Partition(**entry) for entry in fields["partitions"])
    for name in ("slurm_conf", "gres", "binds"):
        fields[name] = tuple(fields[name])
    return Lab(**fields)
