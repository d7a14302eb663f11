# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results of a sweep: a table for the screen, and CSV and JSON files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import duration
from ansible_collections.rankzero.slurm.plugins.module_utils.report.sweep_results import ElementRow, SweepOutcome
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import FAILED, STANDINGS, SUCCEEDED
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.card import shown_value

# The screen shows only the best elements and failures; the files contain all of them.
MOST_ROWS = 40
_FIXED = ("standing", "metric", "job_id", "generation", "wall_time", "message", "run_dir", "key")


def names_of(parts: Iterable[Mapping[str, object]]) -> list[str]:
    """The names that any row has of its parameters or scalars, in order of first appearance."""
    return list(dict.fromkeys(name for part in parts for name in part))


def ordered(sweep: SweepOutcome) -> list[ElementRow]:
    """The rows for people: by metric, best first; then those without a metric, by number."""
    sign = 1 if sweep.goal == "min" else -1
    return sorted(sweep.elements, key=lambda row: (row.metric is None, sign * (row.metric or 0.0)))


def screen(sweep: SweepOutcome) -> list[str]:
    """Aligned lines: the elements, the number of each status, the best one."""
    rows = ordered(sweep)
    parameters, metric = names_of(row.parameters for row in rows), sweep.metric
    left = len(rows) - MOST_ROWS
    if left > 0:
        # Failures are shown in addition to the best elements.
        bad = [row for row in rows if row.standing == FAILED][: MOST_ROWS // 2]
        rows = [row for row in rows if row not in bad][: MOST_ROWS - len(bad)] + bad
    head = ["", *parameters, *([metric] if metric else []), "", "job", "took"]
    table = [head]
    for row in rows:
        table.append(
            [
                str(row.number),
                *(_cell(row.parameters.get(name, "")) for name in parameters),
                *([("" if row.metric is None else shown_value(row.metric))] if metric else []),
                row.standing,
                str(row.job_id or ""),
                "" if row.wall_time is None else duration(row.wall_time),
            ]
        )
    widths = [max(len(line[column]) for line in table) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in table]
    if left > 0:
        lines.append(f"({left} more in the files)")
    for row in [row for row in rows if row.standing == FAILED][:5]:
        lines.append(f"{row.number} failed: {row.message}")
    lines.append(f"{sweep.name}: {tally(sweep)}")
    return [printable(line) for line in lines]


def tally(sweep: SweepOutcome) -> str:
    """The number of elements of each standing, and the best one so far, on one line."""
    counts = sweep.counts
    order = (SUCCEEDED, *STANDINGS)
    text = ", ".join(f"{counts[name]} {name}" for name in dict.fromkeys(order) if counts.get(name))
    best = sweep.best
    if best and best.metric is not None:
        values = ", ".join(f"{name}={_cell(value)}" for name, value in best.parameters.items())
        text += f"; best {sweep.metric} {shown_value(best.metric)} by element {best.number} ({values})"
    return text


def _cell(value: str) -> str:
    return printable(value, 24)


def as_csv(sweep: SweepOutcome) -> str:
    """CSV with one line for each element. A value with the same name as a parameter gets a prefix."""
    rows = sweep.elements
    parameters, values = names_of(row.parameters for row in rows), names_of(row.scalars for row in rows)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    taken = {"number", *parameters, *_FIXED}
    writer.writerow(
        ["number", *parameters, *_FIXED, *(f"artifact.{name}" if name in taken else name for name in values)]
    )
    for row in rows:
        cells = [row.number, *(row.parameters.get(name, "") for name in parameters)]
        cells += ["" if value is None else value for value in (getattr(row, name) for name in _FIXED)]
        writer.writerow([*cells, *(row.scalars.get(name, "") for name in values)])
    return out.getvalue()


def write(sweep: SweepOutcome, dest: str) -> dict[str, str]:
    """Write results.csv and results.json to DEST/<name>/sweep-<key>/ and return their paths. Raises RankzeroError."""
    place = Place.of(dest, sweep.name, f"sweep-{sweep.key[:16]}")
    place.refuse_tracked()
    names = ("name", "key", "sweep_dir", "metric", "goal", "counts", "best", "elements")
    shown = {name: value for name, value in sweep.as_dict().items() if name in names}
    texts = {"csv": as_csv(sweep), "json": json.dumps(shown, indent=1) + "\n"}
    return {kind: place.write(f"results.{kind}", text) for kind, text in texts.items()}
