# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of a diagnosis. Data only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    ModuleResult,
    Parameters,
    record_of,
    records_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.cause import HEALTHY


@dataclass(frozen=True)
class Evidence:
    """A line of evidence. `file`: a path, or the program that reported it (Slurm, sacct). `line` counts from 1."""

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
    """The cause of a failure. Without a root, `family` is HEALTHY where the logs prove it, else UNKNOWN.

    `root` is the first line that shows the cause; `ranks` and `nodes` are those that report the same. `chain`: what
    followed, in sentences. `retry`: the same launch may succeed if it is tried again. `blame`: the node at fault.
    `files`, `bytes`: how much was read.
    """

    family: str
    what: str = "these logs show no failure"
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

    @classmethod
    def of(cls, document: Parameters) -> Diagnosis:
        """Read a diagnosis as module job_diagnosis returned it. Fields that the module adds are left out."""
        evidence, unread = partial(records_of, Evidence), partial(records_of, Unread)
        return record_of(cls, document, root=partial(record_of, Evidence), evidence=evidence, unreadable=unread)

    @property
    def healthy(self) -> bool:
        """Whether the logs show a normal end, or steps until their end, and no failure."""
        return self.family == HEALTHY

    def as_dict(self) -> ModuleResult:
        """The diagnosis as module job_diagnosis returns it."""
        return {"healthy": self.healthy, **asdict(self)}
