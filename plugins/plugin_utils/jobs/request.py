# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a plan to the request for the module on the cluster (submit/request.py), and its word.

The word of a planned launch is NAME/KEY/GENERATION/NODE-MINUTES. Who has it can ask for this launch and for no other:
what is not part of the key, such as the time limit, may not make it dearer, and a call that comes late submits no
further generation.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import PlanAgain, RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects import node_copies
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.parallelism import group_nodes
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.container import Entry
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Site
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.key import short_key
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.topology import components, job_gpus, job_topology
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.needs import AllocationNeeds, ContainerNeeds
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.containers.base import Runtime
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.mounts import mount
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import memory_mib, time_minutes
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.needs import ResourceNeeds, StorageNeeds
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Placement, Request, Stores

#: Seconds that a job waits on its nodes for the grant of whoever watches.
GRANT_WITHIN = 600
_CLUSTER = re.compile(r"[A-Za-z0-9_][\w.-]{0,63}", re.ASCII)
#: In the place of the node-minutes of a launch without a time limit.
ANY = "any"
_WORD = re.compile(
    rf"([A-Za-z0-9][\w.-]{{0,63}}/[0-9a-f]{{16}})/([1-9][0-9]{{0,8}})/({ANY}|0|[1-9][0-9]{{0,11}})", re.ASCII
)


def node_minutes(request: Request) -> int | None:
    """The node-minutes that a launch may use at most, with all its attempts; None without a time limit."""
    ask = request.limits
    nodes = sum(component.nodes for component in ask.components)
    return None if ask.time_minutes is None else math.ceil(nodes * ask.time_minutes * ask.attempts)


def word_of(request: Request, generation: int) -> str:
    """The word of one generation of a launch."""
    most = node_minutes(request)
    return f"{request.name}/{short_key(request.key)}/{generation}/{ANY if most is None else most}"


def planned_generation(request: Request, word: str) -> int:
    """The generation that was planned, which is the last to be submitted. Raises PlanAgain for another launch."""
    told = _WORD.fullmatch(word)
    if told is None:
        raise RankzeroError(f"planned: {word!r} is not what a plan returns: NAME/KEY/GENERATION/NODE-MINUTES")
    launch, generation, most = told.groups()
    # Of the same program under another name the key is the same.
    now, asks = f"{request.name}/{short_key(request.key)}", node_minutes(request)
    if launch != now:
        raise PlanAgain(
            f"planned: {launch} was planned, and the launch is {now} now: the job or its code has changed. Plan again."
        )
    if most != ANY and (asks is None or asks > int(most)):
        more = "has no time limit" if asks is None else f"may use {asks}"
        raise PlanAgain(f"planned: {most} node-minutes were planned, and the launch {more} now. Plan again.")
    return int(generation)


def asked_clusters(given: Parameters, spec: LaunchSpec) -> JsonObject:
    """Check what a launch is asked with that one of several clusters runs (`first`). Raises RankzeroError."""
    values = dict(given)
    unknown = sorted({*values} - {"clusters", "grant_within", "reopens", "arbiter"})
    clusters = values.get("clusters")
    if unknown or not isinstance(clusters, Sequence) or isinstance(clusters, str) or not values:
        raise RankzeroError(f"first: {given!r} must be a map of clusters, grant_within and reopens")
    names = [str(name) for name in clusters]
    if len({*names}) < max(2, len(names)) or not all(map(_CLUSTER.fullmatch, names)):
        raise RankzeroError(
            f"first: {','.join(names)} must be two or more different names of clusters in the inventory"
        )
    within, reopens = (
        values.get(name) or default for name, default in (("grant_within", GRANT_WITHIN), ("reopens", 0))
    )
    if not str(within).isdecimal() or not str(reopens).isdecimal() or int(within) < 1:
        raise RankzeroError(f"first: grant_within: {within!r} must be a whole number of seconds such as {GRANT_WITHIN}")
    for option, value, why in (
        ("launcher.inside_job", spec.launcher.inside_job, "that job is on one cluster, and runs already"),
        ("resources.dependency", spec.resources.dependency, "the id of a job belongs to one cluster"),
    ):
        if value:
            raise RankzeroError(
                f"{option}: {value} does not go with --first {','.join(names)}: {why}; omit one of them"
            )
    arbiter = str(values.get("arbiter") or "")
    return {"clusters": names, "grant_within": int(within), "reopens": int(reopens), "arbiter": arbiter}


def request_of(plan: Plan, site: Site, refs: Sequence[Ref], files: Mapping[str, str], relaunch: str) -> Request:
    """The request of a launch."""
    spec = plan.spec
    return Request(
        name=plan.name,
        key=plan.key,
        token=plan.token,
        runs_dir=plan.runs_dir(),
        job_name=f"{plan.name}.{short_key(plan.key)}.{plan.token}",
        files=files,
        refs=refs,
        relaunch=relaunch,
        limits=_limits(plan, site),
        places=StorageNeeds(
            roots={
                "state_root": site.state_root,
                "store_root": site.store_root,
                **({"caches": site.caches} if site.caches else {}),
            },
            min_free_kib=(memory_mib(site.settings.min_free) or 0) * 1024,
            sources=_sources_on_nodes(spec),
        ),
        stores=Stores(site.store_root, list(site.settings.stores), site.settings.store_group_writable),
        containers=container_needs(plan),
        inside_job=allocation_asked(plan),
        placement=_placement(spec),
        checkpoint_dir=shared_checkpoints(spec),
        archives=node_copies.kept(refs, spec, site.settings, site.state_root),
        dependency=str(dict(plan.header).get("dependency") or ""),
        any_of=[
            {**given, "time_minutes": time_minutes(time)} if (time := given.get("time")) else given
            for given in spec.resources.any_of
        ],
        secret_files={name: source.name for name, source in spec.all_secrets.items() if source.kind == "from_file"},
    )


def shared_checkpoints(spec: LaunchSpec) -> str | None:
    """The folder of checkpoints that another launch could own; None where each launch has one of its own."""
    asked = spec.checkpoint
    return os.path.normpath(asked.dir) if asked.dir and not asked.fresh else None


def _own_runtime(kind: Runtime) -> dict[str, Any] | None:
    """What the cluster checks of a runtime that it has declared; None for one of ours."""
    if kind.record is None:
        return None
    return {"commands": list(kind.used), "images": list(kind.images), "suffix": kind.suffix, "refuses": kind.refuses}


def container_needs(plan: Plan) -> list[ContainerNeeds]:
    """What the containers of the job's programs need from the cluster."""
    own = [(plan.spec.roles[role.name].spec, role.container) for role in plan.roles]
    needs = [_needs_of(plan, spec, made) for spec, made in own or [(plan.spec, plan.container)] if made]
    return [asked for number, asked in enumerate(needs) if asked not in needs[:number]]


def _needs_of(plan: Plan, spec: LaunchSpec, made: Entry) -> ContainerNeeds:
    return ContainerNeeds(
        runtime=made.runtime,
        own_setup=bool(spec.setup.modules or spec.setup.commands),
        options=[name for name, _value in made.step],
        level=spec.container.level,
        # An image that is built for the job was not named by the user, so it need not be checked.
        image=made.image_file if spec.container.image else "",
        sources=[mount(text).source for text in spec.container.mounts],
        runs_dir=plan.runs_dir(),
        own=_own_runtime(made.kind),
    )


def _limits(plan: Plan, site: Site) -> ResourceNeeds:
    checkpoint = plan.spec.checkpoint
    first, *others = [_component(plan, component, site) for component in components(plan.spec)]
    return dataclasses.replace(
        first,
        early=checkpoint.signal_before_end,
        requeue=checkpoint.requeue,
        group_nodes=group_nodes(plan.spec),
        used=site.used,
        budget={option: float(hours) for option, hours in site.settings.budget.items()},
        # Each attempt has the whole time limit.
        attempts=1 + checkpoint.max_restarts if checkpoint.requeue else 1,
        also=others,
    )


def _component(plan: Plan, spec: LaunchSpec, site: Site) -> ResourceNeeds:
    """What a component of the job requests of Slurm."""
    ask, shape = spec.resources, job_topology(spec, site.settings.launchers)
    return ResourceNeeds(
        nodes=shape.nodes + ask.spares,
        partition=ask.partition,
        # The time of a script that asks for none is the partition's.
        time_minutes=time_minutes(ask.time) if "time" in dict(plan.header) else None,
        gpus_per_node=job_gpus(spec),
        gpu_type=ask.gpu_type,
        gres=list(ask.gres),
        cpus_per_node=shape.cpus_per_node,
        memory=memory_mib(ask.memory),
        account=ask.account,
        qos=ask.qos,
        constraint=ask.constraint,
        reservation=ask.reservation,
        segment=ask.segment,
        switches=ask.switches,
    )


def allocation_asked(plan: Plan) -> AllocationNeeds | None:
    """What is required of the running job before anything starts in it; None for a launch with its own job."""
    spec = plan.spec
    if spec.launcher.inside_job is None:
        return None
    return AllocationNeeds(
        job_id=spec.launcher.inside_job,
        nodes=plan.job.nodes,
        names=list(spec.launcher.inside_nodes),
        exclude=list(spec.resources.exclude),
        cpus_per_node=plan.job.cpus_per_node,
        gpus_per_node=plan.gpus_per_node,
        gpu_type=spec.resources.gpu_type,
        gres=list(spec.resources.gres),
        memory=spec.resources.memory,
        time_minutes=time_minutes(spec.resources.time),
    )


def _placement(spec: LaunchSpec) -> Placement | None:
    """Which nodes the job asks for; None inside another job, whose nodes are fixed."""
    if spec.launcher.inside_job:
        return None
    return Placement(
        exclude=list(spec.resources.exclude),
        nodelist=str(spec.resources.sbatch.get("nodelist") or ""),
    )


def _sources_on_nodes(spec: LaunchSpec) -> list[tuple[str, str]]:
    """What the nodes mount or read besides the roots: (the option, its path on the cluster)."""
    sources: list[tuple[str, str]] = []
    for option, program in spec.programs.items():
        inside = program.container
        sources += [(f"{option}container.mounts", mount(text).source) for text in inside.mounts]
        if inside.runtime != "none" and (inside.image or "").startswith("/"):
            sources.append((f"{option}container.image", str(inside.image)))
        if program.environment.path:
            sources.append((f"{option}environment.path", program.environment.path))
    sources = [*{path: (option, path) for option, path in reversed(sources)}.values()][::-1]
    if spec.code.in_place:
        sources.append(("code.in_place", spec.code.in_place))
    sources += [(f"data.{name}", source.folder) for name, source in sorted(spec.all_data.items()) if not source.tree]
    return sources
