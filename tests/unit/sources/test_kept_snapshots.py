# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A command takes its snapshot once, however long it builds, and an editor's save meanwhile changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import Chosen, patterns_of, take_snapshot
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.kept_snapshots import Snapshots


def test_what_changes_after_the_plan_is_not_looked_at(tmp_path: Path) -> None:
    code, other = tmp_path / "code", tmp_path / "other"
    for folder in (code, other):
        folder.mkdir()
        (folder / "train.py").write_text("print(1)\n")
    first = Snapshots()
    planned = first.snapshot_of(str(code), Chosen(("*.log",)))
    path = first.save(str(tmp_path))
    (code / "train.py").write_text("print(2)\n")
    (code / "nohup.out").write_text("a log that was redirected into the project\n")
    second = Snapshots(path)
    assert second.snapshot_of(str(code), Chosen(("*.log",))) == planned
    assert take_snapshot(str(code), Chosen(("*.log",))).digest != planned.digest
    # Another folder, and other patterns, are another snapshot.
    assert second.snapshot_of(str(other)).digest == take_snapshot(str(other)).digest
    assert second.snapshot_of(str(code)).digest == take_snapshot(str(code)).digest


def test_the_task_that_sends_the_code_gets_what_was_planned(tmp_path: Path) -> None:
    """It knows patterns only: those of the job, and one for each file that is left out."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print(1)\n")
    (code / "job.yml").write_text("name: a\ncommand: [train.py]\n")
    first = Snapshots()
    planned = first.snapshot_of(str(code), Chosen(("*.log",), words=("train.py",)))
    assert planned.left_out == ("job.yml",)
    path = first.save(str(tmp_path))
    (code / "train.py").write_text("print(2)\n")
    second = Snapshots(path)
    assert second.snapshot_of(str(code), Chosen.everything(patterns_of(planned, ["*.log"]))) == planned


def test_a_lost_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RankzeroError, match="run the same command again"):
        Snapshots(str(tmp_path / "gone.json"))
