# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs that start the ranks: one row for each value of `launcher.kind`.

The topology, the rules, the script and the reference page read this table. A new launcher needs a row here and a script
in plugins/runtime/rank that starts its ranks through rank.sh. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Starter:
    """A program that starts the ranks.

    `per`: Slurm starts one task for each `rank`, or one for each `node`, whose `script` then starts the ranks.
    `packages`: Python packages that the job's environment must have for it; the preflight looks for them.
    `rendezvous`: the values of launcher.rendezvous that it supports. `meeting`: its only rendezvous, if there is no
    choice. `one_node`: it starts ranks on a single node only. `program`: its name for people, if that differs from
    `kind`.
    """

    kind: str
    doc: str
    per: str
    script: str
    packages: tuple[str, ...] = ()
    rendezvous: tuple[str, ...] = ()
    meeting: str | None = None
    one_node: bool = False
    program: str = ""

    @property
    def shown(self) -> str:
        """The name for people."""
        return self.program or self.kind

    @property
    def names(self) -> str:
        """Whose variables tell a process its rank, as runtime/rank/rank.sh reads them: Slurm's (`srun`) or torch's
        (`torchrun`).
        """
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
        packages=("torch",),
        rendezvous=("static", "c10d"),
    ),
    Starter(
        kind="standalone",
        doc="torch.distributed.run on a single node, without rendezvous",
        per="node",
        script="rank/node.sh",
        packages=("torch",),
        meeting="standalone",
        one_node=True,
        program="torchrun",
    ),
)


def starter(kind: str) -> Starter:
    """Return the row of a kind that `launcher.kind` has validated."""
    return next(row for row in STARTERS if row.kind == kind)


def knowing(rendezvous: str) -> tuple[Starter, ...]:
    """Return the rows that support a value of launcher.rendezvous."""
    return tuple(row for row in STARTERS if rendezvous in row.rendezvous)
