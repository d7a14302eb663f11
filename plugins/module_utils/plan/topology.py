# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many tasks and ranks run where. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.launchers import Starter, starter


@dataclass(frozen=True)
class Topology:
    """`tasks_per_node` are Slurm's, `ranks_per_node` torch's: equal under srun, one task a node under torchrun.

    `rendezvous` is how torch.distributed.run's nodes meet: static, c10d or standalone; None under srun.
    """

    starter: Starter
    nodes: int
    ranks_per_node: int
    tasks_per_node: int
    cpus_per_task: int
    rendezvous: str | None = None

    @property
    def launcher(self) -> str:
        """Whose variables say which rank a process is: `srun` or `torchrun`, as the job's scripts read it."""
        return self.starter.names

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return self.nodes * self.ranks_per_node

    @property
    def tasks(self) -> int:
        """The number of Slurm tasks; fewer than ranks where the launcher starts the ranks of a node."""
        return self.nodes * self.tasks_per_node

    @property
    def cpus_per_node(self) -> int:
        """CPUs that the tasks of one node ask for."""
        return self.tasks_per_node * self.cpus_per_task


def topology(spec: LaunchSpec) -> Topology:
    """Nodes, ranks and tasks of a spec. Without `launcher.ranks_per_node`, one rank per GPU, else one per node."""
    ranks = spec.launcher.ranks_per_node or spec.resources.gpus_per_node or 1
    cpus = spec.resources.cpus_per_rank
    row = starter(spec.launcher.kind)
    if row.per == "rank":
        return Topology(row, spec.resources.nodes, ranks, ranks, cpus)
    # Exactly one task a node: one a GPU would start the square of the ranks.
    rendezvous = spec.launcher.rendezvous if row.rendezvous else row.meeting
    return Topology(row, spec.resources.nodes, ranks, 1, cpus * ranks, rendezvous)
