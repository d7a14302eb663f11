# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan in one call, for tests and benchmarks that name only what they care about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.plan import plan as real
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.base import Context
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Inputs, Site, Standing, Upstream
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.topology import topology
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Merged
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.environment import Environment


def plan(
    spec: LaunchSpec,
    merged: Merged,
    *,
    code_key: str,
    runtime_key: str,
    state_root: str,
    store_root: str,
    environment_key: str | None = None,
    of_roles: Mapping[Environment, str] | None = None,
    packages_key: str | None = None,
    adopted_key: str | None = None,
    adopted: Mapping[str, Standing] | None = None,
    image_key: str | None = None,
    conda: bool = False,
    settings: ClusterSettings | None = None,
    caches: str | None = None,
    container_places: tuple[str, str | None] | None = None,
    after: Sequence[Upstream] = (),
) -> real.Plan:
    path = spec.environment.path if adopted_key or conda else None
    there = {path: Standing(adopted_key or "k", conda)} if path else {}
    inputs = Inputs(
        code=code_key,
        runtime=runtime_key,
        environment=environment_key,
        of_roles=of_roles or {},
        packages=packages_key,
        adopted={**there, **(adopted or {})},
        image=image_key,
        after=tuple(after),
    )
    site = Site(state_root, store_root, settings or ClusterSettings(), caches)
    return real.plan(spec, merged, inputs, site, container_places)


def context(spec: LaunchSpec, settings: ClusterSettings | None = None) -> Context:
    """What an aspect is asked with."""
    site = Site("/state", "/store", settings or ClusterSettings())
    return Context(
        spec, site, topology(spec, site.settings.launchers), f"{spec.name}.k.1", f"/state/runs/{spec.name}/k/1"
    )
