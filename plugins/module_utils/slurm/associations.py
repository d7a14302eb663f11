# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check account, QOS and their limits for one request: what Slurm would refuse, or hold in the queue forever. Pure.

If a limit is set at several levels, the first one applies: the partition's QOS, the job's QOS, the association (with
OverPartQOS the job's QOS comes first). Source: resource_limits, sacctmgr(1), AccountingStorageEnforce in slurm.conf(5).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.likeness import suggestion
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.partitions import clock
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.site_limits import Knowledge

# sacctmgr's columns with upper limits for a job, and the subject of each limit in a sentence. A limit for all jobs of a
# user, an account or a group also limits each single job.
MOST_OF_A_JOB = {
    "MaxTRES": "a job",
    "MaxTRESPerUser": "a user",
    "MaxTRESPerAccount": "an account",
    "GrpTRES": "all its jobs together",
}
# The same for minutes of a resource: amount x time.
MOST_MINUTES = {"MaxTRESMins": "a job", "GrpTRESMins": "all its jobs together"}
# Trackable resource -> (option to change, name of the resource).
ASKED = {
    "node": ("resources.nodes", "nodes"),
    "cpu": ("resources.cpus_per_rank", "CPUs"),
    "gres/gpu": ("resources.gpus_per_node", "GPUs"),
    "mem": ("resources.memory", "MiB of memory"),
}


@dataclass(frozen=True)
class Charge:
    """The account and QOS that a job would run under. None: unknown."""

    account: str | None
    qos: str | None
    association: Mapping[str, str] | None = None


def _known(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _near(name: str, names: Sequence[str]) -> str:
    return suggestion(name, names) or "."


def charge(
    known: Knowledge, user: str, *, account: str | None, qos: str | None, partition: str | None
) -> tuple[Charge, list[str]]:
    """Return the account and QOS of a request, and a sentence for each problem with them."""
    rows = known.associations
    if rows is None:
        return Charge(account, qos), []
    own_rows = [row for row in rows if row["Partition"] in ("", partition)]
    accounts = sorted({row["Account"] for row in own_rows})
    enforced = known.enforces("associations")
    if not own_rows:
        if not enforced:
            return Charge(account, qos), []
        where = "this cluster" if not rows else f"partition {partition}"
        return Charge(account, qos), [f"resources.account: the user {user} has no account on {where}; ask its staff."]
    used = account or next((row["DefaultAccount"] for row in own_rows if row["DefaultAccount"]), None)
    if used not in accounts:
        if account is None or not enforced:
            return Charge(used, qos), []
        sentence = f"resources.account: {account!r} is not an account of {user} here{_near(account, accounts)}"
        return Charge(account, qos), [f"{sentence} Yours: {_known(accounts)}."]
    # An association for this partition takes precedence over the one for all partitions.
    association = sorted((row for row in own_rows if row["Account"] == used), key=lambda row: not row["Partition"])[0]
    allowed = [name for name in association["QOS"].split(",") if name]
    default = association["DefaultQOS"] or (
        "normal" if "normal" in allowed else allowed[0] if len(allowed) == 1 else None
    )
    chosen = qos or default
    if qos is not None and qos not in allowed and known.enforces("qos"):
        known_at_all = known.qos is None or qos in known.qos
        what = f"is not open to account {used}" if known_at_all else "is not a QOS of this cluster"
        sentence = f"resources.qos: {qos!r} {what}{_near(qos, allowed)} Open to it: {_known(allowed)}."
        return Charge(used, None, association), [sentence]
    return Charge(used, chosen, association), []


def _amounts(text: str) -> dict[str, int]:
    """Parse amounts such as gres/gpu=4,node=2,mem=64G into numbers; memory in MiB."""
    amounts = {}
    for part in text.split(","):
        name, _equals, value = part.partition("=")
        count = parse.parse_count(value) if name else None
        if count is not None:
            # Without a unit, sacctmgr means MiB.
            amounts[name] = count // 2**20 if name == "mem" and value[-1].isalpha() else count
    return amounts


def holders(known: Knowledge, who: Charge, partition_qos: str | None) -> list[tuple[str, Mapping[str, str]]]:
    """Return the holders of limits for the job, strongest first: (name in a sentence, row of sacctmgr)."""
    rows = known.qos or {}
    ordered: list[tuple[str, Mapping[str, str]]] = []
    if partition_qos in rows:
        ordered.append((f"QOS {partition_qos} of the partition", rows[str(partition_qos)]))
    if who.qos in rows:
        qos_row = (f"QOS {who.qos}", rows[str(who.qos)])
        ordered.insert(0 if "OverPartQOS" in qos_row[1]["Flags"] else len(ordered), qos_row)
    if who.association:
        ordered.append((f"the association of account {who.account}", who.association))
    return ordered


def overridden(known: Knowledge, who: Charge) -> frozenset[str]:
    """Return the limits of the partition that the job's QOS lifts (flags PartitionTimeLimit, PartitionMaxNodes ...)."""
    row = (known.qos or {}).get(who.qos or "")
    return frozenset(row["Flags"].split(",")) if row else frozenset()


def over_limits(
    known: Knowledge,
    who: Charge,
    partition_qos: str | None,
    *,
    asked: Mapping[str, int],
    per_node: Mapping[str, int],
    time_seconds: float | None,
) -> Iterator[str]:
    """Yield a sentence for each limit that this job alone exceeds. `asked`, `per_node`: resource (TRES) -> amount."""
    if not known.enforces("limits"):
        return
    seen: set[str] = set()
    for holder, row in holders(known, who, partition_qos):
        wall = parse.parse_duration(row["MaxWall"])
        if wall is not None and "wall" not in seen:
            seen.add("wall")
            if time_seconds is not None and time_seconds > wall:
                yield f"resources.time: {clock(round(time_seconds))} asked, {holder} allows at most {clock(wall)}."
        for column, whose in [*MOST_OF_A_JOB.items(), ("MaxTRESPerNode", "a node")]:
            amounts = per_node if column == "MaxTRESPerNode" else asked
            for name, most in _amounts(row.get(column, "")).items():
                if f"{column} {name}" in seen:
                    continue
                seen.add(f"{column} {name}")
                if amounts.get(name, 0) > most:
                    path, what = _asked(name)
                    yield f"{path}: {amounts[name]} {what} asked, {holder} allows at most {most} for {whose}."
        yield from _over_minutes(row, holder, asked, time_seconds, seen)
        for name, least in _amounts(row.get("MinTRES", "")).items():
            if name in asked and asked[name] < least:
                path, what = _asked(name)
                yield f"{path}: {asked[name]} {what} requested, but {holder} requires at least {least} per job."


def _over_minutes(
    row: Mapping[str, str], holder: str, asked: Mapping[str, int], time_seconds: float | None, seen: set[str]
) -> Iterator[str]:
    """Yield a sentence for each limit on minutes of a resource that a job exceeds if it runs for its whole time."""
    for column, whose in MOST_MINUTES.items() if time_seconds is not None else ():
        for name, most in _amounts(row.get(column, "")).items():
            if f"{column} {name}" in seen or name not in asked:
                continue
            seen.add(f"{column} {name}")
            minutes, what = _minutes(name, asked[name], time_seconds or 0.0)
            if minutes > most:
                yield f"{what}, {holder} allows at most {most} for {whose}. Ask for less time, or for fewer of them."


def over_what_is_left(
    account: str | None, shares: Sequence[Mapping[str, str]], asked: Mapping[str, int], time_seconds: float | None
) -> Iterator[str]:
    """Yield a sentence for each limit on minutes of an account of which too little is left. `shares`: rows of sshare.

    What running jobs may still use counts, as it does for Slurm.
    """
    for row in shares if time_seconds is not None else ():
        if row["Account"].strip() != account:
            continue
        used, promised = _amounts(row["GrpTRESRaw"]), _amounts(row["TRESRunMins"])
        for name, most in _amounts(row["GrpTRESMins"]).items():
            left = max(0, most - used.get(name, 0) - promised.get(name, 0))
            minutes, what = _minutes(name, asked.get(name, 0), time_seconds or 0.0)
            if minutes > left:
                who = f"user {row['User']} in account {account}" if row["User"] else f"account {account}"
                yield (
                    f"{what}, and {left} of {most} are left to {who} (GrpTRESMins). Ask for less time, or for fewer of "
                    "them, or have the limit raised."
                )


def _minutes(name: str, count: int, seconds: float) -> tuple[float, str]:
    """Return the minutes that a job may use of a resource, and the begin of a sentence about them."""
    minutes = count * seconds / 60
    what = _asked(name)[1]
    return minutes, f"resources.time: {count} {what} for {clock(round(seconds))} are {minutes:.0f} minutes of them"


def _asked(name: str) -> tuple[str, str]:
    if name in ASKED:
        return ASKED[name]
    if name.startswith("gres/gpu:"):
        return ("resources.gpus_per_node", f"{name.rpartition(':')[2]} GPUs")
    return ("resources.gres", name.partition("/")[2])


def over_count(
    known: Knowledge, who: Charge, partition_qos: str | None, jobs: Sequence[tuple[str, str]]
) -> Iterator[str]:
    """Yield a sentence for each limit on queued jobs that is reached. `jobs`: (account, QOS) of the user's jobs."""
    if not known.enforces("limits"):
        return
    for holder, row in holders(known, who, partition_qos):
        if "MaxSubmit" in row:
            most, mine = row["MaxSubmit"], [job for job in jobs if job[0] == who.account]
        else:
            most, mine = row["MaxSubmitJobsPerUser"], [job for job in jobs if holder.split()[1] == job[1]]
        limit = parse.parse_count(most)
        if limit is not None and len(mine) >= limit:
            yield f"you have {len(mine)} jobs in the queue, and {holder} allows {limit} at once; wait, or cancel one."
