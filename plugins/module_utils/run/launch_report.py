# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A launch as modules return it (job_info, job_wait and the diagnosis). Data only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import (
    ModuleResult,
    Parameters,
    record_of,
    records_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.documents import Event
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_end import LaunchEnd
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.drained import Drained


@dataclass(frozen=True)
class Attempt:
    """One attempt of a launch. `attempt` counts from 0, times are epoch seconds, unknown values are None."""

    attempt: int
    job_id: str | None = None
    slurm_state: str | None = None
    started_at: float | None = None
    finished_at: float | None = None
    node_list: str | None = None
    nodes: Sequence[str] | None = None
    exit_code: int | None = None
    reason: str = ""


@dataclass(frozen=True)
class Allocation:
    """Nodes that Slurm gave a job for a time, in epoch seconds. Unknown values are None.

    `elapsed`: Slurm's count of its seconds, which leaves out the time for which a job was suspended. `gpus`: all of
    them together. `ended`: None while the job runs.
    """

    job_id: str
    began: float
    ended: float | None
    nodes: int
    elapsed: float | None = None
    submitted: float | None = None
    gpus: int | None = None
    joules: int | None = None
    user: str = ""
    account: str = ""


@dataclass(frozen=True)
class LaunchReport(LaunchEnd):
    """What is known about one generation of a launch.

    `reason_code` is Slurm's reason, `reason` its meaning. `source`: the Slurm command that reported the job.
    `never_started`: Slurm ended the job before its script started, because its first node could not open the job's log.
    `allocations`: those that the command has told, oldest first.
    """

    active: bool = False
    never_started: bool = False
    exit_code: int | None = None
    reason: str = ""
    reason_code: str = ""
    drained: Sequence[Drained] = ()
    attempts: Sequence[Attempt] = ()
    journal: Sequence[Event] = ()
    source: str | None = None
    allocations: Sequence[Allocation] = ()

    @classmethod
    def of(cls, result: Parameters) -> LaunchReport:
        """Read a launch as a module returned it. Fields that the module or an action adds are left out."""
        rows = {"attempts": Attempt, "allocations": Allocation, "drained": Drained}
        return record_of(cls, result, **{name: partial(records_of, kind) for name, kind in rows.items()})

    def as_dict(self) -> ModuleResult:
        """Return the fields as modules return them, with the artifact of the outcome."""
        artifact = self.outcome.get("artifact") if self.outcome else None
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        lists = {name: list(getattr(self, name)) for name in ("nodes", "journal")}
        # Their values are plain. dataclasses.asdict would copy each, which takes long for thousands of launches.
        rows = {name: [dict(vars(row)) for row in getattr(self, name)] for name in ("attempts", "allocations")}
        details = {"drained": [node.as_dict() for node in self.drained], **rows}
        return {**values, **lists, **details, "artifact": artifact}
