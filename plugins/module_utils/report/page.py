# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of module report_page, as the controller reads it to render a page. Data only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import Parameters, record_of, records_of
from ansible_collections.rankzero.slurm.plugins.module_utils.report.comparison import Measured
from ansible_collections.rankzero.slurm.plugins.module_utils.report.sweep_results import SweepOutcome
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_end import LaunchName

LAUNCH, COMPARE, SWEEP, INDEX = "launch", "compare", "sweep", "index"

# A row of a table that only the page's template and script read.
Row = Mapping[str, object]


@dataclass(frozen=True)
class Shown:
    """A value with its name."""

    name: str
    value: str


@dataclass(frozen=True)
class Variable:
    """A variable of the ranks, and why it has this value."""

    name: str
    value: str
    reason: str
    set_by: str


@dataclass(frozen=True)
class Curve:
    """The points of a metric; a value that is not a number is None."""

    steps: Sequence[int]
    values: Sequence[float | None]


@dataclass(frozen=True)
class Tracked:
    """Where a launch is found in a tracker."""

    tracker: str
    run: str
    place: str


@dataclass(frozen=True)
class Hours:
    """What the hours of a launch went to; the template reads the rest. `parts`: rows of the table of hours."""

    parts: Sequence[Mapping[str, object]] = ()
    node_seconds: float = 0.0
    node_hours: float = 0.0
    gpu_hours: float | None = None
    queue_seconds: float | None = None
    energy_joules: float | None = None
    accounted: bool = False
    sentence: str = ""


@dataclass(frozen=True)
class PageLaunch(LaunchName):
    """A launch of the page. The fields after `values` are empty for a launch in a list, which has at most one value.

    Times are in epoch seconds, `wall_time` is in seconds. `nodes`: their names; in a list their number.
    """

    job_id: str | None
    standing: str
    success: bool
    completed: bool
    message: str
    run_dir: str
    nodes: Sequence[str] | int
    wall_time: float | None
    started_at: float | None
    user: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    world_size: int | None = None
    trackers: Sequence[Tracked] = ()
    variables: Sequence[Variable] = ()
    provenance: Sequence[Shown] = ()
    metrics: Mapping[str, Curve] = field(default_factory=dict)
    notes: Sequence[str] = ()
    spec: Mapping[str, str] = field(default_factory=dict)
    attempts: Sequence[Row] = ()
    ranks: Sequence[Row] = ()
    timeline: Sequence[Row] = ()
    marks: Sequence[Row] = ()
    heat_maps: Sequence[Row] = ()
    preflight: Sequence[str] = ()
    cause: Sequence[str] = ()
    ledger: Hours = field(default_factory=Hours)

    @classmethod
    def of(cls, launch: Parameters) -> PageLaunch:
        """Read a launch of the module's result."""
        return record_of(
            cls,
            launch,
            trackers=partial(records_of, Tracked),
            variables=partial(records_of, Variable),
            provenance=partial(records_of, Shown),
            metrics=lambda metrics: {name: record_of(Curve, curve) for name, curve in metrics.items()},
            ledger=partial(record_of, Hours),
        )


@dataclass(frozen=True)
class Page:
    """What a page shows. `note`: why there is no comparison. `time`: the name of the time that is compared."""

    kind: str
    launches: Sequence[PageLaunch]
    comparison: Sequence[Measured] = ()
    time: str = ""
    note: str = ""
    sweep: SweepOutcome | None = None
    omitted: int = 0

    @classmethod
    def of(cls, result: Parameters) -> Page:
        """Read the result of the module. Fields that Ansible adds are left out."""
        return record_of(
            cls,
            result,
            launches=lambda launches: [PageLaunch.of(launch) for launch in launches],
            comparison=partial(records_of, Measured),
            sweep=SweepOutcome.of,
        )
