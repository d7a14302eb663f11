# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What decides how much GPU memory a job needs: its parallelism, batches and sequence length, and the peak measured.

The sizes come from the section `parallelism` of the job, and from the arguments of its program by the names that
common frameworks use: `--seq-length 4096`, `--train.seq_len=4096`, `model.seq_length=4096`. The last one counts.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.monitor import NodeSamples

# What is shown -> the key in section `parallelism`, and the names of arguments (in lower case, with underscores).
SIZES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "TP": ("tensor", ("tensor_model_parallel_size", "tensor_parallel_size", "tp_size", "tp")),
    "PP": ("pipeline", ("pipeline_model_parallel_size", "pipeline_parallel_size", "pp_size", "pp")),
    "CP": ("context", ("context_parallel_size", "cp_size", "cp")),
    "EP": ("expert", ("expert_model_parallel_size", "expert_parallel_size", "ep_size", "ep")),
    "micro batch": (
        "micro_batch",
        ("micro_batch_size", "mbs", "per_device_train_batch_size", "train_micro_batch_size_per_gpu", "batch_size"),
    ),
    "global batch": ("global_batch", ("global_batch_size", "gbs")),
    "sequence length": (
        "",
        ("seq_length", "seq_len", "sequence_length", "max_seq_length", "max_seq_len", "block_size", "max_length"),
    ),
}
_NUMBER = re.compile(r"[0-9]{1,12}")
# Sizes of 1 say nothing.
_PLAIN = ("TP", "PP", "CP", "EP")


def sizes(spec: JsonObject) -> dict[str, int]:
    """The sizes of a job by what is shown, from the `spec` in its launch.json. What is not known is left out."""
    section = spec.get("parallelism")
    stated = section if isinstance(section, Mapping) else {}
    given = dict(_arguments(_words(spec)))
    numbers: dict[str, int] = {}
    for shown, (key, names) in SIZES.items():
        # Where a program has several, the first of these names is the most specific one.
        values = [stated.get(key), *(given.get(name) for name in names)]
        number = next((int(str(value)) for value in values if value and _NUMBER.fullmatch(str(value))), None)
        if number is not None:
            numbers[shown] = number
    return numbers


def peak_memory(samples: Mapping[str, NodeSamples], nodes: Sequence[str]) -> tuple[float, str, str] | None:
    """(MiB, node, GPU) of the fullest GPU of these nodes, or of all where none of them has samples."""
    chosen = [samples[node] for node in nodes if node in samples and samples[node].gpus] or list(samples.values())
    peaks = [(gpu.peak_memory_mb, node.node, index) for node in chosen for index, gpu in node.gpus.items()]
    return max(peaks, default=None)


def sentence(numbers: Mapping[str, int], peak: tuple[float, str, str] | None) -> str:
    """The sizes and the peak on one line; empty if nothing is known."""
    parts = [f"{name} {number}" for name, number in numbers.items() if number > 1 or name not in _PLAIN]
    if peak is not None:
        parts.append(f"at most {peak[0] / 1024:.1f} GiB sampled (GPU {peak[2]} of {peak[1]})")
    return ", ".join(parts)


def _words(spec: JsonObject) -> list[str]:
    """The words of the program's command line."""
    command = spec.get("command")
    if isinstance(command, list):
        return [str(word) for word in command]
    try:
        return shlex.split(str(spec.get("shell") or ""))
    except ValueError:
        return []


def _arguments(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(name, value) of `--name value`, `--name=value` and `section.name=value`."""
    for word, following in zip(words, [*words[1:], ""]):
        name, equals, value = word.partition("=")
        if equals or word.startswith("-"):
            plain = name.rpartition(".")[2] if "." in name else name
            yield plain.lstrip("-+").replace("-", "_").lower(), value if equals else following
