# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A summary of launches in Markdown, for a pull request or the summary of a CI job."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import duration, significant
from ansible_collections.rankzero.slurm.plugins.module_utils.report.page import LAUNCH, Page, PageLaunch
from ansible_collections.rankzero.slurm.plugins.module_utils.report.sweep_results import SweepOutcome
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page.render import parameters, title

MOST_ROWS, MOST_LINES = 50, 30
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&@])")


def escaped(text: object) -> str:
    """Text that Markdown shows as it is, in one line."""
    return _SPECIAL.sub(r"\\\1", printable(str(text), 300))


def markdown(page: Page) -> str:
    """The summary of what the cluster returned."""
    lines = [f"## {escaped(title(page))}", ""]
    if page.kind == LAUNCH:
        lines += _launch(page.launches[0])
    elif page.sweep:
        lines += _sweep(page.sweep)
    else:
        names = ("launch", "job", "standing", "nodes", "time", "message")
        lines += table(names, [_row(launch) for launch in page.launches[:MOST_ROWS]])
    if page.comparison:
        rows = [
            (row.short_name, row.nodes, _number(row.seconds), _number(row.speed_up), _number(row.efficiency))
            for row in page.comparison
        ]
        lines += ["", *table(("launch", "nodes", page.time, "speed-up", "efficiency"), rows)]
    return "\n".join(lines) + "\n"


def _launch(launch: PageLaunch) -> list[str]:
    lines = table(("launch", "job", "standing", "nodes", "time", "message"), [_row(launch)])
    places = [(row.tracker, row.place or f"run {row.run}") for row in launch.trackers]
    if places:
        lines += ["", *table(("tracker", ""), places)]
    if launch.values:
        lines += ["", *table(("value", ""), list(launch.values.items()))]
    rows = []
    for name, curve in launch.metrics.items():
        values = [value for value in curve.values if value is not None]
        if values:
            rows.append((name, _number(values[0]), _number(values[-1]), _number(min(values)), curve.steps[-1]))
    if rows:
        lines += ["", *table(("metric", "first", "last", "lowest", "step"), rows)]
    if launch.cause:
        lines += ["", "### Cause", "", *quoted(launch.cause)]
    return lines


def quoted(text: Sequence[str]) -> list[str]:
    """Lines that are shown as they are: the first MOST_LINES of a text."""
    fence = "````"
    return [fence, *(printable(line, 300).replace(fence, "''''") for line in text[:MOST_LINES]), fence]


def _sweep(sweep: SweepOutcome) -> list[str]:
    names = parameters(sweep)
    best = sweep.best.number if sweep.best else None
    rows = [
        (
            f"{row.number}{' (best)' if row.number == best else ''}",
            *(row.parameters.get(name, "") for name in names),
            row.standing,
            _number(row.metric),
        )
        for row in sweep.elements[:MOST_ROWS]
    ]
    return table(("element", *names, "standing", sweep.metric or "metric"), rows)


def _row(launch: PageLaunch) -> tuple[object, ...]:
    nodes = launch.nodes if isinstance(launch.nodes, int) else len(launch.nodes)
    took = duration(launch.wall_time)
    return (launch.short_name, launch.job_id or "-", launch.standing, nodes, took, launch.message)


def _number(value: float | None) -> str:
    return "-" if value is None else significant(value, 4)


def table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """The lines of a table: its head, and its cells as text."""
    lines = [f"| {' | '.join(map(escaped, names))} |", f"|{' --- |' * len(names)}"]
    return lines + [f"| {' | '.join(map(escaped, row))} |" for row in rows]
