# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cluster allows a user: settings, partitions, associations and QOS. The answers are cached.

All of this is optional. A site may hide it (PrivateData), keep no accounting, or have a slurmdbd that is down. What
could not be read becomes a sentence in `unknown`, never an error. Sources: scontrol(1), sacctmgr(1), slurm.conf(5).
"""

from __future__ import annotations

import contextlib
import grp
import json
import os
import pwd
import socket
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm

# Seconds for which a cached answer may let a launch pass. A launch is never refused based on a cached answer.
FRESH_SECONDS = 600.0
ASK_SECONDS = 15.0

SETTINGS = (
    *("AccountingStorageEnforce", "AccountingStorageType", "ClusterName", "EnforcePartLimits", "JobRequeue"),
    *("KillWait", "MaxArraySize", "PreemptMode", "PreemptType", "PrivateData", "SchedulerParameters"),
    *("TopologyPlugin",),
)
ASSOCIATION = (
    *("User", "DefaultAccount", "Account", "Partition", "QOS", "DefaultQOS", "MaxWall", "MaxTRES"),
    *("MaxTRESPerNode", "GrpTRES", "MaxSubmit", "GrpSubmit", "MaxTRESMins", "GrpTRESMins"),
)
QOS = (
    *("Name", "Flags", "MaxWall", "MaxTRES", "MaxTRESPerNode", "MaxTRESPerUser", "MaxTRESPerAccount", "GrpTRES"),
    *("MinTRES", "MaxSubmitJobsPerUser", "MaxSubmitJobsPerAccount", "GrpSubmit", "MaxTRESMins", "GrpTRESMins"),
)


@dataclass(frozen=True)
class Knowledge:
    """Raw rows as Slurm printed them: settings, partitions and QOS by name, the user's associations.

    `associations` and `qos` are None if they are unknown, or if this cluster enforces none of them.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    associations: tuple[Mapping[str, str], ...] | None = None
    qos: Mapping[str, Mapping[str, str]] | None = None
    unknown: tuple[str, ...] = ()

    def enforces(self, what: str) -> bool:
        """Return whether Slurm enforces associations, limits or qos (AccountingStorageEnforce)."""
        words = self.settings.get("AccountingStorageEnforce", "").lower().split(",")
        # slurm.conf(5): limits implies associations, safe implies both, and so on.
        implied = {"associations": {"associations", "limits", "safe", "wckeys"}, "limits": {"limits", "safe"}}
        return bool(({what, "all"} | implied.get(what, set())) & set(words))


def whoami() -> tuple[str, frozenset[str]]:
    """Return the user's name and the names of all the user's groups on this host."""
    names = set()
    for number in {*os.getgroups(), os.getgid()}:
        with contextlib.suppress(KeyError):
            names.add(grp.getgrgid(number).gr_name)
    try:
        return pwd.getpwuid(os.getuid()).pw_name, frozenset(names)
    except KeyError:
        return str(os.getuid()), frozenset(names)


class _Asking:
    """Runs commands that may fail. A failure is recorded in `unknown`."""

    def __init__(self, slurm: Slurm) -> None:
        self.slurm = slurm
        self.unknown: list[str] = []

    def __call__(self, what: str, program: str, *arguments: str) -> str | None:
        if self.slurm.find(program) is None:
            self.unknown.append(f"{what}: {program} is not on {socket.gethostname()}")
            return None
        answer = self.slurm.attempt(program, *arguments, timeout=ASK_SECONDS)
        if answer.rc != 0:
            self.unknown.append(f"{what}: {program} {'gave no answer' if answer.timed_out else answer.complaint}")
            return None
        return answer.stdout


def query_limits(slurm: Slurm, user: str) -> Knowledge:
    """Ask Slurm for everything: two commands, and two more if the cluster enforces accounts, QOS or limits."""
    answer = _Asking(slurm)
    config = parse.parse_config(answer("settings", "scontrol", "show", "config") or "")
    # --all includes partitions of other groups, which scontrol hides otherwise.
    shown = answer("who may use a partition", "scontrol", "--all", "--oneliner", "show", "partition") or ""
    charged = accounts(slurm, user, config)
    return Knowledge(
        settings={name: config[name] for name in SETTINGS if name in config},
        partitions=parse_partitions(shown),
        associations=charged.associations,
        qos=charged.qos,
        unknown=(*answer.unknown, *charged.unknown),
    )


def accounts(slurm: Slurm, user: str, config: Mapping[str, str]) -> Knowledge:
    """Read the user's associations and every QOS with two commands. Runs none if the cluster enforces nothing."""
    if config.get("AccountingStorageEnforce", "none").lower() in ("", "none") or config.get(
        "AccountingStorageType", ""
    ).endswith("/none"):
        return Knowledge()
    answer = _Asking(slurm)
    table = ("--noheader", "--parsable2", "show")
    selection = (
        "user",
        user,
        "withassoc",
        f"cluster={config.get('ClusterName', '')}",
        f"format={','.join(ASSOCIATION)}",
    )
    rows = answer(f"accounts of {user}", "sacctmgr", *table, *selection)
    # A user without an association on this cluster has one row with empty fields.
    associations = None if rows is None else tuple(row for row in parse_table(rows, ASSOCIATION) if row["Account"])
    rows = answer("limits of each QOS", "sacctmgr", *table, "qos", f"format={','.join(QOS)}")
    qos = None if rows is None else {row["Name"]: row for row in parse_table(rows, QOS)}
    return Knowledge(associations=associations, qos=qos, unknown=tuple(answer.unknown))


def parse_partitions(text: str) -> dict[str, dict[str, str]]:
    """Parse `scontrol --oneliner show partition` into blocks by partition name."""
    blocks = parse.parse_blocks(text.replace("\n", "\n\n"))
    return {block["PartitionName"]: block for block in blocks if "PartitionName" in block}


def parse_table(text: str, columns: tuple[str, ...]) -> list[dict[str, str]]:
    """Parse rows of `sacctmgr --parsable2`: names of accounts and QOS contain no pipe. Malformed lines are ignored."""
    rows = (line.split("|") for line in text.splitlines())
    return [dict(zip(columns, values)) for values in rows if len(values) == len(columns)]


def cache_file(folder: str, environment: Mapping[str, str], user: str) -> str:
    """Return the path of one user's cache for one cluster. Several hosts and configurations may share the folder."""
    configuration = environment.get("SLURM_CONF", "") + environment.get("SLURM_CONF_SERVER", "")
    number = zlib.crc32(f"{socket.gethostname()} {configuration}".encode())
    return os.path.join(folder, f"{user}.{number:08x}.json")


def remembered(path: str, now: float) -> Knowledge | None:
    """Return fresh cached knowledge, else None. Raises `Untrusted` if another user could have written it."""
    folder, name = os.path.split(path)
    document = state_files.document(
        state_files.own(os.path.dirname(folder)), os.path.join(os.path.basename(folder), name)
    )
    if document is None:
        return None
    try:
        if not 0 <= now - float(document["time"]) <= FRESH_SECONDS:
            return None
        kept = document["knowledge"]
        known = Knowledge(
            settings=dict(kept["settings"]),
            partitions=dict(kept["partitions"]),
            associations=None if kept["associations"] is None else tuple(kept["associations"]),
            qos=kept["qos"],
            unknown=tuple(kept["unknown"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return known


def remember(path: str, known: Knowledge, now: float) -> None:
    """Cache the knowledge for the next launch. A folder that cannot be written is ignored."""
    with contextlib.suppress(OSError):
        state_files.write(path, json.dumps({"time": now, "knowledge": asdict(known)}))


class Informed:
    """Knowledge of one cluster, from the cache if that is fresh. With `folder` None nothing is cached."""

    def __init__(self, slurm: Slurm, user: str, folder: str | None, *, clock: Callable[[], float] = time.time) -> None:
        self.slurm = slurm
        self.user = user
        self.path = cache_file(folder, slurm.environment, user) if folder else None
        self.clock = clock
        self.from_memory = False
        self._fresh: Knowledge | None = None

    def recall(self) -> Knowledge:
        """Return the cached knowledge if it is fresh; otherwise ask Slurm."""
        known = remembered(self.path, self.clock()) if self.path else None
        self.from_memory = known is not None
        return known or self.afresh()

    def afresh(self) -> Knowledge:
        """Ask Slurm, regardless of the cache. Runs several Slurm commands."""
        self._fresh = query_limits(self.slurm, self.user)
        self.from_memory = False
        return self._fresh

    def setting(self, name: str) -> str | None:
        """Return one of SETTINGS. If the cache lacks it, Slurm is asked."""
        known = self._fresh or self.recall()
        if name not in known.settings and self.from_memory:
            known = self.afresh()
        return known.settings.get(name)

    def keep(self) -> None:
        """Cache the answers after a launch has passed the checks. A refused launch caches nothing."""
        if self.path and self._fresh:
            remember(self.path, self._fresh, self.clock())
