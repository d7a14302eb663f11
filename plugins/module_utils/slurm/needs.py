# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a launch needs from a running job around it, and from the container runtimes of the cluster. Data only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class AllocationNeeds:
    """What a launch requests from a running job.

    `names`: nodes that the user chose; if empty, the first nodes with the requested resources are used. `exclude`: host
    lists. `memory`: per node, as sbatch takes it.
    """

    job_id: str
    nodes: int
    names: Sequence[str] = ()
    exclude: Sequence[str] = ()
    cpus_per_node: int = 1
    gpus_per_node: int = 0
    gpu_type: str | None = None
    gres: Sequence[str] = ()
    memory: str | None = None
    time_minutes: float = 0


@dataclass(frozen=True)
class ContainerNeeds:
    """What the job's container requires of the cluster."""

    runtime: str
    own_setup: bool
    options: Sequence[str] = ()
    level: str = "step"
    image: str = ""
    sources: Sequence[str] = ()
    runs_dir: str = ""
    #: Of a runtime that the cluster declares: its commands and images, and what is wrong with any other file.
    own: Mapping[str, Any] | None = None
