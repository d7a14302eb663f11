# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The samples of all nodes over the time of a launch, in bounded size: one value a node and a slice of time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import LINE_CHARACTERS, real_number
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.from_logs import parts
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.monitor import BROUGHT, brought

# Slices of time in a heat map and how long (seconds) each is at least; nodes in it; bytes read of a file of samples.
SLICES, SLICE_SECONDS, MOST_NODES, MOST_BYTES = 96, 30.0, 256, 4 << 20
# What is shown, with its unit. Of several GPUs the mean counts.
KINDS = {
    "cpu": "CPU utilisation (%)",
    "memory": "memory in use (%)",
    "gpu": "GPU utilisation (%)",
    "gpu_memory": "GPU memory (MiB)",
    "power": "GPU power (W)",
}


@dataclass
class HeatMaps:
    """Sums and counts of each node's samples, by kind and slice of the time from `began` to `ended`."""

    began: float
    ended: float
    sums: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    counts: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    omitted_nodes: int = 0

    @property
    def slices(self) -> int:
        """How many slices of time there are."""
        return max(1, min(SLICES, int((self.ended - self.began) / SLICE_SECONDS)))

    def add(self, kind: str, node: str, time: float, value: float) -> None:
        """Add a sample."""
        length, slices = max(1.0, self.ended - self.began), self.slices
        slice_ = int((time - self.began) / length * slices)
        if not (math.isfinite(value) and -1 <= slice_ <= slices):
            return
        slice_ = min(max(slice_, 0), slices - 1)
        sums = self.sums.setdefault(kind, {}).setdefault(node, [0.0] * slices)
        counts = self.counts.setdefault(kind, {}).setdefault(node, [0] * slices)
        sums[slice_] += value
        counts[slice_] += 1

    def as_list(self) -> list[ModuleResult]:
        """One map for each kind that any node has samples of."""
        maps = []
        for kind, title in KINDS.items():
            if kind not in self.sums:
                continue
            rows = [
                {"node": node, "values": [_mean(total, self.counts[kind][node][i]) for i, total in enumerate(sums)]}
                for node, sums in sorted(self.sums[kind].items())
            ]
            maps.append({"kind": kind, "title": title, "began": self.began, "ended": self.ended, "rows": rows})
        return maps


def read_heat_maps(root: Beneath, attempts: Iterable[int], began: float, ended: float) -> HeatMaps:
    """The samples of some attempts. `root`: the folder of all samples, with a folder for each attempt."""
    maps = HeatMaps(began, ended)
    nodes: set[str] = set()
    for attempt in attempts:
        for node, kind, lines in _series(root, str(attempt)):
            if node not in nodes and len(nodes) >= MOST_NODES:
                maps.omitted_nodes += 1
                continue
            nodes.add(node)
            for line in lines:
                _READERS[kind](maps, node, [word.strip() for word in line[:LINE_CHARACTERS].split(",")])
    return maps


def _series(root: Beneath, folder: str) -> Iterator[tuple[str, str, Iterable[str]]]:
    """(node, kind, lines) of each series of samples of an attempt."""
    names = root.names(folder)
    for name in names:
        node, _dot, kind = name.rpartition(".csv")[0].rpartition(".")
        if kind in _READERS and name.endswith(".csv"):
            yield node, kind, (line for line, _follows in parts(root, f"{folder}/{name}", MOST_BYTES))
    if BROUGHT in names:
        for (kind, node), text in sorted(brought(root, f"{folder}/{BROUGHT}").items()):
            yield node, kind, text.splitlines()


def _host(maps: HeatMaps, node: str, words: list[str]) -> None:
    time, values = _time(words[0]), [_number(word) for word in words[1:]]
    if time is None or len(values) < 3:
        return
    memory, cpu, total = values[1], values[2], values[3] if len(values) > 3 else None
    if cpu is not None:
        maps.add("cpu", node, time, cpu)
    if memory is not None and total:
        maps.add("memory", node, time, 100 * memory / total)


def _gpu(maps: HeatMaps, node: str, words: list[str]) -> None:
    time = _time(words[0].replace("/", "-"))
    if time is None or len(words) != 6:
        return
    for kind, word in zip(("power", "gpu", "gpu_memory"), words[2:5]):
        value = _number(word.split()[0] if word.split() else "")
        if value is not None:
            maps.add(kind, node, time, value)


_READERS: dict[str, Callable[[HeatMaps, str, list[str]], None]] = {"host": _host, "gpu": _gpu}


def _time(text: str) -> float | None:
    """Epoch seconds of `2026-01-02T03:04:05+0100` or `2026-01-02 03:04:05.678`; None for anything else."""
    for layout in ("%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S"):
        try:
            return datetime.strptime(text, layout).timestamp()
        except (ValueError, OverflowError):
            continue
    return None


def _number(text: str) -> float | None:
    return real_number(text)


def _mean(total: float, count: int) -> float | None:
    return round(total / count, 1) if count else None
