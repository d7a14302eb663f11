# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What logs say of a failure. Data only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.cause import HEALTHY


@dataclass(frozen=True)
class Evidence:
    """A line that says something. `file`: a path, or the program that said it (Slurm, sacct). `line` counts from 1."""

    file: str
    line: int
    text: str
    family: str
    rank: int | None = None
    node: str | None = None


@dataclass(frozen=True)
class Unread:
    """A file that could not be read."""

    file: str
    why: str


@dataclass(frozen=True)
class Diagnosis:
    """The cause, or that none is to be seen (`family` is HEALTHY).

    `root` is the line that says it first, `ranks` and `nodes` those that say the same. `chain`: what followed, in
    sentences. `retry`: the same launch may succeed another time. `blame`: the node that is at fault. `files`, `bytes`:
    how much was read.
    """

    family: str
    what: str = "no failure is to be seen in the logs"
    confidence: str = "high"
    root: Evidence | None = None
    ranks: Sequence[int] = ()
    nodes: Sequence[str] = ()
    evidence: Sequence[Evidence] = ()
    chain: Sequence[str] = ()
    remedy: str = ""
    retry: bool = False
    blame: Sequence[str] = ()
    files: int = 0
    bytes: int = 0
    unreadable: Sequence[Unread] = ()

    @property
    def healthy(self) -> bool:
        """Whether no failure is to be seen."""
        return self.family == HEALTHY

    def as_dict(self) -> ModuleResult:
        """As module job_diagnosis returns it."""
        return {"healthy": self.healthy, **asdict(self)}
