# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many ranks start on the nodes and how: the step that runs them, and the preflight's, which is like it."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.base import Aspect, Context, Fabrics
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.topology import Topology, topology
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.launchers import STARTERS, knowing, starter
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Finding, Option

# Options of srun that decide what a task is bound to: the preflight is placed as the ranks will be.
_BINDING = (
    "accel-bind",
    "cores-per-socket",
    "cpu-bind",
    "distribution",
    "gpu-bind",
    "gpus-per-task",
    "hint",
    "mem-bind",
    "ntasks-per-core",
    "ntasks-per-gpu",
    "ntasks-per-socket",
    "sockets-per-node",
    "threads-per-core",
    "tres-bind",
)


def size(shape: Topology, nodes: int, tasks: int | None = None) -> Iterator[Option]:
    """What a job and each of its steps say of their size."""
    yield "nodes", str(nodes)
    if tasks is not None:
        yield "ntasks", str(tasks)
    yield "ntasks-per-node", str(shape.tasks_per_node)
    yield "cpus-per-task", str(shape.cpus_per_task)


def _cpu_bind(shape: Topology) -> tuple[str, str]:
    """Each rank of srun keeps to its own cores, near each other. Under torchrun the one task of a node starts all its
    ranks: they share the task's CPUs."""
    return ("cpu-bind", "cores" if shape.starter.per == "rank" else "none")


class Ranks(Aspect):
    """How many ranks run on a node and what starts them."""

    def findings(self, spec: LaunchSpec, fabrics: Fabrics) -> Iterator[Finding]:
        """Ranks that do not match the GPUs, and launchers that cannot do what the spec asks."""
        gpus, ranks = spec.resources.gpus_per_node, topology(spec).ranks_per_node
        if gpus and ranks != gpus:
            yield (
                ["launcher.ranks_per_node", "resources.gpus_per_node"],
                (
                    f"launcher.ranks_per_node: {ranks} ranks on nodes with {gpus} GPUs: local ranks would map to wrong "
                    f"GPUs; set it to {gpus} or auto, or resources.gpus_per_node to {ranks}"
                ),
            )
        row, rendezvous = starter(spec.launcher.kind), spec.launcher.rendezvous
        if row.one_node and spec.resources.nodes != 1:
            instead = " or ".join(other.kind for other in STARTERS if other.per == row.per and not other.one_node)
            yield (
                ["launcher.kind", "resources.nodes"],
                f"launcher.kind: {row.kind} runs on one node, not on {spec.resources.nodes}; use {instead}",
            )
        if rendezvous != "static" and rendezvous not in row.rendezvous:
            kinds = " or ".join(other.kind for other in knowing(rendezvous))
            yield (
                ["launcher.rendezvous", "launcher.kind"],
                f"launcher.rendezvous: {rendezvous} needs launcher.kind {kinds}, not {row.kind}",
            )

    def step(self, context: Context) -> Iterator[Option]:
        """Every step repeats its own size: srun stopped inheriting --cpus-per-task in 22.05."""
        shape = context.topology
        yield from size(shape, shape.nodes, shape.tasks)
        yield "kill-on-bad-exit", "1"
        yield "export", "ALL"
        if "cpu-bind" not in context.spec.launcher.srun:
            yield _cpu_bind(shape)

    def probe(self, context: Context) -> Iterator[Option]:
        """On every node the ranks' own size and binding, so that the preflight sees what they will have.

        A node that fails, or that cannot even be reached, must not take the reports of the others with it, whatever the
        site's KillOnBadExit and WaitTime say.
        """
        srun, shape = context.spec.launcher.srun, context.topology
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
        """Seconds that the other ranks may go on after the first has ended."""
        yield "RANKZERO_WAIT", str(context.spec.launcher.wait)
