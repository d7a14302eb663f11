# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which variables follow from hardware, parallelism and fabric; a conflict names both sides."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.variables import (
    CACHES,
    OFFLINE,
    generation,
    variables,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fabrics import (
    FABRICS,
    OWN_FABRICS,
    Setting,
    expired,
    fabric,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, Merged, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Invalid

CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"


def layers(gpu: str | None = "h100", env: dict[str, str] | None = None, fabric: str = "auto", **spread: Any) -> Merged:
    resources = {"nodes": 2, **({"gpus_per_node": 8, "gpu_type": gpu} if gpu else {})}
    data = {"name": "job", "command": ["x"], "resources": resources, "parallelism": spread, "env": env or {}}
    return merge([Layer("job.yml", {**data, "fabric": fabric})])


def chosen(merged: Merged, own: dict[str, tuple[Setting, ...]] | None = None) -> dict[str, str]:
    spec = validated(merged, (), ClusterSettings(fabrics=own or {}))
    return {variable.name: variable.value for variable in variables(spec, merged, None, own)}


def problem(merged: Merged) -> str:
    with pytest.raises(SpecError) as caught:
        validated(merged)
    (text,) = caught.value.problems
    return text


@pytest.mark.parametrize(
    ("merged", "expected"),
    [
        (layers(), None),
        (layers(tensor=2), "1"),
        (layers("a100", tensor=2), "1"),
        (layers("nvidia_h200", context=2, strategy="megatron"), "1"),
        (layers("b200", tensor=2), None),
        (layers("mi300x", tensor=2), None),
        (layers("unknown", tensor=2), None),
        (layers(tensor=2, strategy="fsdp"), None),
        (layers(tensor=2, strategy="fsdp2"), None),
        (layers(tensor=2, strategy="megatron_fsdp"), None),
        (layers(expert=8, experts=64, expert_overlap=True), "32"),
        (layers(expert=8, experts=64), None),
        (layers("b200", expert=8, experts=64, expert_overlap=True), None),
    ],
)
def test_connections_by_rule(merged: Merged, expected: str | None) -> None:
    assert chosen(merged).get(CONNECTIONS) == expected


def test_a_value_of_the_job_that_agrees_stands_and_says_who_set_it() -> None:
    merged = layers(tensor=2, env={CONNECTIONS: "1"})
    (found,) = [item for item in variables(validated(merged), merged, None) if item.name == CONNECTIONS]
    assert (found.value, found.set_by) == ("1", "job.yml")


def test_conflicts_name_both_sides() -> None:
    text = problem(layers(tensor=2, env={CONNECTIONS: "8"}))
    assert text.startswith(f"env.{CONNECTIONS}: 8 conflicts: it must be 1, because tensor 2, context 1 on hopper")
    text = problem(layers(strategy="fsdp2", env={CONNECTIONS: "1"}))
    assert "may not be 1, because parallelism.strategy fsdp2 overlaps" in text
    text = problem(layers(tensor=2, expert=4, experts=64, expert_overlap=True))
    assert "two rules disagree: 1 because tensor 2" in text and "32 because expert 4" in text
    assert (
        chosen(layers(tensor=2, expert=4, experts=64, expert_overlap=True, env={CONNECTIONS: "32"}))[CONNECTIONS]
        == "32"
    )


def test_auto_sets_nothing_of_the_network() -> None:
    recorder = ("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_DUMP_ON_TIMEOUT")
    names = [name for name in chosen(layers()) if name not in recorder]
    network = [name for name in names if name.startswith(("NCCL", "FI_", "GLOO", "TORCH_NCCL"))]
    assert network == ["NCCL_DEBUG"]


@pytest.mark.parametrize("fabric", [item.name for item in FABRICS])
def test_each_fabric_sets_its_variables_each_with_a_reason(fabric: str) -> None:
    merged = layers(fabric=fabric)
    known = next(item for item in FABRICS if item.name == fabric)
    found = {
        item.name: item for item in variables(validated(merged), merged, None) if item.source == f"fabric {fabric}"
    }
    assert {name: item.value for name, item in found.items()} == {item.name: item.value for item in known.settings}
    assert all(item.reason for item in found.values())


def test_a_clusters_own_fabric_replaces_ours_and_the_job_wins_over_both() -> None:
    own = OWN_FABRICS.parse({"roce": {"NCCL_IB_GID_INDEX": {"value": "1", "reason": "measured"}, "NCCL_NET": "IB"}})
    assert chosen(layers(fabric="roce"), own)["NCCL_IB_GID_INDEX"] == "1"
    assert chosen(layers(fabric="roce", env={"NCCL_IB_GID_INDEX": "0"}), own)["NCCL_IB_GID_INDEX"] == "0"
    added = OWN_FABRICS.parse({"site": {"X": 1}})
    assert chosen(layers(fabric="site"), added)["X"] == "1"


def test_a_workaround_says_of_which_versions_and_until_when() -> None:
    (found,) = [
        item for item in variables(validated(layers(fabric="roce")), layers(fabric="roce"), None) if item.workaround
    ]
    assert (found.name, found.workaround) == ("NCCL_IB_GID_INDEX", "for NCCL before 2.21, until 2027-06-30")
    own = OWN_FABRICS.parse(
        {
            "x": {
                "A": {"value": "0", "version": "NCCL 2.19", "expires": "2026-01-31"},
                "B": {"value": 1, "expires": "2026-02-01"},
            }
        }
    )
    known = fabric("x", own)
    assert known is not None
    assert expired(known, date(2026, 1, 31)) == []
    (sentence,) = expired(known, date(2026, 2, 1))
    assert sentence.startswith("fabric x: A=0 works around NCCL 2.19 and expired on 2026-01-31")
    assert len(expired(known, date(2026, 2, 2))) == 2
    merged = layers(fabric="x")
    assert {
        item.set_by
        for item in variables(validated(merged, (), ClusterSettings(fabrics=own)), merged, None, own)
        if item.source == "fabric x"
    } == {"launch_cluster.fabrics"}
    with pytest.raises(Invalid, match="has the expiry 'soon', not a date such as 2027-06-30"):
        OWN_FABRICS.parse({"x": {"A": {"value": "0", "expires": "soon"}}})


def test_every_workaround_of_ours_says_when_to_look_at_it_again() -> None:
    for known in FABRICS:
        for item in known.settings:
            assert bool(item.version) == bool(item.expires), (known.name, item.name)


def test_caches_and_offline_are_policy_and_the_job_wins() -> None:
    merged = merge(
        [Layer("launch_cluster", {"offline": True}), *[Layer("job.yml", layers(env={"HF_HOME": "/own"}).data)]]
    )
    found = {item.name: item for item in variables(validated(merged), merged, None, caches="/c")}
    assert (found["HF_HOME"].value, found["HF_HOME"].set_by) == ("/own", "job.yml")
    assert (found["UV_CACHE_DIR"].value, found["UV_CACHE_DIR"].source) == ("/c/uv", "caches")
    assert (found["HF_HUB_OFFLINE"].value, found["HF_HUB_OFFLINE"].set_by) == ("1", "launch_cluster")
    assert found["TOKENIZERS_PARALLELISM"].value == "false"
    plain = {item.name for item in variables(validated(layers()), layers(), None)}
    assert not plain & {*CACHES, *OFFLINE}


def test_an_unknown_fabric_is_an_error_with_the_nearest_name() -> None:
    text = problem(layers(fabric="infiniband_h10"))
    assert "did you mean infiniband_h100?" in text and "known: auto, " in text


@pytest.mark.parametrize("bad", [[], {"X": []}, {"x": {"1A": "v"}}, {"x": {"A": {"reason": "r"}}}, {"x": {"A": True}}])
def test_fabrics_of_a_cluster_that_are_wrong(bad: object) -> None:
    with pytest.raises(Invalid):
        OWN_FABRICS.parse(bad)


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        ("h100", "hopper"),
        ("nvidia_h100_80gb", "hopper"),
        ("A100-SXM", "ampere"),
        ("GB200", "blackwell"),
        ("x", None),
        (None, None),
    ],
)
def test_generation(gpu: str | None, expected: str | None) -> None:
    assert generation(gpu) == expected
