# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results of a sweep: a table for the screen, and CSV and JSON files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import duration
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import FAILED, STANDINGS, SUCCEEDED
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.card import shown_value

# The screen shows only the best elements and failures; the files contain all of them.
MOST_ROWS = 40
_FIXED = ("standing", "metric", "job_id", "generation", "wall_time", "message", "run_dir", "key")


def names_of(rows: Sequence[ModuleResult], where: str) -> list[str]:
    """The names that any row has under `where` (parameters or scalars), in order of first appearance."""
    return list(dict.fromkeys(name for row in rows for name in row[where]))


def ordered(result: ModuleResult) -> list[ModuleResult]:
    """The rows for people: by metric, best first; then those without a metric, by number."""
    rows = result["elements"]
    sign = 1 if result.get("goal") == "min" else -1
    measured = sorted((row for row in rows if row["metric"] is not None), key=lambda row: sign * row["metric"])
    return measured + [row for row in rows if row["metric"] is None]


def screen(result: ModuleResult) -> list[str]:
    """Aligned lines: the elements, the number of each status, the best one."""
    rows = ordered(result)
    parameters, metric = names_of(rows, "parameters"), result.get("metric")
    left = len(rows) - MOST_ROWS
    if left > 0:
        # Failures are shown in addition to the best elements.
        bad = [row for row in rows if row["standing"] == FAILED][: MOST_ROWS // 2]
        rows = [row for row in rows if row not in bad][: MOST_ROWS - len(bad)] + bad
    head = ["", *parameters, *([metric] if metric else []), "", "job", "took"]
    table = [head]
    for row in rows:
        table.append(
            [
                str(row["number"]),
                *(_cell(row["parameters"].get(name, "")) for name in parameters),
                *([("" if row["metric"] is None else shown_value(row["metric"]))] if metric else []),
                row["standing"],
                str(row["job_id"] or ""),
                "" if row["wall_time"] is None else duration(row["wall_time"]),
            ]
        )
    widths = [max(len(line[column]) for line in table) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in table]
    if left > 0:
        lines.append(f"({left} more in the files)")
    for row in [row for row in rows if row["standing"] == FAILED][:5]:
        lines.append(f"{row['number']} failed: {row['message']}")
    lines.append(f"{result['name']}: {tally(result)}")
    return [printable(line) for line in lines]


def tally(result: ModuleResult) -> str:
    """The number of elements of each standing, and the best one so far, on one line."""
    counts = result["counts"]
    order = (SUCCEEDED, *STANDINGS)
    text = ", ".join(f"{counts[name]} {name}" for name in dict.fromkeys(order) if counts.get(name))
    best = result.get("best")
    if best:
        values = ", ".join(f"{name}={_cell(value)}" for name, value in best["parameters"].items())
        text += f"; best {result['metric']} {shown_value(best['metric'])} by element {best['number']} ({values})"
    return text


def _cell(value: str) -> str:
    return printable(value, 24)


def as_csv(result: ModuleResult) -> str:
    """CSV with one line for each element. A value with the same name as a parameter gets a prefix."""
    rows = result["elements"]
    parameters, values = names_of(rows, "parameters"), names_of(rows, "scalars")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    taken = {"number", *parameters, *_FIXED}
    writer.writerow(
        ["number", *parameters, *_FIXED, *(f"artifact.{name}" if name in taken else name for name in values)]
    )
    for row in rows:
        cells = [row["number"], *(row["parameters"].get(name, "") for name in parameters)]
        cells += ["" if row[name] is None else row[name] for name in _FIXED]
        writer.writerow([*cells, *(row["scalars"].get(name, "") for name in values)])
    return out.getvalue()


def write(result: ModuleResult, dest: str) -> dict[str, str]:
    """Write results.csv and results.json to DEST/<name>/sweep-<key>/ and return their paths. Raises RankzeroError."""
    place = Place.of(dest, str(result["name"]), f"sweep-{str(result['key'])[:16]}")
    place.refuse_tracked()
    shown = {
        name: result[name] for name in ("name", "key", "sweep_dir", "metric", "goal", "counts", "best", "elements")
    }
    texts = {"csv": as_csv(result), "json": json.dumps(shown, indent=1) + "\n"}
    return {kind: place.write(f"results.{kind}", text) for kind, text in texts.items()}
