# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An environment and a set of packages of a project with packages of its own, by ansible-playbook on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests import recording
from tests.repository import BIN
from tests.unit.pyenv.own_packages import beside, by_requirements, told

ENVIRONMENT = "rankzero.slurm.uv_environment"
#: A host and a controller without a way out: nothing here needs one.
CUT_OFF = {"UV_OFFLINE": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1"}


def play(folder: Path, project: Path, *, fails: bool = False, **options: Any) -> dict[str, Any]:
    task = {ENVIRONMENT: {"project": str(project), "store_root": str(folder / "store"), **options}}
    text = [{"hosts": "localhost", "gather_facts": False, "tasks": [task]}]
    (folder / "play.yml").write_text(json.dumps(text), encoding="utf-8")
    record = folder / "record"
    record.unlink(missing_ok=True)
    words = [str(BIN / "ansible-playbook"), "-i", "localhost,", "-c", "local", "play.yml"]
    done = subprocess.run(
        [*words, "-e", f"ansible_python_interpreter={sys.executable}"],
        cwd=folder,
        env={**os.environ, **CUT_OFF, **recording.settings(record), "XDG_CACHE_HOME": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    *_before, result = recording.results(record, ENVIRONMENT)
    return result


def test_the_host_builds_what_is_sent(tmp_path: Path) -> None:
    project = beside(tmp_path / "here", tmp_path / "mark")
    built = play(tmp_path, project)
    assert built["changed"] and built["environment"]["downloaded_by"] == "head"
    again = play(tmp_path, project)
    assert (again["changed"], again["ref"]) == (False, built["ref"])
    (tmp_path / "here").rename(tmp_path / "gone")
    assert told(built["ref"]["path"], "delta", "epsilon") == [4, 5]


def test_the_controller_builds_if_the_inventory_says_so(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    project = by_requirements(tmp_path / "here", mark)
    options = {"requirements": "requirements.txt", "download": "controller"}
    refused = play(tmp_path, project, fails=True, **options)
    assert "delta" in refused["msg"] and "launch_cluster.build_on_controller: true" in refused["msg"]
    assert not mark.exists(), "nothing of the project has run"
    built = play(tmp_path, project, build_on_controller=True, **options)
    assert built["environment"]["downloaded_by"] == "controller"
    assert told(built["ref"]["path"], "delta", "epsilon") == [4, 5]


def test_a_wheelhouse_has_its_wheels(tmp_path: Path) -> None:
    project = beside(tmp_path / "here", tmp_path / "mark")
    made = play(tmp_path, project, mode="wheelhouse")
    assert made["packages"]["packages"] == {"delta": "1.0", "epsilon": "1.0"}
    (tmp_path / "other").mkdir()
    options = {"mode": "wheelhouse", "download": "controller"}
    refused = play(tmp_path / "other", project, fails=True, **options)
    assert "delta" in refused["msg"] and "launch_cluster.build_on_controller: true" in refused["msg"]
    brought = play(tmp_path / "other", project, build_on_controller=True, **options)
    assert brought["ref"]["key"] == made["ref"]["key"]
    assert brought["packages"]["packages"] == made["packages"]["packages"]
