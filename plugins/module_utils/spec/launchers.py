# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who starts the ranks: one row for each value of `launcher.kind`. Topology, rules, script and reference page read it.

A new one is a row here, and a script in plugins/runtime/rank that becomes its ranks by rank.sh. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Starter:
    """`per`: Slurm starts one task for each `rank`, or one for each `node`, whose `script` then starts the ranks.

    `rendezvous`: the values of launcher.rendezvous that it knows; `meeting`: the
    one way that its nodes meet where nothing is to choose. `one_node`: it starts ranks on a single node only.
    `program`: what people read of it, where that is not its kind.
    """

    kind: str
    doc: str
    per: str
    script: str
    rendezvous: tuple[str, ...] = ()
    meeting: str | None = None
    one_node: bool = False
    program: str = ""

    @property
    def shown(self) -> str:
        """What people read of it."""
        return self.program or self.kind

    @property
    def names(self) -> str:
        """Whose variables say which rank a process is, as runtime/rank/rank.sh reads them: Slurm's or torch's."""
        return "srun" if self.per == "rank" else "torchrun"


STARTERS: tuple[Starter, ...] = (
    Starter(
        kind="srun",
        doc="Slurm itself, one task per rank",
        per="rank",
        script="rank/rank.sh",
    ),
    Starter(
        kind="torchrun",
        doc="torch.distributed.run, one task per node",
        per="node",
        script="rank/node.sh",
        rendezvous=("static", "c10d"),
    ),
    Starter(
        kind="standalone",
        doc="torch.distributed.run on a single node, without rendezvous",
        per="node",
        script="rank/node.sh",
        meeting="standalone",
        one_node=True,
        program="torchrun",
    ),
)


def starter(kind: str) -> Starter:
    """The row of a kind, which `launcher.kind` has checked."""
    return next(row for row in STARTERS if row.kind == kind)


def knowing(rendezvous: str) -> tuple[Starter, ...]:
    """Those that know a value of launcher.rendezvous."""
    return tuple(row for row in STARTERS if rendezvous in row.rendezvous)
