# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ranks' container as an aspect of the plan. plan/container.py decides how the ranks enter it."""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.rankzero.slurm.plugins.module_utils.plan import container
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.base import Aspect, Context
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Finding, Options


class Container(Aspect):
    """The container of the ranks. The rules and options come from `plan.container`."""

    def findings(self, spec: LaunchSpec, settings: ClusterSettings) -> Iterable[Finding]:
        """Return contradictions between options of `container`, and options that the runtime does not have."""
        return container.findings(spec, settings.containers)

    def exports(self, context: Context) -> Iterable[tuple[str, str]]:
        """Return what the job's programs must know of a runtime that the cluster has declared."""
        if context.container and context.container.facts:
            yield "RANKZERO_CONTAINER_FACTS", context.container.facts

    def header(self, context: Context) -> Options:
        """Return the options that the runtime needs in the header of the batch script."""
        return context.container.header if context.container else ()

    def step(self, context: Context) -> Options:
        """Return the options that the runtime needs on the ranks' step."""
        return context.container.step if context.container else ()
