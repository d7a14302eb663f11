# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the world size against the parallelism, and the experts' memory against the GPU's. Pure arithmetic.

A finding names the paths in the spec, the numbers, and values that would fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.base import Aspect, Context
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.topology import workers, workers_per_node
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.parallelism import Parallelism
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.resources import GPU_OF_RANK
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.types import Finding

BF16_BYTES = 2
# GB of an 80 GB GPU that the experts' weights may use: if the model is only loaded, if it also answers, and if it also
# learns (gradients and activations need the rest). Scaled in proportion for other GPU sizes. To train, about 30 GB is
# what people report; a model of 460 GB of experts over 16 GPUs, 28.8 GB on each, is already known not to train.
REFERENCE_GB = 80
EXPERT_GB = {"load": 60.0, "infer": 40.0, "train": 28.0}
# GB of memory by the sites' names for GPU types.
GPU_GB = {"v100": 32, "a40": 48, "l40s": 48, "a100": 80, "h100": 80, "gh200": 96, "h200": 141, "b200": 180, "b300": 288}


@dataclass(frozen=True)
class ExpertMemory:
    """The weights of the experts on one GPU. Expert parallelism splits experts, tensor parallelism does not."""

    experts_per_gpu: int
    gigabytes: float
    limit: float


def model_parallel_size(parallelism: Parallelism) -> int:
    """Return the number of ranks that hold one copy of the model: TP x PP x CP."""
    return parallelism.tensor * parallelism.pipeline * parallelism.context


def data_parallel_size(spec: LaunchSpec) -> int | None:
    """Return DP = world size / (TP x PP x CP), or None if that is not an integer."""
    world, model = workers(spec), model_parallel_size(spec.parallelism)
    return world // model if world % model == 0 else None


def expert_memory(spec: LaunchSpec) -> ExpertMemory | None:
    """Estimate the experts' memory; None if the spec gives too little information.

    bf16 bytes = experts per GPU x parameters of one expert x 2.
    """
    wanted = spec.parallelism
    if not wanted.experts or not wanted.expert_parameters or wanted.experts % wanted.expert:
        return None
    gpu = wanted.gpu_memory or GPU_GB.get((spec.resources.gpu_type or "").lower().split("-")[0], REFERENCE_GB)
    per_gpu = wanted.experts // wanted.expert
    gigabytes = per_gpu * wanted.expert_parameters * BF16_BYTES / 1e9
    return ExpertMemory(per_gpu, gigabytes, EXPERT_GB[wanted.purpose] * gpu / REFERENCE_GB)


def group_size(parallelism: Parallelism) -> tuple[str, int]:
    """Return the name and the size of the group of consecutive ranks that exchanges the most, in every layer."""
    sizes = {"tensor": parallelism.tensor, "expert": parallelism.expert}
    name = max(sizes, key=lambda each: sizes[each])
    return name, sizes[name]


def group_nodes(spec: LaunchSpec) -> int:
    """Return how many nodes such a group takes."""
    return -(-group_size(spec.parallelism)[1] // workers_per_node(spec))


def exports(spec: LaunchSpec) -> list[tuple[str, str]]:
    """Return the sizes as variables, so that the program gets exactly the numbers that were checked.

    The result is empty if the spec does not set `parallelism`. Batch sizes that are not given are left out.
    """
    wanted = spec.parallelism
    if wanted == Parallelism():
        return []
    sizes = [
        ("TP", wanted.tensor),
        ("PP", wanted.pipeline),
        ("CP", wanted.context),
        ("EP", wanted.expert),
        ("DP", data_parallel_size(spec)),
        ("MBS", wanted.micro_batch),
        ("GBS", wanted.global_batch),
    ]
    return [(f"RANKZERO_{name}", str(size)) for name, size in sizes if size is not None]


def _what(spec: LaunchSpec) -> str:
    return "ranks" if spec.launcher.gpus == GPU_OF_RANK else "GPUs"


def _next_multiples(count: int, part: int) -> str:
    """Which numbers next to `count` a part divides."""
    below, above = count // part * part, (count // part + 1) * part
    return f"the next that fit are {below} and {above}" if below else f"the next that fits is {above}"


def _segment(spec: LaunchSpec) -> Iterator[Finding]:
    """Yield a segment that does not divide the nodes, or that cuts a group of ranks."""
    ask, group = spec.resources, group_nodes(spec)
    total, segment = ask.nodes + ask.spares, ask.segment
    if segment is None:
        return
    if total % segment:
        counted = f"{total} nodes" + (f" ({ask.nodes} and {ask.spares} spares)" if ask.spares else "")
        sentence = f"resources.segment: {segment} does not divide {counted}; {_next_multiples(total, segment)}"
        yield ["resources.segment", "resources.nodes", "resources.spares"], sentence
    if group > 1 and segment % group:
        name, size = group_size(spec.parallelism)
        sentence = (
            f"resources.segment: {segment} cuts groups of parallelism.{name}: {size} {_what(spec)} at"
            f" {workers_per_node(spec)} a node are {group} nodes; use a multiple of {group}"
        )
        yield ["resources.segment", f"parallelism.{name}", "launcher.ranks_per_node"], sentence


def warnings(spec: LaunchSpec) -> list[str]:
    """Return warnings about memory that will probably not suffice: an estimate that covers the weights only."""
    memory = expert_memory(spec)
    if memory is None or memory.gigabytes <= memory.limit:
        return []
    wanted = spec.parallelism
    gigabytes = memory.gigabytes * wanted.expert
    fitting = [size for size in _divisors(wanted.experts or 1) if gigabytes / size <= memory.limit]
    sentence = (
        f"{wanted.experts} experts over expert {wanted.expert} are {memory.experts_per_gpu} a GPU,"
        f" {memory.gigabytes:.1f} GB of bf16 weights; more than about {memory.limit:.0f} GB is too much to"
        f" {wanted.purpose} on this GPU"
    )
    return [sentence + (f"; parallelism.expert: {fitting[0]} or more would fit" if fitting else "")]


def _batch(spec: LaunchSpec, data: int | None) -> Iterator[Finding]:
    wanted = spec.parallelism
    if not wanted.global_batch or not wanted.micro_batch or not data:
        return
    step = wanted.micro_batch * data
    if wanted.global_batch % step:
        fitting = max(wanted.global_batch // step, 1) * step
        sentence = (
            f"parallelism.global_batch: {wanted.global_batch} is not a multiple of micro_batch {wanted.micro_batch} x"
            f" data parallel {data} = {step}; {fitting} is"
        )
        yield ["parallelism.global_batch", "parallelism.micro_batch"], sentence


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, min(number, 2**20) + 1) if number % size == 0]


def _near_divisors(count: int, size: int) -> str:
    """Return the numbers next to `size` that divide `count`, as `2 or 4`."""
    divisors = _divisors(count)
    below, above = [n for n in divisors if n < size][-1:], [n for n in divisors if n > size][:1]
    return " or ".join(map(str, [*below, *above]))


class Sizes(Aspect):
    """The sizes of the model's parallelism."""

    def findings(self, spec: LaunchSpec, settings: ClusterSettings) -> Iterator[Finding]:
        """Yield sizes that do not divide evenly."""
        wanted, world = spec.parallelism, workers(spec)
        model, data = model_parallel_size(wanted), data_parallel_size(spec)
        sizes = ["parallelism.tensor", "parallelism.pipeline", "parallelism.context"]
        stage = world // wanted.pipeline
        if data is None:
            sentence = (
                f"parallelism: tensor {wanted.tensor} x pipeline {wanted.pipeline} x context {wanted.context} = {model}"
                f" does not divide the {world} {_what(spec)}; {_next_multiples(world, model)} {_what(spec)}, and for"
                f" {world} a product of {_near_divisors(world, model)}"
            )
            yield [*sizes, "resources.nodes", "launcher.ranks_per_node"], sentence
        # Experts are distributed over the ranks of one pipeline stage.
        elif stage % wanted.expert:
            sentence = (
                f"parallelism.expert: {wanted.expert} does not divide the {stage} {_what(spec)} of a pipeline stage"
                f" (world size {world} / pipeline {wanted.pipeline}); it may be {_near_divisors(stage, wanted.expert)}"
            )
            yield ["parallelism.expert", *sizes], sentence
        for name, count in (("attention_heads", wanted.attention_heads), ("query_groups", wanted.query_groups)):
            if count and count % wanted.tensor:
                fitting = ", ".join(str(size) for size in _divisors(count) if size <= 16)
                sentence = (
                    f"parallelism.{name}: {count} is not divisible by tensor {wanted.tensor}; tensor may be {fitting}"
                )
                yield [f"parallelism.{name}", "parallelism.tensor"], sentence
        if wanted.experts and wanted.experts % wanted.expert:
            sentence = (
                f"parallelism.expert: {wanted.expert} does not divide the {wanted.experts} experts; it may be "
                f"{_near_divisors(wanted.experts, wanted.expert)}"
            )
            yield ["parallelism.experts", "parallelism.expert"], sentence
        if wanted.expert > 1 and not wanted.experts:
            sentence = (
                f"parallelism.expert: {wanted.expert} without parallelism.experts; say how many experts a layer has"
            )
            yield ["parallelism.expert", "parallelism.experts"], sentence
        yield from _batch(spec, data)
        yield from _segment(spec)

    def exports(self, context: Context) -> list[tuple[str, str]]:
        """Return the sizes as RANKZERO_TP, RANKZERO_PP and so on; empty if the spec does not set `parallelism`.

        RANKZERO_GROUP_NODES is the number of consecutive nodes that the preflight keeps in one block if it can.
        """
        together = max(group_nodes(context.spec), context.spec.resources.segment or 1)
        return exports(context.spec) + ([("RANKZERO_GROUP_NODES", str(together))] if together > 1 else [])
