# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Section `parallelism` of the job spec: how the model is split over the ranks."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import option


@dataclass(frozen=True)
class Parallelism:
    """Section `parallelism`: how the model is split over the ranks."""

    strategy: str = option(
        t.choice("ddp", "fsdp", "fsdp2", "megatron_fsdp", "megatron"),
        "How the model is distributed; some variables depend on it.",
        "ddp",
        example="megatron",
    )
    tensor: int = option(
        t.integer(1),
        "Tensor parallel size (TP).",
        1,
        short="tp",
        example=2,
        also=("tensor_parallel_size", "tensor_model_parallel_size"),
    )
    pipeline: int = option(
        t.integer(1),
        "Pipeline parallel size (PP).",
        1,
        short="pp",
        example=2,
        also=("pipeline_parallel_size", "pipeline_model_parallel_size"),
    )
    context: int = option(
        t.integer(1), "Context parallel size (CP).", 1, short="cp", example=2, also=("context_parallel_size",)
    )
    expert: int = option(
        t.integer(1),
        "Expert parallel size (EP).",
        1,
        short="ep",
        example=16,
        also=("expert_parallel_size", "expert_model_parallel_size"),
    )
    expert_overlap: bool = option(
        t.BOOLEAN, "Whether expert-parallel communication overlaps with computation.", False, example=True
    )
    attention_heads: int | None = option(t.integer(1), "Attention heads of the model, checked against TP.", example=32)
    query_groups: int | None = option(t.integer(1), "Query groups (GQA) of the model, checked against TP.", example=8)
    experts: int | None = option(t.integer(1), "Experts of a mixture-of-experts model.", example=256)
    expert_parameters: int | None = option(
        t.integer(1), "Parameters of one expert, summed over all layers, for the memory estimate.", example=900000000
    )
    purpose: str = option(
        t.choice("load", "infer", "train"),
        "What the GPU memory must suffice for.",
        "train",
        key=False,
        example="infer",
    )
    gpu_memory: int | None = option(
        t.integer(1), "Memory of one GPU in GB; known for common types.", key=False, example=80
    )
    global_batch: int | None = option(
        t.integer(1),
        "Samples of one optimizer step over all ranks.",
        short="gbs",
        example=512,
        also=("global_batch_size",),
    )
    micro_batch: int | None = option(
        t.integer(1), "Samples of one forward pass on one rank.", short="mbs", example=2, also=("micro_batch_size",)
    )
