# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's Slurm configuration as text. Pure; keys and meanings from slurm.conf(5), gres.conf(5), slurmdbd.conf(5)."""

from __future__ import annotations

import dataclasses

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import profile
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab, Partition

CONTROLLER_PORT, DATABASE_PORT, NODE_PORT = 6817, 6819, 6818  # Slurm's own defaults


# slurmd loads a cgroup plugin even if no other plugin asks for control groups. This one then reads no mounted
# hierarchy, while automatic selection fails on hosts that mount both versions.
_CGROUP_CONF = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n"
# Newer releases can disable the plugin, and do not know CgroupAutomount: cgroup.conf(5) of 24.11.
_NO_CGROUPS = "CgroupPlugin=disabled\n"


@dataclasses.dataclass(frozen=True)
class Host:
    """What the configuration needs to know about the machine. Hostname, user and ports are used only in the simple way.

    `features`: what the machine can do for the lab's profile, from profile.probe. `sftp_server`: path of the program.
    """

    hostname: str
    user: str = "slurm"
    port_block: int = 0
    socket_directory: str = ""
    features: dict[str, bool | str] = dataclasses.field(default_factory=dict)
    sftp_server: str = ""

    @property
    def munge_socket(self) -> str:
        """The socket on which the lab's munged listens."""
        return f"{self.socket_directory}/munge.socket"


# Lines of topology.conf among those of `slurm_conf`.
_TOPOLOGY = ("SwitchName=", "BlockName=", "BlockSizes=")


def render(lab: Lab, host: Host) -> dict[str, str]:
    """File name -> text of every file in the lab's /etc/slurm (or <directory>/etc/slurm)."""
    files = {"slurm.conf": _slurm_conf(lab, host), "gres.conf": _gres_conf(lab), "cgroup.conf": _cgroup_conf(lab)}
    topology = [line for line in lab.slurm_conf if line.startswith(_TOPOLOGY)]
    if topology:
        files["topology.conf"] = "\n".join(topology) + "\n"
    files.update(profile.files(lab, host.features))
    if lab.accounting == "slurmdbd":
        files["slurmdbd.conf"] = _slurmdbd_conf(lab, host)
    return files


def setting(lab: Lab, name: str) -> str:
    """The value of a line of slurm.conf in the lab's options; empty if there is none."""
    values = (line.partition("=") for line in lab.slurm_conf)
    return next((value for key, _equals, value in values if key == name), "")


def _cgroup_conf(lab: Lab) -> str:
    return _NO_CGROUPS if lab.root else _CGROUP_CONF


def _text(pairs: list[tuple[str, object]]) -> list[str]:
    return [f"{key}={value}" for key, value in pairs]


def _bracket(first: int, last: int, width: int = 0) -> str:
    """Slurm's range notation; a single element needs no brackets."""
    if first == last:
        return f"{first:0{width}d}"
    return f"[{first:0{width}d}-{last:0{width}d}]"


def _slurm_conf(lab: Lab, host: Host) -> str:
    realistic = lab.realistic
    # cred_expire: a requeued job otherwise waits about two minutes for its old credential to expire.
    authinfo = "cred_expire=5" if realistic else f"socket={host.munge_socket},cred_expire=5"
    controller = f"head({lab.address('head')})" if realistic else f"{host.hostname}(127.0.0.1)"
    spool = "/var/spool/slurmd" if realistic else lab.path("spool", "%n")
    pairs: list[tuple[str, object]] = [
        ("ClusterName", lab.cluster_name),
        ("SlurmctldHost", controller),
        ("SlurmctldPort", CONTROLLER_PORT if realistic else host.port_block),
        ("SlurmUser", host.user),
        ("SlurmdUser", "root" if realistic else host.user),
        ("AuthType", "auth/munge"),
        ("AuthInfo", authinfo),
        ("CredType", "cred/munge"),
        ("StateSaveLocation", lab.path("state")),
        ("SlurmctldPidFile", lab.path("state", "slurmctld.pid")),
        ("SlurmctldLogFile", lab.path("log", "head", "slurmctld.log")),
        ("SlurmdSpoolDir", spool),
        ("SlurmdPidFile", "/run/slurmd.pid" if realistic else lab.path("spool", "%n.pid")),
        ("SlurmdLogFile", "/var/log/slurm/slurmd.log" if realistic else lab.path("log", "%n", "slurmd.log")),
        # The nodes advertise more than the machine that runs them has.
        ("SlurmdParameters", "config_overrides"),
        ("ProctrackType", "proctrack/linuxproc"),
        ("TaskPlugin", "task/none"),
        ("JobAcctGatherType", "jobacct_gather/linux"),
        ("JobAcctGatherFrequency", 5),
        ("SelectType", "select/cons_tres"),
        ("SelectTypeParameters", "CR_Core_Memory"),
        ("DefMemPerCPU", max(1, lab.memory // lab.cpus)),
        ("SwitchType", "switch/none"),
        ("MpiDefault", "none"),
        ("ReturnToService", 2),
        ("SlurmdTimeout", 6),
        ("SlurmctldTimeout", 10),
        ("InactiveLimit", 0),
        ("KillWait", 3),
        ("MinJobAge", 300),
        # As on a cluster that has run for years: what is too long for a path, a port or a column shows here.
        ("FirstJobId", 1_000_001),
        ("MaxArraySize", 5001),
        ("MaxJobCount", 20000),
        ("RebootProgram", "/bin/true"),
        ("MailProg", "/bin/true"),
        ("SchedulerParameters", "batch_sched_delay=0,bf_interval=2,sched_interval=2,sched_min_interval=0"),
    ]
    kinds = [*(["gpu"] if lab.gpus else []), *(gres.partition(":")[0] for gres in lab.gres)]
    if kinds:
        pairs.append(("GresTypes", ",".join(kinds)))
    pairs.extend(_accounting(lab, host))
    if any(partition.priority != lab.partitions[0].priority for partition in lab.partitions):
        pairs += [("PreemptType", "preempt/partition_prio"), ("PreemptMode", "REQUEUE")]
    # The profile's settings replace those above or are added to them, and lines of the lab's options replace both.
    settled = {**dict(pairs), **dict(profile.settings(lab, host.features))}
    lines = _text([(name, value) for name, value in settled.items() if not setting(lab, name)])
    lines.append(_node_line(lab, host))
    default = next((partition for partition in lab.partitions if partition.default), lab.partitions[0])
    lines.extend(_partition_line(partition, partition is default) for partition in lab.partitions)
    lines.extend(line for line in lab.slurm_conf if not line.startswith(_TOPOLOGY))
    return "\n".join(lines) + "\n"


def _partition_line(partition: Partition, default: bool) -> str:
    return (
        f"PartitionName={partition.name} Nodes=ALL Default={'YES' if default else 'NO'}"
        f" MaxTime={partition.max_time} State=UP{_preemption(partition)}"
    )


def _preemption(partition: Partition) -> str:
    words = f" PriorityTier={partition.priority}" if partition.priority != 1 else ""
    return words + (f" GraceTime={partition.grace_time}" if partition.grace_time else "")


def _accounting(lab: Lab, host: Host) -> list[tuple[str, object]]:
    if lab.accounting == "none":
        return [
            ("AccountingStorageType", "accounting_storage/none"),
            ("JobCompType", "jobcomp/filetxt"),
            ("JobCompLoc", lab.path("log", "head", "jobcomp.log")),
        ]
    pairs: list[tuple[str, object]] = [
        ("AccountingStorageType", "accounting_storage/slurmdbd"),
        ("AccountingStorageHost", "head" if lab.realistic else "127.0.0.1"),
        ("AccountingStoragePort", DATABASE_PORT if lab.realistic else host.port_block + 1),
        ("JobCompType", "jobcomp/none"),
    ]
    if lab.gpus:
        pairs.append(("AccountingStorageTRES", "gres/gpu"))
    if lab.job_comments:
        pairs.append(("AccountingStoreFlags", "job_comment"))
    if not lab.realistic:
        pairs.append(("AccountingStoragePass", host.munge_socket))
    return pairs


def _node_line(lab: Lab, host: Host) -> str:
    width = 2
    line = f"NodeName=node{_bracket(1, lab.nodes, width)}"
    if lab.realistic:
        addresses = [lab.address(name) for name in (lab.node_names[0], lab.node_names[-1])]
        prefix, first = addresses[0].rsplit(".", 1)
        line += f" NodeAddr={prefix}.{_bracket(int(first), int(addresses[1].rsplit('.', 1)[1]))} Port={NODE_PORT}"
    else:
        ports = _bracket(host.port_block + 10, host.port_block + 9 + lab.nodes)
        line += f" NodeAddr=127.0.0.1 NodeHostname={host.hostname} Port={ports}"
    line += f" CPUs={lab.cpus} Sockets=1 CoresPerSocket={lab.cpus} ThreadsPerCore=1 RealMemory={lab.memory}"
    gpus = [f"gpu:{lab.gpu_type + ':' if lab.gpu_type else ''}{lab.gpus}"] if lab.gpus else []
    if gpus or lab.gres:
        line += f" Gres={','.join((*gpus, *lab.gres))}"
    return line + " State=UNKNOWN"


def _gres_conf(lab: Lab) -> str:
    """gres.conf. Slurm does not accept a bare count, so each GPU is a file: a device, or a link to /dev/null."""
    counted = (gres.split(":") for gres in lab.gres)
    others = "".join(f"Name={name} Count={count} Flags=CountOnly\n" for name, count in counted)
    if not lab.gpus:
        return "# no GPUs\n" + others
    directory = "/dev" if lab.realistic else lab.path("dev")
    kind = f" Type={lab.gpu_type}" if lab.gpu_type else ""
    return f"Name=gpu{kind} File={directory}/nvidia{_bracket(0, lab.gpus - 1)}\n" + others


def _slurmdbd_conf(lab: Lab, host: Host) -> str:
    pairs: list[tuple[str, object]] = [
        ("AuthType", setting(lab, "AuthType") or "auth/munge"),
        ("DbdHost", "head" if lab.realistic else host.hostname),
        ("DbdAddr", lab.address("head") if lab.realistic else "127.0.0.1"),
        ("DbdPort", DATABASE_PORT if lab.realistic else host.port_block + 1),
        ("SlurmUser", host.user),
        ("PidFile", lab.path("state", "slurmdbd.pid")),
        ("LogFile", lab.path("log", "head", "slurmdbd.log")),
        ("StorageType", "accounting_storage/mysql"),
        ("StorageHost", "localhost"),
        ("StorageUser", host.user),
        ("StorageLoc", "slurm_acct_db"),
    ]
    if not lab.realistic:
        pairs.insert(1, ("AuthInfo", f"socket={host.munge_socket}"))
    return "\n".join(_text(pairs)) + "\n"
