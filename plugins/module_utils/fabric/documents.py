# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a sweep writes (playbooks/files/fabric/fabric_sweep.py: work/result.json), and what is made of it, as JSON.

Speeds are in bytes a second (bus bandwidth), sizes in bytes and times in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict


class Interface(TypedDict):
    """A network interface of a node. `fast`: it belongs to the fast network, by its kind or rate."""

    address: str
    mbit: int
    mtu: int
    fast: bool
    infiniband: bool


class Adapter(TypedDict):
    """An RDMA adapter of a node, in the words of /sys."""

    name: str
    layer: str
    rate: str
    state: str
    driver: str


class Gpus(TypedDict):
    """The GPUs of a node. `amd`: they are AMD's."""

    count: int
    models: Sequence[str]
    amd: bool


class NodeFacts(TypedDict):
    """What a node has. `cxi`: adapters of Slingshot."""

    interfaces: Mapping[str, Interface]
    rdma: Sequence[Adapter]
    cxi: bool
    gpus: Gpus


class Row(TypedDict):
    """One size of a measurement. `cut`: the time for it ran out."""

    size: int
    seconds: float
    bus: float
    cut: bool


class Measure(TypedDict):
    """One measurement. `kind`: `pair`, or `set` for all nodes at once. `error` is empty where it succeeded."""

    kind: str
    candidate: str
    nodes: Sequence[str]
    rows: Sequence[Row]
    error: str


class Candidate(TypedDict):
    """Variables that were compared. `median`: of the nodes' best pairs."""

    name: str
    variables: Mapping[str, str]
    interface: str
    median: float


class SweepPlan(TypedDict):
    """What the sweep was told."""

    sizes: Sequence[int]


class SweepResult(TypedDict):
    """A whole sweep. The first candidate is what jobs get now; `chosen` is the name of the best one."""

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
    """One node: its best and its worst pair, and of how many pairs."""

    name: str
    best: float
    worst: float
    pairs: int
    slow: bool


class Judged(TypedDict):
    """What is slow (fabric/judge.py)."""

    verdict: str
    median: float
    nodes: Sequence[NodeSpeed]
    slow_nodes: Sequence[str]
    slow_pairs: Sequence[Sequence[str]]
    findings: Sequence[str]


class Fitting(TypedDict):
    """A fabric that fits, and why."""

    fabric: str
    reason: str


class Suggested(TypedDict):
    """What the cluster looks like (fabric/suggest.py)."""

    looks_like: str
    fabrics: Sequence[Fitting]
    look_at: Sequence[str]


class Compared(TypedDict):
    """Variables to compare, by their name."""

    name: str
    variables: dict[str, str]
