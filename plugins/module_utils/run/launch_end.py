# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of a launch, as everything shows it that tells people of it: screen, pages, messages. Data only.

It is the part of a report (launch_report.py) that needs no Slurm, so that a task which only shows it loads no client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.run.documents import Outcome
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import Standing


@dataclass(frozen=True)
class Artifact:
    """An artifact as the job found it. `scalars`: its values at the top level. `sha256`: of what was read."""

    path: str = ""
    valid: bool = False
    scalars: Mapping[str, Any] = field(default_factory=dict)
    sha256: str | None = None

    @classmethod
    def of(cls, outcome: Outcome | None) -> Artifact | None:
        """The artifact of an outcome; None where the job found none. What has another type is left out."""
        told, kinds = (outcome or {}).get("artifact"), {"path": str, "valid": bool, "scalars": dict, "sha256": str}
        if not told:
            return None
        return cls(**{name: told[name] for name, kind in kinds.items() if isinstance(told.get(name), kind)})


@dataclass(frozen=True)
class Tracked:
    """A launch in a tracker: the id of its run there, and the address where it is known."""

    tracker: str
    run: str
    place: str

    @classmethod
    def all_of(cls, rows: object) -> list[Tracked]:
        """Read what a job has recorded of its trackers. What is no record is left out."""
        records = [row for row in (rows if isinstance(rows, list) else []) if isinstance(row, dict)]
        return [cls(*(str(row.get(name) or "") for name in ("tracker", "run", "place"))) for row in records]


@dataclass(frozen=True)
class LaunchName:
    """What tells one launch from the others."""

    name: str
    key: str
    generation: int

    @property
    def short_name(self) -> str:
        """Name, start of the key, and generation, for people."""
        return f"{self.name}/{self.key[:8]}/{self.generation}"


@dataclass(frozen=True)
class LaunchEnd(LaunchName):
    """What became of one generation of a launch.

    `slurm_state` is Slurm's state, None if Slurm knows no job. `message` is the outcome of the launch in words. Times
    are epoch seconds, `wall_time` is in seconds.
    """

    standing: Standing
    message: str
    run_dir: str
    logs_dir: str
    job_id: str | None = None
    slurm_state: str | None = None
    completed: bool = False
    success: bool = False
    nodes: Sequence[str] = ()
    attempt: int = 0
    started_at: float | None = None
    finished_at: float | None = None
    wall_time: float | None = None
    outcome: Outcome | None = None

    @property
    def artifact(self) -> Artifact | None:
        """The artifact as the job found it; None where there is none."""
        return Artifact.of(self.outcome)

    @property
    def unfit(self) -> Mapping[str, str]:
        """Node -> why the job's own checks refused it."""
        return (self.outcome or {}).get("unfit_nodes") or {}

    @property
    def apart(self) -> bool:
        """Whether each rank has run on its own."""
        return (self.outcome or {}).get("together") is False

    @property
    def after_ranks(self) -> str:
        """What went wrong on the nodes after the ranks had ended; empty if nothing did."""
        return str((self.outcome or {}).get("after_ranks") or "")

    @property
    def trackers(self) -> list[Tracked]:
        """Where the launch is found in each of its trackers."""
        return Tracked.all_of((self.outcome or {}).get("trackers"))
