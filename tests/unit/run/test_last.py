# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`last` names the newest launch, wherever the name of a launch is taken."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ({"name": "gtp"}, "did you mean gpt?; names there, newest first: bert, gpt"),
        ({"name": "lattest"}, "did you mean last?; names there, newest first: bert, gpt"),
        ({"name": "latest"}, "did you mean last?; names there, newest first: bert, gpt"),
        ({"name": "1234.batch"}, "did you mean 1234?; names there, newest first: bert, gpt"),
        ({"name": "slurm-12_3.out"}, "did you mean 12_3?; names there, newest first: bert, gpt"),
        ({"name": "gpt", "key": KEYS[0], "generation": 9}, f"; generations of gpt/{KEYS[0]}, newest first: 1"),
        ({"name": "bert", "generation": 9}, f"; generations of bert/{KEYS[1]}, newest first: 1"),
        ({"name": "gpt", "generation": 9}, f"; keys of gpt, newest first: {KEYS[2]}, {KEYS[0]}"),
        ({"name": "gpt", "key": "f" * 16}, f"; keys of gpt, newest first: {KEYS[2]}, {KEYS[0]}"),
        ({"job_id": "7"}, "; names there, newest first: bert, gpt"),
    ],
)
def test_what_names_no_launch_is_answered_with_what_there_is(
    asked: dict[str, Any], answer: str, tmp_path: Path
) -> None:
    for name, key, at in (("gpt", KEYS[0], 100.0), ("gpt", KEYS[2], 200.0), ("bert", KEYS[1], 300.0)):
        made(tmp_path, name, key, 1, at)
        os.utime(tmp_path / "runs" / name, (at, at))
    for place in ("lost+found", "gpt/tmp", f"bert/{KEYS[1]}/0"):  # no launches
        (tmp_path / "runs" / place).mkdir()
    for name, at in (("gpt", 200.0), ("bert", 300.0)):
        os.utime(tmp_path / "runs" / name, (at, at))
    with pytest.raises(NoLaunch) as error:
        one_run({**asked, "state_root": str(tmp_path)})
    assert error.value.message.endswith(answer), error.value.message


def test_of_many_names_the_newest_are_shown(tmp_path: Path) -> None:
    for number in range(9):
        made(tmp_path, f"job{number}", KEYS[0], 1, 100.0)
        os.utime(tmp_path / "runs" / f"job{number}", (number, number))
    with pytest.raises(NoLaunch, match=r"newest first: job8, job7, job6, job5, job4 and 4 more$"):
        one_run({"name": "x" * 40, "state_root": str(tmp_path)})
