# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which copy of a package the job's Python imports, on a node and in a container."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.runtime.harness import RUNTIME, runtime_parts


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job's code, and a folder of the environment; both have the package `twice`."""
    for place in ("code", "environment"):
        package = tmp_path / place / "twice"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"__version__ = '{place}'\n", encoding="utf-8")
    (tmp_path / "environment" / "once.py").touch()
    monkeypatch.setenv("RANKZERO_CODE", str(tmp_path / "code"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "environment"))
    return tmp_path / "code"


def test_the_copy_of_the_code_is_found_on_a_node(code: Path) -> None:
    with runtime_parts("node.reports") as reports:
        columns, _torch, trouble = reports.versions(sys.executable, ["twice@code"])
        assert trouble is None and columns["twice"] == "code"
        _columns, _torch, trouble = reports.versions(sys.executable, ["once@code"])
        assert f"once comes from {code.parent / 'environment' / 'once.py'}, not from {code}" in trouble
        folder = code.parent / "environment"
        columns, _torch, trouble = reports.versions(sys.executable, [f"once@{folder}"])
        assert trouble is None and columns["once"] == "ok"


@pytest.mark.parametrize("first", ["code", "environment"])
def test_in_a_container_the_path_of_the_job_decides(code: Path, first: str) -> None:
    second = {"code": "environment", "environment": "code"}[first]
    path = os.pathsep.join(str(code.parent / place) for place in (first, second))
    words = [sys.executable, os.path.join(RUNTIME, "container", "inside.py"), "", "twice@code"]
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    if first == "code":
        assert answer["columns"]["twice"] == "code" and answer["problems"] == []
    else:
        (problem,) = answer["problems"]
        assert f"twice comes from {code.parent / 'environment' / 'twice' / '__init__.py'}" in problem


def test_an_image_without_python_is_reported_only_where_it_must_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`env` in place of the container: the node's own bash, and a Python that is nowhere."""
    (tmp_path / "variables").touch()
    values = {"RUNTIME": RUNTIME, "CLEARED": "", "PYTHON": "no-such-python", "RUN_DIR": str(tmp_path), "CODE": ""}
    for name, value in {**values, "CONTAINER_ENV": str(tmp_path / "variables")}.items():
        monkeypatch.setenv(f"RANKZERO_{name}", value)
    with runtime_parts("preflight.program") as program:
        assert program.contained(["env"], []) == ({}, [])
        problems = ["the container: has no no-such-python to import json torch"]
        assert program.contained(["env"], ["json", "?torch:torchrun"]) == ({}, problems)
        monkeypatch.setenv("RANKZERO_PYTHON", sys.executable)
        assert program.contained(["env"], ["json"])[1] == []
