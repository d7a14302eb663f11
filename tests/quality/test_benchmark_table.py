# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table that `benchmarks/run all` makes: its rows, its ratios, and its place in RESULTS.md."""

from __future__ import annotations

from benchmarks.all.__main__ import BEGIN, END, RESULTS, put, report
from benchmarks.all.rows import QUICK, WHOLE, rows_of
from benchmarks.all.taken import NOW, Beside, Taken


def taken(*cpu: float, load: float = 1.0) -> list[Taken]:
    return [Taken(2 * each, each, load) for each in cpu]


def test_a_ratio_is_that_within_a_round_and_the_load_is_said() -> None:
    # The machine became three times as slow in the last round, for both.
    measured = {
        "floor": {NOW: taken(1.0, 1.0, 3.0), "0ld": taken(1.0, 1.0, 3.0)},
        "row": {NOW: taken(2.0, 2.0, 6.0), "0ld": taken(4.0, 4.0, 12.0, load=7.5)},
    }
    text = report(measured, Beside("0ld", {"floor": "", "row": "floor"}), "abc", 3)
    assert "| row | floor | 2.00 (4.00) | 2.00 | 4.00 (8.00) | 4.00 | 0.50 |" in text
    assert "| floor | - | 1.00 (2.00) | - | 1.00 (2.00) | - | 1.00 |" in text
    assert "commit abc and, in the same rounds, 0ld" in text and "load 1.0 to 7.5" in text.replace("\n", " ")


def test_each_row_has_another_name_and_comes_after_its_floor() -> None:
    for sizes in (QUICK, WHOLE):
        names = [row.name for row in rows_of(sizes)]
        assert len(set(names)) == len(names) > 15
        assert all(row.floor in ("", *names[:number]) for number, row in enumerate(rows_of(sizes)))


def test_the_table_replaces_the_one_before_it_in_the_results_and_nothing_else() -> None:
    page = RESULTS.read_text(encoding="utf-8")
    once = put("a new table", page)
    assert once == put("a new table", put("another", page))
    assert once.split(BEGIN)[0] == page.split(BEGIN)[0] and once.split(END)[1] == page.split(END)[1]
    assert f"{BEGIN}\na new table\n{END}" in once
