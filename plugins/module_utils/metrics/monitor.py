# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The monitor samples of each node: load, memory, CPUs and GPUs, and the complaints of nvidia-smi.

The job runtime writes them (rank/sampler.py): <node>.host.csv with a header, <node>.gpu.csv in the CSV format of
`nvidia-smi --query-gpu=timestamp,index,power.draw,utilization.gpu,memory.used,temperature.gpu`. Only the end of each
file is read, so that weeks of samples from hundreds of nodes remain cheap.
"""

from __future__ import annotations

import os
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Untrusted
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import LINE_CHARACTERS, real_number
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.names import node_texts

TAIL_BYTES = 64 * 1024
# So many characters of samples that collectors have brought are read at once.
MOST_BROUGHT = 48 << 20
# The kinds of samples, and the file of those that collectors have brought, in the folder of an attempt.
KINDS, BROUGHT = ("host", "gpu"), "nodes"
# From this memory use on (per cent), a node counts as out of memory.
MEMORY_FULL = 97
# A node is odd whose load is this many times that of most others, or whose GPUs work at this part of the others' power.
LOADED, LOW_POWER, HOT = 2.0, 0.6, 85.0
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_GPU_HEADER = "timestamp,"


@dataclass
class GpuSample:
    """The last sample of one GPU, and the highest values in the part that was read. Per cent, MiB, degrees, watts."""

    utilisation: float | None = None
    memory_mb: float | None = None
    temperature: float | None = None
    power: float | None = None
    peak_memory_mb: float = 0.0
    peak_temperature: float = 0.0


@dataclass
class NodeSamples:
    """One node. `complaints`: (file, line number, text) of lines that are no sample; number 0: unknown."""

    node: str
    load: float | None = None
    memory_mb: float | None = None
    memory_total_mb: float | None = None
    cpu_percent: float | None = None
    peak_memory_mb: float = 0.0
    gpus: dict[str, GpuSample] = field(default_factory=dict)
    complaints: list[tuple[str, int, str]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    @property
    def memory_percent(self) -> float | None:
        """The highest memory use of the node, in per cent."""
        return 100 * self.peak_memory_mb / self.memory_total_mb if self.memory_total_mb else None

    def as_dict(self) -> ModuleResult:
        """As modules return it, without the complaints about unreadable samples."""
        document = asdict(self)
        del document["complaints"]
        return document


def read_samples(root: Beneath) -> dict[str, NodeSamples]:
    """Node -> its samples, for the folder of one attempt. Unreadable files are left out."""
    by_node: dict[str, NodeSamples] = {}
    names = root.names("")
    for name in names:
        node, _dot, kind = name.rpartition(".csv")[0].rpartition(".")
        if kind in KINDS and name.endswith(".csv"):
            _add(by_node, node, kind, os.path.join(root.path, name), _tail(root, name))
    if BROUGHT in names:
        path = os.path.join(root.path, BROUGHT)
        for (kind, node), text in brought(root, BROUGHT).items():
            _add(by_node, node, kind, path, ((0, line) for line in text[-TAIL_BYTES:].splitlines() if line.strip()))
    return by_node


def brought(root: Beneath, name: str) -> dict[tuple[str, str], str]:
    """(kind, node) -> samples that the collectors of many nodes have brought (runtime/rank/collector.py).

    `name`: the file with what they have printed.
    """
    try:
        with root.stream(name) as stream:
            texts: dict[tuple[str, str], str] = {}
            for kind, node, text in node_texts(iter(lambda: stream.readline(LINE_CHARACTERS), b""), KINDS):
                texts[kind, node] = text
                if sum(map(len, texts.values())) > MOST_BROUGHT:
                    break
            return texts
    except (OSError, Untrusted):
        return {}


def _add(by_node: dict[str, NodeSamples], node: str, kind: str, path: str, lines: Iterable[tuple[int, str]]) -> None:
    samples = by_node.setdefault(node, NodeSamples(node))
    samples.files.append(path)
    for number, line in lines:
        (_host if kind == "host" else _gpu)(samples, path, number, line)


def _tail(beneath: Beneath, name: str) -> Iterator[tuple[int, str]]:
    """The last lines of a file with their numbers (0 where the file is too large to be read from its start)."""
    try:
        with beneath.stream(name) as stream:
            size = os.fstat(stream.fileno()).st_size
            complete = size <= TAIL_BYTES
            stream.seek(0 if complete else size - TAIL_BYTES)
            lines = stream.read(TAIL_BYTES).decode("utf-8", "replace").splitlines()
    except (OSError, Untrusted):
        return
    for index, line in enumerate(lines if complete else lines[1:], 1):
        if line.strip():
            yield (index if complete else 0), line[:LINE_CHARACTERS].strip()


def _host(samples: NodeSamples, _path: str, _number: int, line: str) -> None:
    fields = line.split(",")
    if len(fields) < 4 or not _NUMBER.fullmatch(fields[1]):
        return
    samples.load, samples.memory_mb, samples.cpu_percent = (_value(field) for field in fields[1:4])
    samples.memory_total_mb = _value(fields[4]) if len(fields) > 4 else None
    samples.peak_memory_mb = max(samples.peak_memory_mb, samples.memory_mb or 0.0)


def _gpu(samples: NodeSamples, path: str, number: int, line: str) -> None:
    fields = [part.strip() for part in line.split(",")]
    if line.startswith(_GPU_HEADER):
        return
    if len(fields) != 6 or not fields[1].isdigit():
        samples.complaints.append((path, number, line))
        return
    gpu = samples.gpus.setdefault(fields[1], GpuSample())
    gpu.power, gpu.utilisation, gpu.memory_mb, gpu.temperature = (_value(part) for part in fields[2:])
    gpu.peak_memory_mb = max(gpu.peak_memory_mb, gpu.memory_mb or 0.0)
    gpu.peak_temperature = max(gpu.peak_temperature, gpu.temperature or 0.0)


def _value(text: str) -> float | None:
    match = _NUMBER.search(text)
    return real_number(match[0]) if match else None


#: Per cent: a GPU that rests, and one that works.
IDLE, BUSY = 5.0, 50.0


def idle_nodes(samples: dict[str, NodeSamples]) -> list[str]:
    """Nodes with an idle GPU while most other nodes are busy.

    Ranks that wait in a collective keep their GPUs at 100 %; the GPU of the rank that they wait for is idle.
    """
    lowest = {
        node: min(gpu.utilisation for gpu in usage.gpus.values() if gpu.utilisation is not None)
        for node, usage in samples.items()
        if any(gpu.utilisation is not None for gpu in usage.gpus.values())
    }
    working = [node for node, value in lowest.items() if value >= BUSY]
    resting = [node for node, value in lowest.items() if value <= IDLE]
    return resting if len(working) > len(resting) else []


def odd_nodes(samples: Mapping[str, NodeSamples]) -> dict[str, str]:
    """Node -> what its newest samples show that those of most others do not: load, memory, power, temperature."""
    load = _usual([usage.load for usage in samples.values()])
    power = _usual([gpu.power for usage in samples.values() for gpu in usage.gpus.values()])
    findings = {}
    for node, usage in sorted(samples.items()):
        words = []
        if load is not None and (usage.load or 0.0) >= max(LOADED * load, 1.0) and len(samples) > 2:
            words.append(f"load {usage.load:.0f} (usual {load:.0f})")
        if (usage.memory_percent or 0.0) >= MEMORY_FULL:
            words.append(f"memory {usage.memory_percent:.0f} % full")
        for number, gpu in sorted(usage.gpus.items()):
            busy = gpu.utilisation is not None and gpu.utilisation >= 50
            if busy and power is not None and gpu.power is not None and gpu.power <= LOW_POWER * power:
                words.append(f"GPU {number} at {gpu.power:.0f} W (usual {power:.0f} W)")
            if gpu.temperature is not None and gpu.temperature >= HOT:
                words.append(f"GPU {number} at {gpu.temperature:.0f} degrees")
        if words:
            findings[node] = ", ".join(words)
    return findings if len(findings) < len(samples) / 2 else {}


def _usual(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
