# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a launch as the card and the last rows show it, from the results of the tasks before. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import Parameters, record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_end import LaunchEnd
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import UNKNOWN

if TYPE_CHECKING:  # only a failure is diagnosed
    from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.diagnosis import Diagnosis

#: Where a wait has failed before it knew anything of the launch.
NOTHING_KNOWN = LaunchEnd("", "", 0, UNKNOWN, "", "", "")


@dataclass(frozen=True)
class FetchedLogs:
    """The result of the task that fetched the logs: their folder here, else why it is missing. All empty: none ran."""

    dest: str = ""
    msg: str = ""
    connection_lost: bool = False
    unreachable: bool = False


@dataclass(frozen=True)
class Proof:
    """What a job has to prove: the path of its artifact, and the conditions that its values meet."""

    path: str
    require: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Launched:
    """What a launch was, from the result of the action that launched it or of a look at it.

    `plan` and `explain`: the lines that describe it. `proof`: None where it proves nothing.
    """

    name: str
    run_dir: str
    job_id: str | None = None
    generation: int | None = None
    plan: Sequence[str] = ()
    explain: Sequence[str] = ()
    proof: Proof | None = None

    @classmethod
    def of(cls, result: Parameters) -> Launched:
        """Read the result of action job, job_pipeline or job_info."""
        return record_of(cls, result, proof=partial(record_of, Proof))


@dataclass(frozen=True)
class Ending:
    """All that is known when a launch has been waited for.

    `problem`: why the wait itself has failed, or "". `lines`: its diagnosis for a screen. `hours`: what its hours went
    to, in one line, or "".
    """

    launch: Launched
    end: LaunchEnd = NOTHING_KNOWN
    problem: str = ""
    logs: FetchedLogs = field(default_factory=FetchedLogs)
    diagnosis: Diagnosis | None = None
    lines: Sequence[str] = ()
    hours: str = ""

    @property
    def message(self) -> str:
        """How it ended, or why that is not known."""
        return self.end.message or self.problem
