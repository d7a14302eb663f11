# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node reports to the node that judges them all. Standard library only."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Report:
    """What this node has to say: `columns` of its line, `problems`, those of them that can only be the node's own
    (`ailments`), the `versions` in its Python, and whether that has `torch`.
    """

    def __init__(self) -> None:
        self.columns: dict[str, str] = {}
        self.problems: list[str] = []
        self.ailments: list[str] = []
        self.versions: dict[str, str] = {}
        self.torch, self.remembered = False, False
        self.probed: dict[str, Any] | None = None

    def check(self, column: str, fine: bool, problem: str) -> None:
        self.columns[column] = "ok" if fine else "missing"
        if not fine:
            self.problems.append(problem)

    def ail(self, problem: str) -> None:
        self.problems.append(problem)
        self.ailments.append(problem)

    def document(self) -> dict[str, Any]:
        columns = {**self.columns, **self.versions, **({"probe": "remembered"} if self.remembered else {})}
        kept = {"probed": self.probed} if self.probed else {}
        return {"columns": columns, "problems": self.problems, "ailments": self.ailments, "torch": self.torch, **kept}
