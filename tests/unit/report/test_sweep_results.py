# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a sweep has come to: the rows, the best of them, and its elements as launches of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.report.sweep_results import results
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.launch_list import job_info
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.parse import tasks_of
from tests.unit.submit.grid import Grid


@pytest.fixture
def grid(tmp_path: Path) -> Grid:
    return Grid(tmp_path)


def test_results_and_the_best(grid: Grid) -> None:
    grid.launch()
    assert (grid.results()["completed"], grid.results()["best"]) == (False, None)
    grid.ends(0, True, loss=2.5, step=3, note="x")
    grid.ends(1, True, loss=1.5, ok=True)
    grid.ends(2, False)
    found = grid.results()
    assert (found["completed"], found["success"], found["counts"]) == (True, False, {"succeeded": 2, "failed": 1})
    assert [row["metric"] for row in found["elements"]] == [2.5, 1.5, None]
    assert found["best"]["parameters"] == {"lr": "1"} and grid.results(goal="max")["best"]["number"] == 0
    assert found["first_failed"]["number"] == 2
    with pytest.raises(RankzeroError, match="'lss'; did you mean loss\\?; they have loss, step\\. Change"):
        grid.results(metric="lss")
    # Below the top of the artifact.
    Path(grid.run(1).file("work/result.json")).write_text('{"eval": {"acc": 0.5}}')
    assert grid.results(metric="eval.acc")["best"]["number"] == 1
    by_name = {"sweep_dir": None, "name": "job", "state_root": str(grid.runs.parents[1]), "key": None}
    assert results(grid.slurm(), by_name).key == grid.key + "0" * 48
    for wrong, said in (
        ({"key": "9"}, "no sweep job with key 9 is recorded"),
        ({"name": "other"}, "no sweep other is recorded in .*; sweeps there: none"),
        ({"name": None}, "which sweep\\?"),
        ({"sweep_dir": "/nowhere"}, "contains no sweep.json on this host"),
    ):
        with pytest.raises(RankzeroError, match=said):
            results(grid.slurm(), {**by_name, **wrong})


def test_job_info_finds_the_elements_of_an_array_by_its_number(grid: Grid) -> None:
    grid.launch()
    options = {"state_root": str(grid.runs.parents[1]), "job_id": "101"}
    found = job_info(grid.slurm(), options)["launches"]
    assert [one["job_id"] for one in found] == ["101_0", "101_1", "101_2"]
    (one,) = job_info(grid.slurm(), {**options, "job_id": "101_2"})["launches"]
    assert (one["job_id"], one["slurm_state"], one["key"]) == ("101_2", "PENDING", "02" * 8)


@pytest.mark.parametrize(
    ("row", "ids"),
    [
        ("13_[2,4-5%3]", ["13_2", "13_4", "13_5"]),
        ("13_[0-8:4]", ["13_0", "13_4", "13_8"]),
        ("13_7", ["13_7"]),
        ("20+1", ["20+1"]),
    ],
)
def test_what_a_row_of_an_array_stands_for(row: str, ids: list[str]) -> None:
    assert tasks_of(row) == ids
