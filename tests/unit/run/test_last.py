# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`last` names the newest launch, wherever the name of a launch is taken."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import NoLaunch
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.find import one_run, select_runs

KEYS = ("0" * 16, "1" * 16, "2" * 16)


def made(root: Path, name: str, key: str, generation: int, at: float) -> str:
    """A run directory whose journal says when it was made."""
    path = root / "runs" / name / key / str(generation)
    path.mkdir(parents=True)
    run = RunDirectory(str(path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.time", lambda: at)
        run.record("intent")
    os.utime(path.parent, (at, at))
    return run.path


def last(root: Path) -> str:
    return one_run({"name": "last", "state_root": str(root)}).path


def test_the_newest_launch_of_all_names(tmp_path: Path) -> None:
    with pytest.raises(NoLaunch):
        last(tmp_path)
    made(tmp_path, "gpt", KEYS[0], 1, 100.0)
    newest = made(tmp_path, "bert", KEYS[1], 1, 300.0)
    made(tmp_path, "gpt", KEYS[2], 1, 200.0)
    assert last(tmp_path) == newest
    # A prune in another launch's folder makes no launch.
    os.utime(tmp_path / "runs" / "gpt" / KEYS[2], (400.0, 400.0))
    assert last(tmp_path) == newest
    again = made(tmp_path, "gpt", KEYS[0], 2, 500.0)
    assert last(tmp_path) == again
    assert [run.generation for run in select_runs({"name": "last", "state_root": str(tmp_path)})] == [1, 2]


def test_a_launch_that_is_named_so_keeps_its_name(tmp_path: Path) -> None:
    own = made(tmp_path, "last", KEYS[0], 1, 100.0)
    made(tmp_path, "gpt", KEYS[1], 1, 300.0)
    assert last(tmp_path) == own
