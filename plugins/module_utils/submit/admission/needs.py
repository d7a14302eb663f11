# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job needs from the cluster: resources and folders. Data only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# The end of the options of launch_cluster.budget that limit all launches of a calendar month.
A_MONTH = "_a_month"


@dataclass(frozen=True)
class ResourceNeeds:
    """What a job requests.

    `memory`: MiB per node, 0 is all of it. `early`: seconds of checkpoint.signal_before_end. `partition`: may be a list
    with commas, as sbatch takes it; None is the cluster's default. `group_nodes`: nodes of one tensor- or
    expert-parallel group. `budget`: the limits of launch_cluster.budget in hours by option; `attempts`: how often the
    job may run, each time for its whole time limit; `used`: what counts against the budget of this month. `also`: what
    the further components of a heterogeneous job request.
    """

    nodes: int
    partition: str | None = None
    time_minutes: float | None = None
    gpus_per_node: int = 0
    gpu_type: str | None = None
    gres: Sequence[str] = ()
    cpus_per_node: int = 0
    memory: int | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    reservation: str | None = None
    early: int | None = None
    requeue: bool | None = None
    segment: int | None = None
    switches: str | None = None
    group_nodes: int = 1
    budget: Mapping[str, float] = field(default_factory=dict)
    attempts: int = 1
    used: Mapping[str, float] = field(default_factory=dict)
    also: Sequence[ResourceNeeds] = ()

    @classmethod
    def of(cls, **given: Any) -> ResourceNeeds:
        """Build it from the values that a request was sent with."""
        return cls(**{**given, "also": [cls(**each) for each in given.get("also", ())]})

    @property
    def components(self) -> tuple[ResourceNeeds, ...]:
        """What each component of the job requests; the job itself where it has only one."""
        return (self, *self.also)

    @property
    def all_nodes(self) -> int:
        """The nodes of all components."""
        return sum(each.nodes for each in self.components)

    @property
    def node_hours(self) -> float | None:
        """The most node-hours that the job may use; None without a time limit."""
        return None if self.time_minutes is None else self.all_nodes * self.time_minutes / 60 * self.attempts


@dataclass(frozen=True)
class StorageNeeds:
    """The folders of a launch on the cluster.

    `roots`: state_root, store_root and caches -> path. `min_free_kib`: space in KiB that must be free there. `sources`:
    other paths that the nodes mount or read, as (option, path).
    """

    roots: Mapping[str, str] = field(default_factory=dict)
    min_free_kib: int = 0
    sources: Sequence[Sequence[str]] = ()
