# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check of each node before the ranks start: rules for its options, and its settings in the job's script."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.base import Aspect, Context
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.topology import job_gpus
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.preflight import size_bytes
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Finding, Option


class Preflight(Aspect):
    """The checks of every node before the ranks start."""

    def findings(self, spec: LaunchSpec, settings: ClusterSettings) -> Iterator[Finding]:
        """Yield spare nodes that could never be used, and a requeue that the spec forbids elsewhere."""
        preflight, resources, checkpoint = spec.preflight, spec.resources, spec.checkpoint
        if resources.spares and not preflight.enabled:
            yield (
                ["resources.spares", "preflight.enabled"],
                (
                    f"resources.spares: {resources.spares} spare nodes, but without the preflight nothing "
                    "decides which are needed: preflight.enabled is false; change one of the two"
                ),
            )
        elif resources.spares and preflight.on_failure == "stop":
            yield (
                ["resources.spares", "preflight.on_failure"],
                (
                    f"resources.spares: {resources.spares} spare nodes, but preflight.on_failure is stop, which uses "
                    "none; make it replace or requeue, or ask for no spares"
                ),
            )
        if preflight.on_failure != "requeue":
            return
        if checkpoint.requeue is False:
            yield (
                ["preflight.on_failure", "checkpoint.requeue"],
                (
                    "preflight.on_failure: requeue, but checkpoint.requeue: false forbids every requeue; leave one of "
                    "the two out"
                ),
            )
        for name in ("requeue", "no-requeue"):
            if name in resources.sbatch:
                path = f"resources.sbatch.{name}"
                yield (
                    [path, "preflight.on_failure"],
                    f"{path}: preflight.on_failure requeue sets this already; remove one of them",
                )

    def header(self, context: Context) -> Iterator[Option]:
        """Allow the job to requeue itself, regardless of the site's JobRequeue (sbatch(1), slurm.conf(5))."""
        asked = context.spec.preflight
        if asked.enabled and asked.on_failure == "requeue" and context.spec.checkpoint.requeue is None:
            yield "requeue", True

    def exports(self, context: Context) -> Iterator[tuple[str, str]]:
        """Yield what to check and how to treat a node that fails. Free space is in bytes. Empty if the preflight is
        off.
        """
        asked = context.spec.preflight
        if not asked.enabled:
            return
        yield "RANKZERO_PREFLIGHT_IMPORTS", " ".join([*asked.imports, *_required(context)])
        yield "RANKZERO_PREFLIGHT_POLICY", asked.on_failure
        yield "RANKZERO_PREFLIGHT_SLOW", asked.slow
        yield "RANKZERO_EXCLUDE_FOR", str(asked.exclude_for)
        yield "RANKZERO_FREE_RUN", str(size_bytes(asked.free_run))
        yield "RANKZERO_FREE_TMP", str(size_bytes(asked.free_tmp))
        if asked.on_failure == "requeue":
            yield "RANKZERO_PREFLIGHT_RESTARTS", str(context.spec.checkpoint.max_restarts)
        if job_gpus(context.spec):
            yield "RANKZERO_GPU_HEALTH", asked.gpu_health
            types = {component.resources.gpu_type for component in context.components if job_gpus(component)}
            if len(types) == 1 and None not in types:
                yield "RANKZERO_GPU_TYPE", str(types.pop())
        if asked.all_reduce:
            yield "RANKZERO_ALL_REDUCE", str(asked.all_reduce)


def _required(context: Context) -> list[str]:
    """Return the packages that the launcher needs, where the preflight can look for them.

    `?` means that a package must be there. It is not imported, which takes long on some file systems.
    """
    if not context.spec.one_container or (context.container and context.container.kind.unseen):
        return []
    asked = {name.partition("@")[0] for name in context.spec.preflight.imports}
    missing = [name for name in context.topology.starter.packages if name not in asked]
    return [f"?{name}:{context.spec.launcher.kind}" for name in missing]
