# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of sweeps for the tests: made by hand, since the numbers are the point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MB = 1e6


def facts(
    interfaces: Mapping[str, bool] | None = None,
    *,
    rdma: Sequence[Mapping[str, str]] = (),
    gpus: int = 0,
    models: Sequence[str] = (),
    amd: bool = False,
    cxi: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """What one node says. `interfaces`: name -> whether it is named like a fast network."""
    named = {"eth0": False, "ib0": True} if interfaces is None else interfaces
    return {
        "interfaces": {
            name: {"address": f"10.0.{place}.1", "mbit": 10000, "mtu": 1500, "fast": fast, "infiniband": False}
            for place, (name, fast) in enumerate(named.items())
        },
        "rdma": [dict(one) for one in rdma],
        "cxi": cxi,
        "gpus": {"count": gpus, "models": list(models), "amd": amd},
        "all_reduce_perf": "",
        "srun": True,
        "torch": {"error": "No module named 'torch'"},
        **more,
    }


def adapter(layer: str, rate: str = "400 Gb/sec (4X NDR)", name: str = "mlx5_0", **more: str) -> dict[str, str]:
    return {"name": name, "layer": layer, "rate": rate, "state": "ACTIVE", "driver": "mlx5_core", **more}


def measure(
    nodes: Sequence[str], *speeds: float, kind: str = "pair", candidate: str = "current", error: str = ""
) -> dict[str, Any]:
    """One measurement; the speeds (MB/s) are those of 1K, 1M, 1G."""
    rows = [
        {"size": 1 << (10 * place), "seconds": 0.001, "bus": speed * MB, "cut": False}
        for place, speed in enumerate(speeds, 1)
    ]
    return {"kind": kind, "candidate": candidate, "nodes": list(nodes), "rows": rows, "error": error}


def result(*measures: Mapping[str, Any], **more: Any) -> Any:
    """The result of a sweep over TCP, as result.load returns it."""
    nodes = sorted({name for one in measures for name in one["nodes"]})
    return {
        "format": 1,
        "method": "tcp",
        "backend": "tcp",
        "why": "torch: no torch on n1",
        "measured_at": 1790000000,
        "job_id": "7",
        "nodes": nodes,
        "ranks_per_node": 1,
        "plan": {"sizes": [1 << 10, 1 << 20]},
        "facts": {name: facts() for name in nodes},
        "candidates": [{"name": "current", "variables": {}, "interface": "ib0", "median": 500 * MB}],
        "chosen": "current",
        "measures": [dict(one) for one in measures],
        **more,
    }


def four(slow: str = "", number: float = 5.0, **more: Any) -> Any:
    """All pairs of four nodes at about 500 MB/s, those of one node at `number`."""
    names = ["n1", "n2", "n3", "n4"]
    pairs = [(one, other) for place, one in enumerate(names) for other in names[place + 1 :]]
    measures = [measure(pair, 1.0, number if slow in pair else 500.0 + place) for place, pair in enumerate(pairs)]
    whole = measure(names, 1.0, number if slow else 450.0, kind="set")
    return result(*measures, whole, **more)
