# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results of a sweep on the screen and in files."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.report.sweep_results import SweepOutcome
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen import sweep_table


def row(number: int, standing: str = "succeeded", metric: float | None = None, **more: Any) -> dict[str, Any]:
    return {
        "number": number,
        "key": f"{number:02x}" * 32,
        "parameters": {"lr": str(number), "tag": "it's\nlong"},
        "standing": standing,
        "slurm_state": "PENDING" if standing == "waiting" else None,
        "metric": metric,
        "scalars": {} if metric is None else {"loss": metric, "lr": 9},
        "message": "so it ended",
        "job_id": f"7_{number}",
        "generation": 1,
        "run_dir": f"/r/{number}",
        "wall_time": 3.0 if standing == "succeeded" else None,
        **more,
    }


def result(rows: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    counts: dict[str, int] = {}
    for one in rows:
        counts[one["standing"]] = counts.get(one["standing"], 0) + 1
    best = min((one for one in rows if one["metric"] is not None), key=lambda one: one["metric"], default=None)
    base = {"name": "lr", "key": "ab" * 32, "sweep_dir": "/s", "metric": "loss", "goal": "min", "counts": counts}
    return {**base, "best": best, "elements": rows, **more}


def test_the_best_come_first_and_what_failed_says_why() -> None:
    found = result(
        [
            row(0, metric=2.5),
            row(1, "failed"),
            row(2, metric=0.12345678),
            row(3, "waiting"),
            row(4, "unsubmitted", job_id=None),
        ]
    )
    lines = sweep_table.screen(SweepOutcome.of(found))
    assert lines[0].split() == ["lr", "tag", "loss", "job", "took"]
    assert [line.split()[0] for line in lines[1:6]] == ["2", "0", "1", "3", "4"]
    assert lines[1].split() == ["2", "2", "it's", "long", "0.1235", "succeeded", "7_2", "3", "s"]
    assert "waiting" in lines[4]
    assert lines[6] == "1 failed: so it ended"
    assert (
        lines[7]
        == "lr: 2 succeeded, 1 waiting, 1 failed, 1 unsubmitted; best loss 0.1235 by element 2 (lr=2, tag=it's long)"
    )
    up = sweep_table.screen(SweepOutcome.of({**found, "goal": "max"}))
    assert [line.split()[0] for line in up[1:3]] == ["0", "2"]
    assert "loss" not in sweep_table.screen(SweepOutcome.of({**result([row(0)]), "metric": None, "best": None}))[0]


def test_a_screen_has_room_for_some_and_always_for_failures() -> None:
    rows = [row(number, metric=float(number)) for number in range(100)] + [row(100, "failed")]
    lines = sweep_table.screen(SweepOutcome.of(result(rows)))
    assert len(lines) == 1 + sweep_table.MOST_ROWS + 3
    assert any(line.split()[:1] == ["100"] and "failed" in line for line in lines)
    assert "(61 more in the files)" in lines


def test_the_files_hold_everything(tmp_path: Path) -> None:
    found = result([row(0, metric=2.5), row(1, "failed")])
    files = sweep_table.write(SweepOutcome.of(found), str(tmp_path))
    assert files["csv"] == str(tmp_path / "lr" / "sweep-abababababababab" / "results.csv")
    with open(files["csv"], encoding="utf-8", newline="") as stream:
        first, second = csv.DictReader(stream)
    assert (first["lr"], first["tag"], first["metric"], first["artifact.lr"]) == ("0", "it's\nlong", "2.5", "9")
    assert (second["standing"], second["metric"], second["loss"], second["run_dir"]) == ("failed", "", "", "/r/1")
    document = json.loads(Path(files["json"]).read_text(encoding="utf-8"))
    assert document["best"]["number"] == 0 and len(document["elements"]) == 2
    assert sorted(path.name for path in (tmp_path / "lr" / "sweep-abababababababab").iterdir()) == [
        "results.csv",
        "results.json",
    ]
