# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job's settings for copying code and environment to nodes that lack them. Pure; the runtime does the copying."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.base import Aspect, Context
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.environment import ON_NODES
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Finding


def stages(spec: LaunchSpec) -> bool:
    """Return whether a node may get a copy at all. A container mounts the shared paths, the same on every node."""
    return spec.preflight.enabled and spec.preflight.stage != "never" and not spec.contained


class NodeCopies(Aspect):
    """Copies of code and environment on the nodes' own disks (`preflight.stage`)."""

    def findings(self, spec: LaunchSpec, settings: ClusterSettings) -> Iterator[Finding]:
        """Yield `stage: always` if nothing would be copied."""
        if spec.preflight.stage != "always":
            return
        if not spec.preflight.enabled:
            yield (
                ["preflight.stage", "preflight.enabled"],
                "preflight.stage: always needs the preflight, which does the copying; leave preflight.enabled out",
            )
        if spec.container.runtime != "none":
            yield (
                ["preflight.stage", "container.runtime"],
                (
                    f"preflight.stage: always has no effect with container.runtime {spec.container.runtime}, which "
                    "mounts code and environment from shared storage; leave it out"
                ),
            )

    def exports(self, context: Context) -> Iterator[tuple[str, str]]:
        """Yield when to copy, the time limit in seconds, and the archives' folder if the nodes do not see the store."""
        spec, settings = context.spec, context.site.settings
        if settings.local_dir and (stages(spec) or spec.environment.mode in ON_NODES):
            yield "RANKZERO_LOCAL_DIR", settings.local_dir
        if not stages(spec):
            return
        yield "RANKZERO_STAGE", spec.preflight.stage
        yield "RANKZERO_STAGE_BUDGET", str(spec.preflight.stage_budget)
        if not settings.store_shared:
            yield "RANKZERO_ARCHIVES", archives(context.site.state_root)


def archives(state_root: str) -> str:
    """Return the folder of the packed code and environments that nodes copy."""
    return f"{state_root}/archives"


def kept(refs: Sequence[Ref], spec: LaunchSpec, settings: ClusterSettings, state_root: str) -> list[dict[str, str]]:
    """Return what must be packed before the job is submitted: (folder, archive) of each item that the nodes do not see.

    Raises SpecError if the store is not shared and the job may not copy.
    """
    if settings.store_shared:
        return []
    if not stages(spec):
        why = (
            f"container.runtime is {spec.container.runtime}, which mounts them from shared storage"
            if spec.container.runtime != "none"
            else "preflight.enabled is false"
            if not spec.preflight.enabled
            else "preflight.stage is never"
        )
        raise SpecError(
            [
                (
                    "launch_cluster.store_shared: false means that code and environment are copied to the nodes, but "
                    f"{why}; change that, or name a store_root that the nodes see"
                )
            ]
        )
    if any(ref.declared.read_in_store for ref in refs):
        raise SpecError(
            [
                (
                    f"environment.mode: {spec.environment.mode} is made by each node from packages in the store, which "
                    "the nodes do not see (launch_cluster.store_shared: false); use venv, which is copied to them"
                )
            ]
        )
    # The job looks for archives with this name.
    return [
        {"folder": ref.path, "archive": f"{archives(state_root)}/{ref.kind}-{ref.key}.tar"}
        for ref in refs
        if ref.declared.copied
    ]
