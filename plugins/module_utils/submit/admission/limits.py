# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check whether a cluster could ever run a request, before it is queued. Reports all problems at once. Pure.

sbatch accepts impossible jobs (9 of 8 nodes, a day in an hour's partition, a QOS that the partition does not accept)
with exit code 0 and leaves them pending forever. Therefore a request is compared with the limits first. A partition
without a description from scontrol is judged by sinfo alone. Sources: sinfo(1), scontrol(1), sbatch(1), slurm.conf(5).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.likeness import suggestion
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import significant
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import associations, parse
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.partitions import (
    ClusterLimits,
    NodeGroup,
    Partition,
    clock,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.site_limits import Knowledge
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.needs import A_MONTH, ResourceNeeds

# The options of launch_cluster.budget without A_MONTH, with their units, and what a refusal advises.
_HOURS = {"node_hours": "node-hours", "gpu_hours": "GPU-hours"}
_CHEAPER = (
    "Ask for fewer nodes (resources.nodes), less time (resources.time) or fewer restarts (checkpoint.max_restarts), or "
    "have the budget raised"
)


@dataclass
class Verdict:
    """The result of the checks.

    `problems`: why no partition in the request could ever run it. `notes`: warnings. `facts`: what was found.
    """

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    who: associations.Charge = field(default_factory=lambda: associations.Charge(None, None))
    partition_qos: str | None = None


def judge(
    limits: ClusterLimits | None, known: Knowledge, ask: ResourceNeeds, *, user: str, groups: frozenset[str]
) -> Verdict:
    """Return all problems of a request, in every partition that it names.

    Nodes that are down count as available: they may come back, and the queue shows that the job waits for them.
    """
    if limits is None:
        # All partitions are hidden from this user. Account and QOS can still be checked.
        return _judge_account(Verdict(), known, ask, user, ask.partition, None)
    listed = ", ".join(p.name for p in limits.partitions) or "none that you can see"
    if ask.partition is None:
        if limits.default is None:
            return Verdict(
                [f"resources.partition: not given, and this cluster has no default partition. Known: {listed}."]
            )
        candidates = [limits.default]
    else:
        candidates = []
        for name in (part.strip() for part in ask.partition.split(",")):
            partition = limits.find(name)
            if partition is None:
                hint = suggestion(name, [p.name for p in limits.partitions]) or "."
                return Verdict(
                    [f"resources.partition: {name!r} is not a partition of this cluster{hint} Known: {listed}."]
                )
            candidates.append(partition)
    verdicts = [_judge_one(candidate, known, ask, user, groups) for candidate in candidates]
    for verdict in verdicts:
        if not verdict.problems:
            return verdict
    refused = verdicts[0]
    refused.problems = list(dict.fromkeys(text for verdict in verdicts for text in verdict.problems))
    return refused


def _judge_one(
    partition: Partition, known: Knowledge, ask: ResourceNeeds, user: str, groups: frozenset[str]
) -> Verdict:
    block = known.partitions.get(partition.name, {})
    # sinfo hides nodes of a cloud that are powered down. sbatch counts them, and what they have is not known.
    members = parse.parse_count(block.get("TotalNodes", "")) or 0
    if members > partition.total_nodes:
        partition = replace(partition, hidden_nodes=members)
    verdict = Verdict(partition_qos=block.get("QoS") if block.get("QoS") not in (None, "", "N/A") else None)
    who, _problems = associations.charge(known, user, account=ask.account, qos=ask.qos, partition=partition.name)
    before = [*_closed(partition, block, ask, who, user, groups)]
    before += _misfits(partition, block, ask, associations.overridden(known, who))
    _judge_account(verdict, known, ask, user, partition.name, before)
    if (block.get("State") or partition.state).lower() == "down":
        verdict.notes.append(
            f"partition {partition.name} is down now: the job waits until an administrator sets it up again"
        )
    _window(partition, block, known, ask, verdict)
    return verdict


def _judge_account(
    verdict: Verdict,
    known: Knowledge,
    ask: ResourceNeeds,
    user: str,
    partition: str | None,
    others: Sequence[str] | None,
) -> Verdict:
    """Add the account and QOS, and problems with them and their limits, to `verdict`. `others`: other problems."""
    who, problems = associations.charge(known, user, account=ask.account, qos=ask.qos, partition=partition)
    verdict.who = who
    verdict.problems += [*over_budget(ask), *problems, *(others or [])]
    everything = amounts(ask)
    verdict.problems += associations.over_limits(
        known,
        who,
        verdict.partition_qos,
        asked=everything,
        per_node={name: amount // ask.nodes for name, amount in everything.items()},
        time_seconds=None if ask.time_minutes is None else ask.time_minutes * 60,
    )
    named = (("partition", partition), ("account", who.account), ("QOS", who.qos))
    verdict.facts.append(", ".join(f"{what} {value}" for what, value in named if value is not None))
    return verdict


def over_budget(ask: ResourceNeeds) -> Iterator[str]:
    """Yield a sentence for each limit that a launch would exceed if it used all that it asks for."""
    if not ask.budget:
        return
    minutes = ask.time_minutes
    if minutes is None:
        yield (
            "resources.time: not given, and launch_cluster.budget limits what a launch may use "
            f"({', '.join(f'{name}: {most:g}' for name, most in ask.budget.items())}). Give a time limit."
        )
        return
    nodes, of_gpus = ask.all_nodes, sum(each.nodes * each.gpus_per_node for each in ask.components)
    hours = minutes / 60 * ask.attempts
    asked = {"node_hours": ask.node_hours or 0.0, "gpu_hours": of_gpus * hours}
    factors = f"{_count(nodes, 'node')} x {significant(minutes / 60, 4)} h"
    factors += f" x {ask.attempts} attempts" if ask.attempts > 1 else ""
    for option, most in ask.budget.items():
        name = option.removesuffix(A_MONTH)
        amount, unit = asked[name], _HOURS[name]
        gpus = f" x {significant(of_gpus / nodes, 4)} GPUs a node" if name == "gpu_hours" else ""
        what, limit = f"at most {significant(amount, 4)} {unit} ({factors}{gpus})", significant(most, 6)
        if option == name and amount > most:
            yield f"launch_cluster.budget.{option}: this launch asks for {what}, and {limit} are allowed. {_CHEAPER}."
        used = ask.used.get(name, 0.0)
        if option != name and amount + used > most:
            left = significant(max(0.0, most - used), 4)
            yield (
                f"launch_cluster.budget.{option}: this launch asks for {what}. Of {limit} {unit} in this month, "
                f"{significant(used, 4)} are used or promised to launches that wait or run, and {left} are "
                f"left. {_CHEAPER}; rankzero usage shows what they went to."
            )


def amounts(ask: ResourceNeeds) -> dict[str, int]:
    """Return what a job asks for in all, by trackable resource."""
    everything = {
        "node": ask.nodes,
        "cpu": ask.nodes * ask.cpus_per_node,
        "gres/gpu": ask.nodes * ask.gpus_per_node,
        "mem": ask.nodes * (ask.memory or 0),
    }
    if ask.gpu_type:
        everything[f"gres/gpu:{ask.gpu_type}"] = everything["gres/gpu"]
    for resource in (each for text in ask.gres for each in parse.parse_gres(text)):
        names = [f"gres/{resource.name}", *([f"gres/{resource.name}:{resource.type}"] if resource.type else [])]
        everything.update({name: everything.get(name, 0) + ask.nodes * resource.count for name in names})
    return everything


def _names(block: Mapping[str, str], key: str) -> list[str] | None:
    """Return the names in AllowAccounts and similar lists; None if there is no such rule."""
    value = block.get(key, "ALL")
    return None if value in ("ALL", "", "(null)") else value.split(",")


def _closed(
    partition: Partition,
    block: Mapping[str, str],
    ask: ResourceNeeds,
    who: associations.Charge,
    user: str,
    groups: frozenset[str],
) -> Iterator[str]:
    """Yield why this user, account or QOS may not use the partition."""
    name = partition.name
    # Slurm shows a deny list only if there is one, in place of the allow list.
    for what, value, path in (("Accounts", who.account, "account"), ("Qos", who.qos, "qos")):
        allowed, denied = _names(block, f"Allow{what}"), _names(block, f"Deny{what}")
        if value is None:
            if allowed is not None:
                yield f"resources.{path}: not given; partition {name} takes only {', '.join(allowed)}."
        elif allowed is not None and value not in allowed:
            yield f"resources.{path}: {value}, but partition {name} takes only {', '.join(allowed)}."
        elif denied is not None and value in denied:
            yield f"resources.{path}: partition {name} does not take {value} (nor {', '.join(denied)})."
    members = _names(block, "AllowGroups")
    if members is not None and user != "root" and not groups & set(members):
        yield (
            f"resources.partition: {name} is for the groups {', '.join(members)}; {user} is in "
            f"{', '.join(sorted(groups)) or 'none'}."
        )
    if block.get("RootOnly") == "YES" and user != "root":
        yield f"resources.partition: only root may use {name}."
    if block.get("ReqResv") == "YES" and not ask.reservation:
        yield f"resources.reservation: not given; partition {name} takes only jobs with a reservation."
    if partition.state in ("drain", "inact", "inactive"):
        yield f"resources.partition: partition {name} takes no new jobs (its state is {partition.state})."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _nodes(groups: Iterable[NodeGroup]) -> int:
    return sum(group.count for group in groups)


def _features(ask: ResourceNeeds) -> frozenset[str]:
    """Return the features that every node must have; empty for a constraint that is not a plain list joined by `&`."""
    simple = re.fullmatch(r"[\w.-]+(&[\w.-]+)*", ask.constraint or "")
    return frozenset(simple.group().split("&")) if simple else frozenset()


def _misfits(
    partition: Partition, block: Mapping[str, str], ask: ResourceNeeds, lifted: frozenset[str]
) -> Iterator[str]:
    """Yield the parts of a request that the partition's limits and nodes do not allow."""
    yield from _over_limits(partition, block, ask, lifted)
    if not partition.hidden_nodes:
        yield from _over_nodes(partition, ask)


def _over_limits(
    partition: Partition, block: Mapping[str, str], ask: ResourceNeeds, lifted: frozenset[str]
) -> Iterator[str]:
    """Yield the parts of a request that exceed a limit of the partition. `lifted`: limits that a QOS overrides."""
    name, total = partition.name, partition.total_nodes
    if ask.nodes > total:
        yield f"resources.nodes: {ask.nodes} asked, partition {name} has {total}."
    elif partition.max_nodes is not None and ask.nodes > partition.max_nodes and "PartitionMaxNodes" not in lifted:
        yield f"resources.nodes: {ask.nodes} asked, partition {name} allows at most {partition.max_nodes} a job."
    elif ask.nodes < partition.min_nodes and "PartitionMinNodes" not in lifted:
        yield (
            f"resources.nodes: {ask.nodes} requested, but partition {name} requires at least "
            f"{partition.min_nodes} per job."
        )
    seconds = None if ask.time_minutes is None else round(ask.time_minutes * 60)
    longest = None if "PartitionTimeLimit" in lifted else partition.max_time
    if seconds is not None and longest is not None and seconds > longest:
        yield f"resources.time: {clock(seconds)} asked, partition {name} allows at most {clock(longest)}."
    most = parse.parse_count(block.get("MaxCPUsPerNode", ""))
    if most is not None and ask.cpus_per_node > most:
        yield f"resources.cpus_per_rank: {ask.cpus_per_node} CPUs a node asked, partition {name} allows at most {most}."


def _over_nodes(partition: Partition, ask: ResourceNeeds) -> Iterator[str]:
    """Yield the resources that too few nodes of the partition have.

    A node needs the GPUs, the cores and the memory at once, so fewer nodes than requested may qualify.
    """
    name, total = partition.name, partition.total_nodes
    features = _features(ask)
    groups = [g for g in partition.groups if features <= set(g.features)]
    if features and _nodes(groups) < min(ask.nodes, total):
        known = sorted({f for g in partition.groups for f in g.features})
        yield (
            f"resources.constraint: {ask.constraint} is true of {_nodes(groups)} of {total} nodes of partition {name}, "
            f"{ask.nodes} asked. Features there: {', '.join(known) or 'none'}."
        )
        return
    scarce = [*_scarce(partition, groups, ask)]
    yield from scarce or _not_at_once(partition, groups, ask)


def _scarce(partition: Partition, groups: Sequence[NodeGroup], ask: ResourceNeeds) -> Iterator[str]:
    """Yield the resources that too few of these nodes have, each resource by itself."""
    wanted, gpu_type = min(ask.nodes, partition.total_nodes), ask.gpu_type

    def too_few(path: str, what: str, fit: Sequence[NodeGroup], best: str) -> str:
        enough = "much" if path == "memory" else "many"
        return (
            f"resources.{path}: {what} asked on {_count(ask.nodes, 'node')}, but of partition {partition.name} "
            f"{_nodes(fit)} of {partition.total_nodes} nodes have that {enough} (most on a node: {best})."
        )

    types = sorted({g.type for group in partition.groups for g in group.gres if g.name == "gpu" and g.type})
    gpu_fit = [g for g in groups if g.gpus(gpu_type) >= ask.gpus_per_node]
    if gpu_type and ask.gpus_per_node and gpu_type not in types:
        hint = suggestion(gpu_type, types) or "."
        there = ", ".join(types) or "none is named"
        yield f"resources.gpu_type: no node of partition {partition.name} has {gpu_type!r}{hint} Known there: {there}."
    elif _nodes(gpu_fit) < wanted:
        best = max((g.gpus(gpu_type) for g in groups), default=0)
        yield too_few("gpus_per_node", str(ask.gpus_per_node), gpu_fit, _count(best, _gpu(ask)))
    cpu_fit = [g for g in groups if g.cpus >= ask.cpus_per_node]
    if _nodes(cpu_fit) < wanted:
        best = max((g.cpus for g in groups), default=0)
        yield too_few("cpus_per_rank", f"{ask.cpus_per_node} CPUs a node", cpu_fit, str(best))
    memory_fit = [g for g in groups if g.memory >= (ask.memory or 0)]
    if _nodes(memory_fit) < wanted:
        best = max((g.memory for g in groups), default=0)
        yield too_few("memory", f"{ask.memory} MiB a node", memory_fit, f"{best} MiB")
    for text in ask.gres:
        fit = [g for g in groups if not parse.lacking(g.gres, [text])]
        if _nodes(fit) < wanted:
            present = sorted({f"{r.name}:{r.type}" if r.type else r.name for g in groups for r in g.gres})
            resource = parse.parse_gres(text)[0]
            best = max((parse.count_gres(g.gres, resource.name, resource.type) for g in groups), default=0)
            yield f"{too_few('gres', text, fit, str(best))} Known there: {', '.join(present) or 'none'}."


def _not_at_once(partition: Partition, groups: Sequence[NodeGroup], ask: ResourceNeeds) -> Iterator[str]:
    """Yield a problem if enough nodes have each resource, but too few have all of them."""
    fit = [
        g
        for g in groups
        if g.gpus(ask.gpu_type) >= ask.gpus_per_node
        and g.cpus >= ask.cpus_per_node
        and g.memory >= (ask.memory or 0)
        and not parse.lacking(g.gres, ask.gres)
    ]
    if _nodes(fit) < min(ask.nodes, partition.total_nodes):
        parts = [_count(ask.gpus_per_node, _gpu(ask))] if ask.gpus_per_node else []
        parts += ask.gres
        parts += [f"{ask.cpus_per_node} CPUs"] if ask.cpus_per_node else []
        parts += [f"{ask.memory} MiB"] if ask.memory else []
        yield (
            f"resources: only {_count(_nodes(fit), 'node')} of partition {partition.name} have {' and '.join(parts)} "
            f"at once; {ask.nodes} asked."
        )


def _gpu(ask: ResourceNeeds) -> str:
    return f"{ask.gpu_type} GPU" if ask.gpu_type else "GPU"


def _window(
    partition: Partition, block: Mapping[str, str], known: Knowledge, ask: ResourceNeeds, verdict: Verdict
) -> None:
    """Record how long a preempted job has to save its state, and whether it is requeued; add notes on conflicts."""
    if not block and not known.settings:
        return
    kill_wait = parse.parse_count(known.settings.get("KillWait", "").removesuffix(" sec"))
    grace = parse.parse_count(block.get("GraceTime", "")) or 0
    # The partition's mode has no effect if the cluster's plugin does not preempt.
    preempts = known.settings.get("PreemptType", "preempt/none") != "preempt/none"
    mode = (block.get("PreemptMode") or known.settings.get("PreemptMode", "OFF")).upper() if preempts else "OFF"
    requeues = known.settings.get("JobRequeue") != "0"
    facts = [f"preemption {mode}" + (f" with GraceTime {grace} s" if mode != "OFF" else "")]
    if kill_wait is not None:
        facts.append(f"KillWait {kill_wait} s after the time limit")
    facts.append(f"JobRequeue {1 if requeues else 0}")
    verdict.facts.append("; ".join(facts))
    if mode != "OFF" and ask.early is not None and grace < ask.early and "SUSPEND" not in mode:
        verdict.notes.append(
            f"checkpoint.signal_before_end: {ask.early} s, but a job that is preempted in partition {partition.name} "
            f"has {grace} s (GraceTime): a checkpoint that takes longer is lost then"
        )
    if mode.startswith("CANCEL") and ask.requeue:
        verdict.notes.append(
            f"checkpoint.requeue: partition {partition.name} cancels a preempted job (PreemptMode={mode}): Slurm does "
            "not requeue it; launch it again"
        )
    if not requeues and ask.requeue is None and ask.early is not None:
        verdict.notes.append(
            "checkpoint.requeue: not given, and this cluster requeues nothing by itself (JobRequeue=0): set it to true "
            "for a job that is to come back after a failed node or a preemption"
        )
