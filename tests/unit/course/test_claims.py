# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read of a student's folder is bounded."""

from __future__ import annotations

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath, File
from ansible_collections.rankzero.slurm.plugins.module_utils.course import claims
from ansible_collections.rankzero.slurm.plugins.module_utils.course.claims import HandedIn, runs_of
from tests.unit.course.semester import Semester

# Three nodes with two ranks each: a log for each rank and for each node.
LOOKED_FOR = HandedIn("result.json", ["model.pt"], 9)


def test_names_of_one_log_are_no_further_ranks(semester: Semester) -> None:
    """A name more costs a student nothing, so it counts for nothing."""
    run = semester.hand_in("ben", 3, 13)
    log = sorted((run / "logs" / "0").iterdir())[0]
    for number in range(6, 9):
        (log.parent / f"ddp-lab.13.node09.{number}.out").hardlink_to(log)
    (read,) = runs_of(str(semester.root / "students" / "ben"), "ddp-lab", LOOKED_FOR)
    assert sorted(line.rank for line in read.sanity) == [1, 2, 3, 4, 5]


def test_the_check_off_keeps_a_bounded_part_of_a_students_files(
    semester: Semester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root reads them, and a student may write as many and as large ones as the quota allows."""
    for generation in range(1, 6):
        run = semester.hand_in("ben", 3, 20 + generation, generation=generation)
        with (run / "logs" / "0" / f"ddp-lab.{20 + generation}.node01.0.out").open("a") as stream:
            stream.write("x" * 50_000)
    home = str(semester.root / "students" / "ben")
    runs = runs_of(home, "ddp-lab", LOOKED_FOR)
    assert [len(read.sanity) for read in runs] == [6] * 5
    assert sum(len(file.data) for read in runs for file in read.files.values()) == 0
    monkeypatch.setattr(claims, "MOST_RUNS", 2)
    assert [read.generation for read in runs_of(home, "ddp-lab", LOOKED_FOR)] == [4, 5]
    left = claims.Left(data=1500)
    monkeypatch.setattr(claims, "Left", lambda: left)
    few = runs_of(home, "ddp-lab", LOOKED_FOR)
    assert left.data >= 0
    assert sum(bool(read.launch) for read in few) < len(few)


def test_a_run_has_no_more_logs_than_ranks_and_nodes(semester: Semester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A student may put as many files there as the quota allows, in as many runs."""
    for generation in range(1, 4):
        run = semester.hand_in("ben", 3, 20 + generation, generation=generation)
        for number in range(300):
            (run / "logs" / "0" / f"z{number}.out").touch()
            (run / "work" / f"z{number}").touch()
    opened: list[str] = []
    read_file = Beneath.file

    def counted(beneath: Beneath, relative: str, most: int) -> File | None:
        opened.append(relative)
        return read_file(beneath, relative, most)

    monkeypatch.setattr(Beneath, "file", counted)
    assert semester.check(students=["ben"], nodes=[3])["counts"]["passed"] == 1
    assert sum("/logs/0/" in path for path in opened) == 3 * 9 and len(opened) < 3 * 20
