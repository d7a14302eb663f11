# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a launch with roles: each role is planned as a launch of its own would be. Pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.base import Context
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.container import Entry
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.environments import Environments
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.topology import (
    Topology,
    component_of,
    components,
    job_gpus,
    node_groups,
    topology,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.variables import Variable
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec, Role
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections import data
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.environment import Environment
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.roles import IGNORE
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Options

#: What another role's program may be told of one, in words of its command: {NAME.urls}, and RANKZERO_NAME_URLS.
TOLD = ("urls", "hosts", "nodes")
#: The port of a process of its own, in words of its command.
PORT = "{port}"
_PLACE = re.compile(r"\{([A-Za-z][A-Za-z0-9_-]*)\.(" + "|".join(TOLD) + r")\}")


@dataclass(frozen=True)
class RoleStep:
    """The step of one role: `exports` tell the job runtime of it, `variables` are those that differ from the launch's,
    `unset` the names of the launch's that this one does not have, and `container` is what it runs in. `python`,
    `environment` and `built`: its Python, the folder of its environment, and the key of that if it is built. `sealed`:
    the first role with the same sealed environment, which is not the launch's; empty without one. `modules` and
    `commands`: the set-up of its own, after the launch's.
    """

    name: str
    topology: Topology
    step: Options
    argv: tuple[str, ...]
    exports: tuple[tuple[str, str], ...]
    variables: tuple[Variable, ...]
    unset: tuple[str, ...]
    container: Entry | None
    python: str
    environment: str
    built: str | None
    sealed: str
    modules: tuple[str, ...]
    commands: tuple[str, ...]

    def record(self) -> JsonObject:
        """The role as launch.json has it. Its ranks are numbered after those of the roles before it."""
        first = int(dict(self.exports)["RANKZERO_FIRST_RANK"])
        return {"name": self.name, "nodes": self.topology.nodes, "ranks": self.topology.world_size, "first_rank": first}


def named_in(words: Sequence[str]) -> list[str]:
    """Return the names of the roles of which the words of a command are told."""
    return list(dict.fromkeys(match[1] for word in words for match in _PLACE.finditer(word)))


def steps(
    context: Context,
    options: Callable[[Context], Options],
    argv: Callable[[LaunchSpec, str], tuple[str, ...]],
    environments: Environments,
    container: Callable[[LaunchSpec], Entry | None],
) -> tuple[RoleStep, ...]:
    """Return the steps of all roles, the deciding one first; none of a job without roles.

    `options`: those of a program's srun; `argv`: its words, with its Python; `container`: what it runs in.
    """
    made: list[RoleStep] = []
    launch = context.spec
    groups = [[role.name for role in group] for group in node_groups(launch)]
    parts = components(launch)
    sealed: dict[Environment, str] = {}
    first_rank, known = 0, {item.name: item.value for item in environments.variables(launch)} if launch.roles else {}
    for role in launch.roles.values():
        shape, program = topology(role.spec, context.site.settings.launchers), role.spec
        own = {variable.name: variable for variable in environments.variables(program)}
        inside, python = container(program), environments.python(program)
        own_context = dataclasses.replace(context, spec=program, topology=shape, container=inside)
        if program.environment.mode == "sealed" and program.environment != launch.environment:
            sealed.setdefault(program.environment, role.name)
        given, shared = _of_policy(role, options(own_context)), [role.name] not in groups
        made.append(
            RoleStep(
                name=role.name,
                topology=shape,
                step=_beside(role, given, job_gpus(parts[component_of(launch, role)])) if shared else given,
                argv=argv(program, python),
                exports=tuple(_exports(role, launch, shape, first_rank, inside)),
                variables=tuple(variable for name, variable in own.items() if known.get(name) != variable.value),
                unset=(
                    *(name for name in known if name not in own),
                    *(data.variable(name) for name in launch.all_data if name not in program.data),
                ),
                container=inside,
                python=python,
                environment=environments.folder(program),
                built=environments.key(program),
                sealed=sealed.get(program.environment, ""),
                modules=program.setup.modules[len(launch.setup.modules) :],
                commands=program.setup.commands[len(launch.setup.commands) :],
            )
        )
        first_rank += shape.world_size
    return tuple(made)


def _of_policy(role: Role, given: Options) -> Options:
    """Return the options of a step, whose processes do not end each other where nobody minds the end of one."""
    ends = {"kill-on-bad-exit": "0", "wait": "0"} if role.keys.on_exit == IGNORE else {}
    own = role.spec.launcher.srun
    return tuple((name, value if name in own else ends.get(name, value)) for name, value in given)


def _beside(role: Role, given: Options, gpus_of_job: int) -> Options:
    """Return the options of a step that leaves the rest of its nodes to the others. Steps that overlap, as those inside
    a running job do as a rule, would get the same CPUs and GPUs.
    """
    given = tuple((name, value) for name, value in given if name != "overlap")
    own = role.spec.resources.gpus_per_node
    named = not gpus_of_job or "gres" in dict(given)
    gpus: Options = () if named else ((("gpus-per-node", str(own)) if own else ("gres", "none")),)
    return (*given, ("exact", True), ("mem", "0"), *gpus)


def _exports(
    role: Role, launch: LaunchSpec, shape: Topology, first_rank: int, inside: Entry | None
) -> Iterator[tuple[str, str]]:
    keys = role.keys
    yield "RANKZERO_ROLE", role.name
    yield "RANKZERO_FIRST_RANK", str(first_rank)
    if len(components(launch)) > 1:
        yield "RANKZERO_COMPONENT", str(component_of(launch, role))
    yield "RANKZERO_ON_EXIT", keys.on_exit
    if keys.share:
        yield "RANKZERO_SHARE", launch.host(role)
    if keys.after_ready:
        yield "RANKZERO_AFTER_READY", " ".join(keys.after_ready)
    if keys.ready:
        yield "RANKZERO_READY", f"{keys.ready.way} {keys.ready.value}".strip()
        yield "RANKZERO_READY_WITHIN", str(keys.ready.seconds)
    yield "RANKZERO_LAUNCHER", shape.launcher
    if shape.rendezvous:
        yield "RANKZERO_RENDEZVOUS", shape.rendezvous
    yield "RANKZERO_NODES", str(shape.nodes)
    yield "RANKZERO_RANKS_PER_NODE", str(shape.ranks_per_node)
    yield "RANKZERO_CPUS_PER_NODE", str(shape.cpus_per_node)
    yield "RANKZERO_GPUS_PER_NODE", str(role.spec.resources.gpus_per_node)
    yield "RANKZERO_WORLD_SIZE", str(shape.world_size)
    yield "RANKZERO_WAIT", str(role.spec.launcher.wait)
    if launch.all_secrets:
        yield "RANKZERO_SECRETS", ",".join(sorted(role.spec.secrets))
    if inside and inside.facts:
        yield "RANKZERO_CONTAINER_FACTS", inside.facts
    if shape.starter.ranks:
        yield "RANKZERO_RANK_NAMES", " ".join(f"{name}={source}" for name, source in shape.starter.ranks.items())
