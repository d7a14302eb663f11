# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs whose name accounting has lost, in the check-off: what else Slurm knows of them counts."""

from __future__ import annotations

from tests.unit.course.semester import Semester, against, results


def test_a_name_that_accounting_has_lost_is_asked_of_the_queue(semester: Semester) -> None:
    semester.lose_the_name(11)
    assert results(semester.check(students=["ada"]), "ada") == {}
    assert semester.programs.count("squeue") == 1
    # The number was given again: what the queue has is another job.
    semester.queue["11"].update(SubmitTime="1", Name="bash", NodeList="node[04-06]")
    checked = semester.check(students=["ada"])
    assert results(checked, "ada") == {}, "the folder in which it worked is this run's, its steps ran on its nodes"


def test_a_name_that_nobody_knows_any_more_proves_nothing(semester: Semester) -> None:
    """The queue has forgotten it, and the row has no folder: nothing against the student, and nothing for him."""
    semester.lose_the_name(11, work_dir=False)
    semester.queue.clear()
    checked = semester.check(students=["ada"])
    assert results(checked, "ada") == {"record 3": "unproven", "key 3": "unproven"}
    lost = ("slurm", "accounting has lost the job's name: it heard of a step before it heard of the job")
    assert against(checked, "ada", "record") == against(checked, "ada", "key") == [lost]
    (ada,) = checked["students"]
    assert ada["result"] == "unproven"
    # A folder that is another run's is against him.
    semester.rows["11"]["WorkDir"] = str(semester.root / "runs" / "other" / ("0" * 16) / "1")
    checked = semester.check(students=["ada"])
    assert results(checked, "ada") == {"record 3": "failed", "key 3": "failed"}
    assert ("slurm", "the job's folder does not have the key of the record") in against(checked, "ada", "key")
