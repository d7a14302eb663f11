# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON that a sweep writes (work/result.json), and the documents derived from it.

The writer is playbooks/files/fabric/fabric_sweep.py. Speeds are bus bandwidths in bytes per second, sizes are in bytes
and times in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict


class Interface(TypedDict):
    """A network interface of a node. `fast`: it belongs to the fast network, judged by its type or rate."""

    address: str
    mbit: int
    mtu: int
    fast: bool
    infiniband: bool


class Adapter(TypedDict):
    """An RDMA adapter of a node, with values from /sys."""

    name: str
    layer: str
    rate: str
    state: str
    driver: str


class Gpus(TypedDict):
    """The GPUs of a node. `amd`: they are made by AMD."""

    count: int
    models: Sequence[str]
    amd: bool


class NodeFacts(TypedDict):
    """The hardware of a node. `cxi`: Slingshot adapters."""

    interfaces: Mapping[str, Interface]
    rdma: Sequence[Adapter]
    cxi: bool
    gpus: Gpus


class Row(TypedDict):
    """The result for one size. `cut`: the measurement ran out of time."""

    size: int
    seconds: float
    bus: float
    cut: bool


class Measure(TypedDict):
    """One measurement. `kind`: `pair`, or `set` for all nodes at once. `error` is empty if it succeeded."""

    kind: str
    candidate: str
    nodes: Sequence[str]
    rows: Sequence[Row]
    error: str


class Candidate(TypedDict):
    """Environment variables that were compared. `median`: of each node's best pair."""

    name: str
    variables: Mapping[str, str]
    interface: str
    median: float


class SweepPlan(TypedDict):
    """The options of the sweep."""

    sizes: Sequence[int]


class SweepResult(TypedDict):
    """The result of a sweep. The first candidate is the current setting of jobs; `chosen` names the best one."""

    method: str
    backend: str
    why: str
    measured_at: float
    job_id: str
    nodes: Sequence[str]
    ranks_per_node: int
    plan: SweepPlan
    facts: Mapping[str, NodeFacts]
    candidates: Sequence[Candidate]
    chosen: str
    measures: Sequence[Measure]


class NodeSpeed(TypedDict):
    """One node: the speeds of its best and worst pair, and its number of pairs."""

    name: str
    best: float
    worst: float
    pairs: int
    slow: bool


class Judged(TypedDict):
    """Which nodes or pairs are slow (fabric/judge.py)."""

    verdict: str
    median: float
    nodes: Sequence[NodeSpeed]
    slow_nodes: Sequence[str]
    slow_pairs: Sequence[Sequence[str]]
    findings: Sequence[str]


class Fitting(TypedDict):
    """A fabric that fits the cluster, and why."""

    fabric: str
    reason: str


class Suggested(TypedDict):
    """A description of the cluster, and the fabrics that fit it (fabric/suggest.py)."""

    looks_like: str
    fabrics: Sequence[Fitting]
    look_at: Sequence[str]


class Compared(TypedDict):
    """A named set of variables to compare."""

    name: str
    variables: dict[str, str]
