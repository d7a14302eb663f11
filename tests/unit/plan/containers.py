# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of containers share: a job with one, read or planned."""

from __future__ import annotations

from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from tests.plans import plan

IMAGE = "/images/torch.sqsh"
PYXIS = {"runtime": "pyxis", "image": IMAGE}
APPTAINER = {"runtime": "apptainer", "image": "/images/torch.sif"}
OCI = {"runtime": "oci", "image": "/images/torch"}


def problems(container: dict[str, Any], settings: ClusterSettings | None = None, **data: Any) -> list[str]:
    given = {"name": "job", "command": ["train.py"], "container": container, **data}
    try:
        validated(merge([Layer("job", given)]), (), settings)
    except SpecError as error:
        return [problem.replace(" (set in job)", "") for problem in error.problems]
    return []


def planned(
    container: dict[str, Any],
    roots: tuple[str, str] = ("/state", "/store"),
    settings: ClusterSettings | None = None,
    **data: Any,
) -> Plan:
    merged = merge([Layer("job", {"name": "job", "command": ["train.py"], "container": container, **data})])
    return plan(
        validated(merged, (), settings),
        merged,
        code_key="c0de",
        environment_key="e5e5",
        runtime_key="4444",
        state_root=roots[0],
        store_root=roots[1],
        settings=settings,
    )


def step(container: dict[str, Any], **data: Any) -> dict[str, str | bool]:
    return dict(planned(container, **data).step)
