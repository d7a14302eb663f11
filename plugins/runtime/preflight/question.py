# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked about the nodes that have reported, and the answer (judge.py). Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Question:
    """What is asked about the nodes `names`, which have reported in `folder`. `wanted`: how many the ranks need;
    `budget`: the seconds that the nodes had, and `ended` how their step ended before; `unstarted`: srun's reason why it
    could start no task on a node; `policy` and `slow`: as in the job's preflight; `gpus`, `tasks_per_node`,
    `cpus_per_task`: what the ranks are promised (binding.py); `group_nodes`: so many belong together (topology.py).
    """

    folder: str
    names: list[str]
    wanted: int = 1
    budget: int = 60
    ended: str = ""
    unstarted: dict[str, str] = field(default_factory=dict)
    policy: str = "stop"
    slow: str = "warn"
    gpus: int | dict[str, int] = 0
    tasks_per_node: int = 1
    cpus_per_task: int = 1
    group_nodes: int = 1


@dataclass(eq=False)
class Judgement:
    """The answer. `action`: run, requeue or stop; `chosen`: the nodes of the ranks, the first one with its free
    `ports`; `blamed`: why a node that can be blamed is not fit; `blocks`: the block of each node; `lines`: the table.
    """

    action: str = ""
    chosen: list[str] = field(default_factory=list)
    interface: str = ""
    ports: list[int] = field(default_factory=list)
    message: str = ""
    blamed: dict[str, str] = field(default_factory=dict)
    blocks: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
