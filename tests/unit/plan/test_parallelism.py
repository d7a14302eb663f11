# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parallelism against the world size, and the memory of experts, with a worked case."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects import parallelism
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.validate import validated
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer, merge


def spec(
    nodes: int = 1, gpus: int = 8, gpu_type: str = "h100", launcher: dict[str, Any] | None = None, **wanted: Any
) -> LaunchSpec:
    data = {
        "name": "job",
        "command": ["train.py"],
        "resources": {"nodes": nodes, "gpus_per_node": gpus, "gpu_type": gpu_type},
        "launcher": launcher or {},
        "parallelism": wanted,
    }
    return validated(merge([Layer("job", data)]))


def mistakes(**wanted: Any) -> list[str]:
    with pytest.raises(SpecError) as caught:
        spec(**wanted)
    return caught.value.problems


def test_sizes_that_multiply_to_the_world_size_pass() -> None:
    fitting = spec(nodes=4, tensor=4, pipeline=2, context=2, attention_heads=32, query_groups=8)
    assert parallelism.data_parallel_size(fitting) == 2


def test_sizes_that_do_not_divide_the_world_size_are_named_with_the_numbers() -> None:
    (problem,) = mistakes(nodes=2, tensor=4, pipeline=3)
    assert "tensor 4 x pipeline 3 x context 1 = 12 does not divide the 16 ranks" in problem
    assert "12 and 24" in problem


def test_heads_and_groups_against_tensor() -> None:
    first, second = mistakes(tensor=4, attention_heads=30, query_groups=6)
    assert "attention_heads: 30 is not divisible by tensor 4" in first and "1, 2, 3, 5, 6, 10, 15" in first
    assert "query_groups: 6 is not divisible by tensor 4" in second


def test_expert_divides_the_ranks_of_a_stage_and_the_experts() -> None:
    (problem,) = mistakes(nodes=2, pipeline=2, expert=16, experts=64)
    assert "16 does not divide the 8 ranks of a pipeline stage" in problem
    (problem,) = mistakes(expert=8, experts=12)
    assert "8 does not divide the 12 experts" in problem
    (problem,) = mistakes(expert=8)
    assert "without parallelism.experts" in problem


def test_global_batch_is_a_multiple_of_micro_batch_times_data_parallel() -> None:
    assert spec(nodes=2, tensor=2, global_batch=64, micro_batch=2)
    (problem,) = mistakes(nodes=2, tensor=2, global_batch=60, micro_batch=2)
    assert "60 is not a multiple of micro_batch 2 x data parallel 8 = 16; 48 is" in problem


# 256 experts, about 460 GB in bf16: 0.9 billion parameters an expert.
WORKED = {"experts": 256, "expert_parameters": 900_000_000}


@pytest.mark.parametrize(
    ("nodes", "expert", "load", "infer", "train"),
    [
        (1, 4, False, False, False),  # 8 GPUs: out of memory
        (2, 8, True, False, False),  # 16 GPUs: loads, cannot infer
        (2, 16, True, True, False),  # infers
        (8, 32, True, True, True),  # 64 GPUs: trains
    ],
)
def test_the_worked_case(nodes: int, expert: int, load: bool, infer: bool, train: bool) -> None:
    for purpose, fits in (("load", load), ("infer", infer), ("train", train)):
        warned = parallelism.warnings(spec(nodes=nodes, expert=expert, purpose=purpose, **WORKED))
        assert (not warned) == fits, (purpose, warned)


def test_the_warning_says_the_numbers_and_what_would_fit() -> None:
    (warning,) = parallelism.warnings(spec(nodes=1, expert=4, purpose="load", **WORKED))
    assert "64 a GPU, 115.2 GB of bf16 weights" in warning
    assert "parallelism.expert: 8 or more would fit" in warning


def test_the_gpus_of_a_rank_that_has_all_of_its_node_are_what_is_divided() -> None:
    given: dict[str, Any] = {"launcher": {"gpus": "node"}, "nodes": 2}
    fitting = spec(**given, tensor=8, pipeline=2)
    assert dict(parallelism.exports(fitting))["RANKZERO_DP"] == "1" and parallelism.group_nodes(fitting) == 1
    (problem,) = mistakes(**given, tensor=3)
    assert "does not divide the 16 GPUs" in problem


def test_a_larger_gpu_holds_more() -> None:
    assert parallelism.warnings(spec(nodes=2, expert=8, purpose="infer", **WORKED))
    assert not parallelism.warnings(spec(nodes=2, expert=8, purpose="infer", gpu_type="h200", **WORKED))
    assert not parallelism.warnings(spec(nodes=2, expert=8, purpose="infer", gpu_type="x", gpu_memory=192, **WORKED))


def test_the_program_gets_the_sizes_that_were_checked() -> None:
    asked = {"tensor": 2, "pipeline": 2, "micro_batch": 1, "global_batch": 16, "strategy": "megatron"}
    made = spec(nodes=2, **asked)
    assert dict(parallelism.exports(made)) == {
        "RANKZERO_TP": "2",
        "RANKZERO_PP": "2",
        "RANKZERO_CP": "1",
        "RANKZERO_EP": "1",
        "RANKZERO_DP": "4",
        "RANKZERO_MBS": "1",
        "RANKZERO_GBS": "16",
    }
    assert parallelism.exports(spec(nodes=2)) == []


def segments(**resources: Any) -> list[str]:
    data = {"name": "j", "command": ["t"], "resources": {"nodes": 8, "gpus_per_node": 8, **resources}}
    try:
        validated(merge([Layer("job", {**data, "parallelism": {"tensor": 16}})]))
    except SpecError as error:
        return error.problems
    return []


def test_a_segment_divides_the_nodes_with_their_spares_and_holds_whole_groups() -> None:
    assert segments(segment=4) == [] and segments(segment=2, spares=2) == []
    assert segments(segment=4, spares=2) == [
        "resources.segment: 4 does not divide 10 nodes (8 and 2 spares); the next that fit are 8 and 12 (set in job)"
    ]
    (problem,) = segments(segment=1)
    assert "cuts groups of parallelism.tensor: 16 ranks at 8 a node are 2 nodes; use a multiple of 2 (set in" in problem


def test_the_job_is_told_how_many_nodes_belong_together_only_where_it_is_more_than_one() -> None:
    assert parallelism.group_nodes(spec(nodes=2, tensor=8)) == 1
    assert parallelism.group_nodes(spec(nodes=4, tensor=8, expert=32, experts=32)) == 4
    assert parallelism.group_size(spec(nodes=4, tensor=16).parallelism) == ("tensor", 16)
