# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What failed in a whole run is run once more: real runs of pytest in a folder of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository import ROOT

PASSES = "def test_passes():\n    pass\n"
#: Fails the first time, as an unlucky test does.
UNLUCKY = """
import pathlib
def test_unlucky():
    mark = pathlib.Path(__file__ + ".mark")
    lucky = mark.exists()
    mark.touch()
    assert lucky
"""
BROKEN = "def test_broken():\n    assert 0\n"
#: An error while a fixture ends is a failure, too.
AT_THE_END = UNLUCKY.replace("def test_unlucky():", "import pytest\n@pytest.fixture\ndef late():\n    yield") + (
    "def test_late(late):\n    pass\n"
)


def whole_run(folder: Path, **tests: str) -> tuple[int, str]:
    """The run, its repetition: (exit code, what the repetition printed)."""
    for name, text in tests.items():
        (folder / f"test_{name}.py").write_text(text, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}

    def python(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", *words],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip

    first = python("pytest", "--cache-clear", "--numprocesses", "2")
    again = python("tests.again", str(first.returncode))
    return again.returncode, again.stdout


def test_a_green_run_stays_green(tmp_path: Path) -> None:
    assert whole_run(tmp_path, passes=PASSES) == (0, "")


@pytest.mark.parametrize("text", [UNLUCKY, AT_THE_END], ids=["in a test", "at the end of a fixture"])
def test_what_passes_alone_is_listed(tmp_path: Path, text: str) -> None:
    status, printed = whole_run(tmp_path, one=text, passes=PASSES)
    assert status == 0, printed
    assert "test_passes" not in printed
    listed = printed.split("UNSTEADY")[1].splitlines()[1:]
    assert [line.strip().split("::")[0] for line in listed] == ["test_one.py"]


def test_what_fails_again_is_red(tmp_path: Path) -> None:
    status, printed = whole_run(tmp_path, one=UNLUCKY, two=BROKEN)
    assert status == 1, printed
    assert "UNSTEADY" not in printed


def test_more_than_three_are_red_at_once(tmp_path: Path) -> None:
    status, printed = whole_run(tmp_path, **{f"t{number}": UNLUCKY for number in range(4)})
    assert status == 1, printed
    assert "UNSTEADY" not in printed


def test_a_run_that_could_not_begin_is_red(tmp_path: Path) -> None:
    """Errors of pytest itself are no unlucky tests."""
    (tmp_path / "conftest.py").write_text("raise RuntimeError\n", encoding="utf-8")
    status, printed = whole_run(tmp_path, one=PASSES)
    assert status not in (0, 1), printed
    assert "again" not in printed
