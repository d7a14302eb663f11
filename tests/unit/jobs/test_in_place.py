# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A batch script that works in a folder of the cluster as it is (`code.in_place`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import IN_PLACE
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.outputs import work_of
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Site
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import Prepared, prepare
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import read_job
from tests.writers import Run

SCRIPT = "#!/bin/sh\ntrue\n"


def ready(project: Path, place: str, **code: Any) -> Prepared:
    given = {"name": "x", "script": SCRIPT, "code": {"in_place": place, **code}}
    read = read_job(given, None, None, None, str(project))
    return prepare(read, Site("/state", "/store", read.settings), relaunch="on_failure", facts={})


def test_nothing_is_taken_and_the_key_has_the_folder_only(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("before\n", encoding="utf-8")
    made = ready(tmp_path, "/home/me/gpt")
    assert [ref.kind for ref in made.plan.refs] == []
    assert made.sent()["code"] == {}
    assert ("code.in_place", "/home/me/gpt") in made.sent()["places"]["sources"]
    assert any(line.startswith(IN_PLACE) and "key" in line for line in made.lines)
    assert not any(line.startswith("takes from") for line in made.details)
    (tmp_path / "train.py").write_text("changed\n", encoding="utf-8")
    assert ready(tmp_path, "/home/me/gpt").plan.key == made.plan.key
    assert ready(tmp_path, "/home/me/other").plan.key != made.plan.key


def warned(project: Path, script: str, **code: Any) -> list[str]:
    read = read_job({"name": "x", "script": f"#!/bin/sh\n{script}\n", "code": code}, None, None, None, str(project))
    made = prepare(read, Site("/state", "/store", read.settings), relaunch="on_failure", facts={})
    return [line for line in made.lines if line.startswith("warning: script:")]


def test_what_the_copy_lacks_of_the_folder_is_said(tmp_path: Path) -> None:
    for path in ("train.py", ".venv/bin/python", "node_modules/a.js", "data/part", "runs/x/log"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (line,) = warned(tmp_path, "srun uv run train.py --data data/part --out /scratch/runs/1 $HOME/node_modules/x")
    assert " .venv/ " in line and "code.in_place" in line
    named = warned(tmp_path, "cat ./runs/x/log; ls $PWD/node_modules/a.js")
    assert [line.split()[2] for line in named] == [".venv/", "node_modules/", "runs/"]
    assert warned(tmp_path, "ls ./runs/x", in_place="/home/me/gpt") == []


def test_it_is_no_exact_commit(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"code\.in_place"):
        ready(tmp_path, "/home/me/gpt", dirty="refuse")


def test_its_outputs_lie_in_the_folder(tmp_path: Path) -> None:
    run = Run.below(tmp_path).launch({"script": SCRIPT, "code": {"in_place": "/home/me/gpt"}})
    assert work_of(RunDirectory(str(run.path))).path == "/home/me/gpt"
    other = Run.below(tmp_path, "other").launch()
    assert work_of(RunDirectory(str(other.path))).path == str(other.path / "work")
