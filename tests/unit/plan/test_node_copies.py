# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job is told about copying code and environment, and when the cluster's settings forbid it."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.node_copies import NodeCopies, kept
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from tests.plans import context

REFS = [
    Ref("code", "c0", "/store/code/c0"),
    Ref("environment", "e5", "/store/environments/e5"),
    Ref("runtime", "44", "/state/runtime/44"),
]
CONTAINER = {"runtime": "apptainer", "image": "/images/torch.sif"}


def spec(**data: Any) -> LaunchSpec:
    return validated(merge([Layer("job", {"name": "job", "command": ["x"], **data})]))


def told(settings: ClusterSettings | None = None, **data: Any) -> dict[str, str]:
    return dict(NodeCopies().exports(context(spec(**data), settings)))


def test_a_job_copies_what_is_missing_unless_it_is_told_not_to() -> None:
    assert told() == {"RANKZERO_STAGE": "missing", "RANKZERO_STAGE_BUDGET": "600"}
    assert told(preflight={"stage": "always", "stage_budget": 90}) == {
        "RANKZERO_STAGE": "always",
        "RANKZERO_STAGE_BUDGET": "90",
    }
    assert told(preflight={"stage": "never"}) == {}
    assert told(preflight={"enabled": False}) == {}
    # A container's mounts are the same on every node.
    assert told(container=CONTAINER) == {}


def test_the_clusters_own_places_are_told() -> None:
    settings = ClusterSettings(local_dir="/local/scratch", store_shared=False)
    found = told(settings)
    assert (found["RANKZERO_LOCAL_DIR"], found["RANKZERO_ARCHIVES"]) == ("/local/scratch", "/state/archives")


def test_what_the_nodes_do_not_see_is_packed_and_the_runtime_is_not() -> None:
    assert kept(REFS, spec(), ClusterSettings(), "/state") == []
    assert kept(REFS, spec(), ClusterSettings(store_shared=False), "/state") == [
        {"folder": "/store/code/c0", "archive": "/state/archives/code-c0.tar"},
        {"folder": "/store/environments/e5", "archive": "/state/archives/environment-e5.tar"},
    ]


def test_packages_are_not_packed() -> None:
    """Each node makes its environment from the store itself."""
    refs = [REFS[0], Ref("packages", "a7", "/store/packages/a7")]
    wanted = spec(environment={"mode": "cache"}, preflight={"enabled": False})
    assert kept(refs, wanted, ClusterSettings(), "/state") == []
    with pytest.raises(SpecError, match=r"environment\.mode: cache .*the nodes do not see.*use venv"):
        kept(refs, spec(environment={"mode": "cache"}), ClusterSettings(store_shared=False), "/state")
    # It needs to know the nodes' disk also where nothing is copied.
    local = context(wanted, ClusterSettings(local_dir="/local"))
    assert dict(NodeCopies().exports(local)) == {"RANKZERO_LOCAL_DIR": "/local"}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"preflight": {"stage": "never"}}, "preflight.stage is never"),
        ({"preflight": {"enabled": False}}, "preflight.enabled is false"),
        ({"container": CONTAINER}, "container.runtime is apptainer, which mounts them from shared storage"),
    ],
)
def test_a_store_that_no_node_sees_and_a_job_that_may_not_copy(data: dict[str, Any], why: str) -> None:
    with pytest.raises(SpecError) as error:
        kept(REFS, spec(**data), ClusterSettings(store_shared=False), "/state")
    assert (
        f"launch_cluster.store_shared: false means that code and environment are copied to the nodes, but {why};"
        in (error.value.problems[0])
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"preflight": {"stage": "always", "enabled": False}}, "preflight.stage: always needs the preflight"),
        ({"preflight": {"stage": "always"}, "container": CONTAINER}, "has no effect with container.runtime apptainer"),
        ({"preflight": {"stage": "sometimes"}}, "must be one of missing, never, always"),
    ],
)
def test_what_cannot_be_asked_together(data: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as error:
        spec(**data)
    assert message in "".join(error.value.problems)
