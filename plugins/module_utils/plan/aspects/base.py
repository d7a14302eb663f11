# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The protocol of an aspect: one topic of a launch, with its rules and its part of the plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.container import Entry
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Site, Upstream
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.topology import (
    Topology,
    components,
    job_topology,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Finding, Option


@dataclass(frozen=True)
class Context:
    """What is known about a launch before its aspects are evaluated: its size, its location and its predecessors."""

    spec: LaunchSpec
    site: Site
    topology: Topology
    job_name: str
    run_dir: str
    after: tuple[Upstream, ...] = ()
    container: Entry | None = None
    # The dotted paths of the values that a layer has set.
    given: frozenset[str] = frozenset()

    @cached_property
    def job(self) -> Topology:
        """What the job asks of Slurm: the nodes of all roles."""
        return job_topology(self.spec, self.site.settings.launchers)

    @cached_property
    def components(self) -> tuple[LaunchSpec, ...]:
        """What each component of the job asks for."""
        return components(self.spec)


class Aspect(Protocol):
    """An aspect of a launch. The plan combines the results of all aspects, in their order.

    A method returns nothing if the aspect has nothing to add. `findings`: rules between the values of a spec
    (`settings`: those of the cluster). `header`: lines of the job. `step`: options of the ranks' step. `probe`: options
    of the preflight's step. `exports`: variables of the batch script.
    """

    def findings(self, spec: LaunchSpec, settings: ClusterSettings) -> Iterable[Finding]:
        """Return the contradictions in `spec` and what cannot work. `settings`: what the cluster declares."""
        return ()

    def header(self, context: Context) -> Iterable[Option]:
        """Return options for the `#SBATCH` lines of the batch script: (name without dashes, value)."""
        return ()

    def step(self, context: Context) -> Iterable[Option]:
        """Return options of the srun that starts the ranks: (name without dashes, value)."""
        return ()

    def probe(self, context: Context) -> Iterable[Option]:
        """Return options of the srun that starts the preflight: (name without dashes, value)."""
        return ()

    def exports(self, context: Context) -> Iterable[tuple[str, str]]:
        """Return variables that the batch script exports: (name, unquoted value)."""
        return ()
