# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The number of ranks on the nodes and how they start: the ranks' step, and the similar preflight step."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.base import Aspect, Context
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.topology import Topology, once, ranks_per_node
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.launchers import knowing, starter, starters
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.resources import GPU_OF_RANK, GPUS_OF_NODE
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Finding, Invalid, Option

# Options of srun that bind tasks. The preflight uses them too, so that it is placed like the ranks.
_BINDING = (
    *("accel-bind", "cores-per-socket", "cpu-bind", "distribution", "gpu-bind", "gpus-per-task", "hint"),
    *("mem-bind", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-socket", "sockets-per-node"),
    *("threads-per-core", "tres-bind"),
)


def size(shape: Topology, nodes: int, tasks: int | None = None) -> Iterator[Option]:
    """Yield the options for the size of a job or of one of its steps."""
    yield "nodes", str(nodes)
    if tasks is not None:
        yield "ntasks", str(tasks)
    yield "ntasks-per-node", str(shape.tasks_per_node)
    if not shape.all_cpus:
        yield "cpus-per-task", str(shape.cpus_per_task)
    elif tasks is not None:
        # The conductor puts the number in (runtime/core/slurm.py).
        yield "cpus-per-task", "auto"


def _cpu_bind(shape: Topology) -> tuple[str, str]:
    """Return the binding of a task to CPUs.

    Under srun each rank is bound to its own, adjacent cores. Under torchrun one task per node starts all ranks of the
    node, which share the task's CPUs.
    """
    return ("cpu-bind", "cores" if shape.starter.per == "rank" else "none")


class Ranks(Aspect):
    """The number of ranks on a node and the program that starts them."""

    def findings(self, spec: LaunchSpec, settings: ClusterSettings) -> Iterator[Finding]:
        """Yield a number of ranks that does not match the GPUs, and launchers that cannot do what the spec requires."""
        if spec.script is not None:
            return
        gpus, ranks = spec.resources.gpus_per_node, ranks_per_node(spec)
        if once(spec) and spec.launcher.ranks_per_node not in (None, ranks):
            yield (
                ["launcher.ranks_per_node", "launcher.kind"],
                (
                    f"launcher.ranks_per_node: {spec.launcher.ranks_per_node}, but with launcher.kind "
                    f"{spec.launcher.kind} the program runs once; set it to {ranks} or auto, or choose another kind"
                ),
            )
        elif gpus and not once(spec) and ranks != gpus and spec.launcher.gpus == GPU_OF_RANK:
            yield (
                ["launcher.ranks_per_node", "resources.gpus_per_node"],
                (
                    f"launcher.ranks_per_node: {ranks} ranks on nodes with {gpus} GPUs: local ranks would map to wrong "
                    f"GPUs; set it to {gpus} or auto, or resources.gpus_per_node to {ranks}; or, if each rank uses "
                    f"all GPUs of its node, launcher.gpus to {GPUS_OF_NODE}"
                ),
            )
        try:
            row, rendezvous = starter(spec.launcher.kind, settings.launchers), spec.launcher.rendezvous
        except Invalid as error:
            yield ["launcher.kind"], f"launcher.kind: {error}; a cluster declares others in launch_cluster.launchers"
            return
        if row.one_node and spec.resources.nodes != 1:
            others = [other for other in starters(settings.launchers) if other.per == row.per and not other.one_node]
            instead = " or ".join(other.kind for other in others)
            yield (
                ["launcher.kind", "resources.nodes"],
                f"launcher.kind: {row.kind} runs on one node, not on {spec.resources.nodes}; use {instead}",
            )
        if rendezvous != "static" and rendezvous not in row.rendezvous:
            kinds = " or ".join(other.kind for other in knowing(rendezvous, settings.launchers))
            yield (
                ["launcher.rendezvous", "launcher.kind"],
                f"launcher.rendezvous: {rendezvous} needs launcher.kind {kinds}, not {row.kind}",
            )

        if row.per == "job" and not row.once and spec.container.runtime != "none":
            yield (
                ["launcher.kind", "container.runtime"],
                (
                    f"launcher.kind: {row.kind} starts the ranks of other nodes itself, so container.runtime "
                    f"{spec.container.runtime} would hold those of the first node only; use a launcher with per: node"
                ),
            )

    def step(self, context: Context) -> Iterator[Option]:
        """Yield the options of the ranks' step. Each step repeats its size: since 22.05, srun ignores the job's
        --cpus-per-task.
        """
        shape = context.topology
        yield from size(shape, shape.step_nodes, shape.tasks)
        yield "kill-on-bad-exit", "1"
        if "wait" not in context.spec.launcher.srun:
            yield "wait", str(context.spec.launcher.wait)
        yield "export", "ALL"
        if "cpu-bind" not in context.spec.launcher.srun:
            yield _cpu_bind(shape)

    def probe(self, context: Context) -> Iterator[Option]:
        """Yield the options of the preflight's step: the ranks' size and binding on every node, so that it checks the
        same.

        A node that fails or cannot be reached must not end the preflight on other nodes, regardless of the site's
        KillOnBadExit and WaitTime.
        """
        srun, shape = context.spec.launcher.srun, context.job
        given = {name: value for name, value in srun.items() if name in _BINDING and value is not False}
        nodes = shape.nodes + context.spec.resources.spares
        yield from size(shape, nodes, nodes * shape.tasks_per_node)
        if "cpu-bind" not in given:
            yield _cpu_bind(shape)
        yield from ((name, str(value)) for name, value in sorted(given.items()))
        yield "kill-on-bad-exit", "0"
        yield "wait", "0"
        yield "no-kill", True

    def exports(self, context: Context) -> Iterator[tuple[str, str]]:
        """Yield the seconds that the other ranks may continue after the first has ended, and where a rank's names are,
        if neither Slurm's nor torch's variables have them.
        """
        if context.spec.script is not None:
            return
        yield "RANKZERO_WAIT", str(context.spec.launcher.wait)
        ranks = context.topology.starter.ranks
        if ranks:
            yield "RANKZERO_RANK_NAMES", " ".join(f"{name}={source}" for name, source in ranks.items())
