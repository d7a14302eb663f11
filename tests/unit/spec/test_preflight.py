# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Spare nodes and the policies of the preflight, as the spec asks for them and as the script gets them."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.preflight import Preflight
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.plan import Plan
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.summary import summary
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections import preflight
from tests.plans import context, plan


def planned(**data: Any) -> Plan:
    merged = merge([Layer("job", {"name": "job", "command": ["a"], **data})])
    return plan(
        validated(merged),
        merged,
        code_key="c",
        environment_key=None,
        runtime_key="r",
        state_root="/state",
        store_root="/store",
    )


def test_spare_nodes_are_asked_for_and_looked_at_but_run_no_ranks() -> None:
    made = planned(resources={"nodes": 4, "spares": 2}, launcher={"ranks_per_node": 2})
    header, probe, step = dict(made.header), dict(made.probe), dict(made.step)
    assert (header["nodes"], probe["nodes"], probe["ntasks"]) == ("6", "6", "12")
    assert (step["nodes"], step["ntasks"], made.topology.world_size) == ("4", "8", 8)
    assert made.key == planned(resources={"nodes": 4}, launcher={"ranks_per_node": 2}).key
    assert "4 nodes (and 2 spare nodes) x 2 ranks = 8 ranks" in summary(made)[2]


def test_one_bad_node_does_not_end_the_look_at_the_others() -> None:
    assert {("kill-on-bad-exit", "0"), ("wait", "0"), ("no-kill", True)} <= set(planned().probe)


def told(**data: Any) -> dict[str, str]:
    return dict(Preflight().exports(context(planned(**data).spec)))


def test_the_script_learns_what_the_policy_is() -> None:
    assert told() == {
        "RANKZERO_PREFLIGHT_IMPORTS": "",
        "RANKZERO_PREFLIGHT_POLICY": "replace",
        "RANKZERO_PREFLIGHT_SLOW": "warn",
        "RANKZERO_EXCLUDE_FOR": "86400",
        "RANKZERO_FREE_RUN": str(100 << 20),
        "RANKZERO_FREE_TMP": str(100 << 20),
    }
    asked = {"on_failure": "requeue", "all_reduce": 64, "free_run": "2T", "free_tmp": "0", "imports": ["json", "csv"]}
    found = told(preflight=asked, resources={"gpus_per_node": 2}, checkpoint={"max_restarts": 2})
    expected = {
        "RANKZERO_PREFLIGHT_IMPORTS": "json csv",
        "RANKZERO_PREFLIGHT_RESTARTS": "2",
        "RANKZERO_ALL_REDUCE": "64",
        "RANKZERO_GPU_HEALTH": "fail",
        "RANKZERO_FREE_RUN": str(2 << 40),
        "RANKZERO_FREE_TMP": "0",
    }
    assert found.items() >= expected.items()
    assert told(preflight={"enabled": False}) == {}


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("7K", 7 << 10), ("7", 7 << 20), ("7M", 7 << 20), ("7G", 7 << 30), ("1T", 1 << 40)]
)
def test_sizes_are_read_as_sbatch_reads_them(text: str, size: int) -> None:
    assert preflight.size_bytes(text) == size


@pytest.mark.parametrize("wrong", ["7GB", "", "-1", "1.5G"])
def test_what_is_no_size(wrong: str) -> None:
    with pytest.raises(ValueError):
        preflight.size_bytes(wrong)
    with pytest.raises(SpecError, match=r"preflight\.free_tmp: must be a size such as 10G"):
        planned(preflight={"free_tmp": wrong})


@pytest.mark.parametrize(
    ("data", "asked"),
    [
        ({}, False),
        ({"preflight": {"on_failure": "replace"}}, False),
        ({"preflight": {"on_failure": "requeue"}}, True),
        ({"preflight": {"on_failure": "requeue"}, "checkpoint": {"requeue": True}}, True),
    ],
)
def test_a_job_that_requeues_itself_asks_to_be_allowed_to(data: dict[str, Any], asked: bool) -> None:
    """Once: a site with JobRequeue=0 would refuse it otherwise."""
    assert [name for name, _value in planned(**data).header if "requeue" in name] == (["requeue"] if asked else [])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            {"resources": {"spares": 1}, "preflight": {"enabled": False}},
            "resources.spares: 1 spare nodes, but without the preflight",
        ),
        (
            {"resources": {"spares": 1}, "preflight": {"on_failure": "stop"}},
            "resources.spares: 1 spare nodes, but preflight.on_failure is stop, which uses none",
        ),
        (
            {"preflight": {"on_failure": "requeue"}, "checkpoint": {"requeue": False}},
            "preflight.on_failure: requeue, but checkpoint.requeue: false forbids every requeue",
        ),
        (
            {"preflight": {"on_failure": "requeue"}, "resources": {"sbatch": {"no-requeue": True}}},
            "resources.sbatch.no-requeue: preflight.on_failure requeue sets this already",
        ),
    ],
)
def test_what_does_not_fit_together(data: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as raised:
        planned(**data)
    assert said in raised.value.message


def test_an_import_may_name_its_origin() -> None:
    asked = [{"name": "megatron.core", "from": "code"}, {"name": "bridge", "from": "/opt/bridge/src"}, "torch"]
    names = told(preflight={"imports": asked})["RANKZERO_PREFLIGHT_IMPORTS"]
    assert names == "megatron.core@code bridge@/opt/bridge/src torch"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": "a"}, "must have the keys name and from"),
        ({"name": "a", "from": "here"}, "from: must be code, or an absolute path"),
        ({"name": "a b", "from": "code"}, "must be the name of a module"),
        ("a@code", "must be the name of a module"),
    ],
)
def test_an_origin_that_is_none(wrong: object, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        planned(preflight={"imports": [wrong]})
