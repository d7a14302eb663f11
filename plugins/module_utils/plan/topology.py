# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute how many tasks and ranks run on how many nodes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec, Role
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.launchers import (
    ONCE,
    SCRIPT,
    Launchers,
    Starter,
    starter,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.resources import GPU_OF_RANK, GPUS_OF_NODE
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.roles import OF_ITS_NODES


@dataclass(frozen=True)
class Topology:
    """The nodes, tasks and ranks of a launch.

    `tasks_per_node` counts Slurm's tasks, `ranks_per_node` torch's ranks: equal under srun; one task per node under
    torchrun. `rendezvous`: how the launcher's nodes meet, such as static, c10d or standalone; None if they need not.
    `all_cpus`: the ranks share all CPUs of their node, which are counted there; `cpus_per_task` is then the least.
    """

    starter: Starter
    nodes: int
    ranks_per_node: int
    tasks_per_node: int
    cpus_per_task: int
    rendezvous: str | None = None
    all_cpus: bool = False

    @property
    def launcher(self) -> str:
        """Whose variables tell a process its rank: `srun` or `torchrun`, as the job's scripts read it."""
        return self.starter.names

    @property
    def words(self) -> tuple[str, ...]:
        """The launcher's command, as runtime/rank/node.sh takes it."""
        return self.starter.words(self.rendezvous)

    @property
    def world_size(self) -> int:
        """The number of ranks. A script counts as one, whatever it starts."""
        return 1 if self.starter.once else self.nodes * self.ranks_per_node

    @property
    def tasks(self) -> int:
        """The number of Slurm tasks. It is less than the number of ranks if the launcher starts the ranks of a node."""
        return self.step_nodes * self.tasks_per_node

    @property
    def step_nodes(self) -> int:
        """The nodes on which Slurm starts tasks: one where the launcher itself starts the ranks of all nodes."""
        return 1 if self.starter.per == "job" else self.nodes

    @property
    def cpus_per_node(self) -> int:
        """The CPUs that the tasks of one node request."""
        return self.tasks_per_node * self.cpus_per_task


def once(spec: LaunchSpec) -> bool:
    """Whether one program runs, on the first node: a script, or a command without a launcher."""
    return spec.script is not None or spec.launcher.kind == ONCE.kind


def ranks_per_node(spec: LaunchSpec) -> int:
    """Return `launcher.ranks_per_node`. Default: one per GPU that belongs to a rank, else one per node."""
    if spec.script is None and once(spec):
        return 1
    own = spec.resources.gpus_per_node if spec.launcher.gpus == GPU_OF_RANK else 0
    return spec.launcher.ranks_per_node or own or 1


def cpus_per_rank(spec: LaunchSpec) -> int:
    """Return `resources.cpus_per_rank`, or the least number where it is counted on the nodes."""
    return spec.resources.cpus_per_rank or 1


def has_all_cpus(spec: LaunchSpec) -> bool:
    """Return whether the ranks share all CPUs of their node: the job has whole nodes, and asks for no number."""
    ask = spec.resources
    own = spec.script is None and not spec.launcher.inside_job and not spec.roles
    return own and ask.exclusive and ask.cpus_per_rank is None


def workers_per_node(spec: LaunchSpec) -> int:
    """Return what `parallelism` divides, of each node: its ranks, or its GPUs where a rank uses all of them."""
    shared = spec.resources.gpus_per_node if spec.launcher.gpus == GPUS_OF_NODE else 0
    return shared or ranks_per_node(spec)


def workers(spec: LaunchSpec) -> int:
    """Return what `parallelism` divides, of all nodes. A program that runs once counts as one."""
    return 1 if once(spec) else spec.resources.nodes * workers_per_node(spec)


def world_size(spec: LaunchSpec) -> int:
    """Return the number of ranks."""
    return 1 if once(spec) else spec.resources.nodes * ranks_per_node(spec)


def topology(spec: LaunchSpec, own: Launchers) -> Topology:
    """Return nodes, ranks and tasks of a spec. `own`: the cluster's launchers."""
    if spec.script is not None:
        tasks = spec.launcher.ranks_per_node or 1
        return Topology(SCRIPT, spec.resources.nodes, 1, tasks, cpus_per_rank(spec))
    ranks, cpus, whole = ranks_per_node(spec), cpus_per_rank(spec), has_all_cpus(spec)
    row = starter(spec.launcher.kind, own)
    meets = row.meets(spec.launcher.rendezvous)
    if row.per == "rank":
        return Topology(row, spec.resources.nodes, ranks, ranks, cpus, meets, whole)
    # Exactly one task per node: with one task per GPU, the square of the ranks would start.
    return Topology(row, spec.resources.nodes, ranks, 1, cpus * ranks, meets, whole)


def job_topology(spec: LaunchSpec, own: Launchers) -> Topology:
    """Return what the job asks of Slurm. With roles these are the nodes of all, and of each node one task with the CPUs
    of the roles that need most; where not all components ask for as many, what every node has.
    """
    shapes = [
        [[topology(role.spec, own) for role in group] for group in node_groups(component)]
        for component in components(spec)
    ]
    if not shapes[0]:
        return topology(spec, own)
    return replace(
        shapes[0][0][0],
        nodes=sum(group[0].nodes for groups in shapes for group in groups),
        tasks_per_node=1,
        cpus_per_task=min(max(sum(shape.cpus_per_node for shape in group) for group in groups) for groups in shapes),
    )


def job_gpus(spec: LaunchSpec) -> int:
    """Return the GPUs that the job asks of each node: those of the roles that need most."""
    groups = [[role.spec.resources.gpus_per_node for role in group] for group in node_groups(spec)]
    return max(map(sum, groups), default=spec.resources.gpus_per_node)


def node_groups(spec: LaunchSpec) -> Sequence[Sequence[Role]]:
    """Return the roles that have nodes in common: each that has its own, the one that decides first, with those beside
    it.
    """
    roles = spec.roles.values()
    hosts = [role for role in roles if not spec.host(role)]
    return [[host, *(role for role in roles if spec.host(role) == host.name)] for host in hosts]


def components(spec: LaunchSpec) -> tuple[LaunchSpec, ...]:
    """Return what each component of the job asks for: a spec with the roles on its nodes. There is one, unless roles
    differ in OF_ITS_NODES. The first has the role that decides.
    """
    made: dict[tuple[Any, ...], dict[str, Role]] = {}
    for group in node_groups(spec):
        asked = tuple(getattr(group[0].spec.resources, name) for name in OF_ITS_NODES)
        made.setdefault(asked, {}).update({role.name: role for role in group})
    if len(made) < 2:
        return (spec,)
    of_each = [(dict[str, Any](zip(OF_ITS_NODES, asked)), roles) for asked, roles in made.items()]
    return tuple(replace(spec, roles=roles, resources=replace(spec.resources, **asked)) for asked, roles in of_each)


def component_of(spec: LaunchSpec, role: Role) -> int:
    """Return the number of the component with a role's nodes; 0 of an ordinary job."""
    made = components(spec)
    return next((number for number, component in enumerate(made) if role.name in component.roles), 0)
