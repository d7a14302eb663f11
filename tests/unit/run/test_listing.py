# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of module job_info on screens of several widths, in the order of a column or of a number of the results."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.listing import (
    COLUMNS,
    HEAD,
    in_order,
    listing,
)

NOW = 1_800_000_000.0
LONG = "a rank ended with exit code 1, which a library of the site explains in a very long sentence " * 6


def launch(name: str, job: int, took: float, **scalars: Any) -> dict[str, Any]:
    artifact = {"valid": True, "scalars": scalars, "required": ["score"]} if scalars else None
    return {
        "name": name, "key": f"{job:016x}", "generation": 1, "job_id": str(job), "standing": "failed", "active": False,
        "slurm_state": "NODE_FAIL", "started_at": NOW - 9000 - took, "finished_at": NOW - 9000, "nodes": [],
        "message": LONG, "journal": [{"event": "submitted", "time": NOW - 90000}], "artifact": artifact,
    }  # fmt: skip


RUNNING = {
    **launch("running", 1000004, 50, score=1),
    "active": True,
    "artifact": None,
    "finished_at": None,
    "standing": "running",
    "slurm_state": "RUNNING",
    "nodes": ["node01"],
    "attempt": 0,
    "progress": {"step": 3, "total": 9, "loss": 2.5, "seconds_left": 60.0},
}
FOUND = [
    launch("b" * 64, 1000002, 70, loss=0.5, score=0.91, epochs=3),
    launch("a", 999999, 900, loss=10.25, epochs=20),
    launch("c", 1000003, 7),
    RUNNING,
]


@pytest.mark.parametrize("width", [80, 100, 200])
def test_a_launch_is_one_line_of_the_screen_with_its_result(width: int) -> None:
    lines = listing(FOUND, NOW, width=width)
    assert len(lines) == 1 + len(FOUND) and max(map(len, lines)) <= width
    for result in ("loss 2.5", "score 0.91", "loss 10.25"):
        assert sum(result in line for line in lines) == 1, lines
    assert lines[0].split() == [title for title in HEAD if title in lines[0].split()]
    assert {"name", "key", "standing", "time", "result", "what"} <= {*lines[0].split()}
    assert (lines[0].split() == list(HEAD)) is (width == 200)


def test_what_is_for_a_file_or_a_program_is_whole() -> None:
    lines = listing(FOUND, NOW)
    assert lines[0].split() == list(HEAD) and len(lines) == 1 + len(FOUND)
    assert sum(line.endswith(LONG.rstrip()) for line in lines) == 3 and any("b" * 64 in line for line in lines)


@pytest.mark.parametrize(
    ("sort", "jobs"),
    [
        ("loss", "1000002 1000004 999999 1000003"),
        ("-loss", "999999 1000004 1000002 1000003"),
        ("epochs", "1000002 999999 1000003 1000004"),
        ("job", "999999 1000002 1000003 1000004"),
        ("-time", "1000004 999999 1000002 1000003"),
        ("name", "999999 1000002 1000003 1000004"),
        ("result", "1000002 1000004 999999 1000003"),
    ],
)
def test_the_order_of_a_column_or_of_a_number(sort: str, jobs: str) -> None:
    ordered = in_order(FOUND, sort, NOW)
    assert [each["job_id"] for each in ordered] == jobs.split()
    lines = listing(ordered, NOW, sort)
    assert [line.split()[3] for line in lines[1:]] == jobs.split()
    shown = {"loss": 3, "-loss": 3, "epochs": 2}.get(sort)
    assert shown in (None, sum(f"  {sort.lstrip('-')} " in line for line in lines[1:])), "the number itself is shown"


def test_each_column_is_an_order() -> None:
    assert all(len(in_order(FOUND, title, NOW)) == len(FOUND) for title in COLUMNS)


def test_a_name_that_nothing_has_is_told_with_those_that_there_are() -> None:
    with pytest.raises(
        RankzeroError, match=r"'los' is neither a column \(name, .*\) nor a number .*score, loss, epochs"
    ):
        in_order(FOUND, "los", NOW)
    assert in_order([], "los", NOW) == []
