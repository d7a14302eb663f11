# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the jobs that Slurm shows under a launch's number are the launch's."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.run.jobs_of import own
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord


@pytest.mark.parametrize(
    ("name", "work_dir", "ours"),
    [
        ("gpt.k.1", "", True),
        ("gpt.k.7", "/elsewhere", True),
        ("by-hand", "/s/runs/gpt/k/2", True),
        ("another", "/home/someone", False),
        ("another", "", False),
        # Of a job of a few seconds accounting may have heard the end only.
        ("allocation", "", True),
        ("", "", True),
        ("allocation", "/home/someone", False),
    ],
)
def test_a_number_belongs_to_the_launch_whose_name_or_folder_it_bears(
    tmp_path: Path, name: str, work_dir: str, ours: bool
) -> None:
    run = tmp_path / "runs" / "gpt" / "k" / "1"
    run.mkdir(parents=True)
    record = JobRecord("7", name, "FAILED", work_dir=work_dir, source="sacct")
    assert (own(record, str(run)) is record) is ours


def test_a_number_that_nobody_knows_belongs_to_none() -> None:
    assert own(None, "/s/runs/gpt/k/1") is None
