# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The class file of docs/course.md with the playbook rankzero.slurm.course: where its exercise is looked for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def run_course(folder: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """Run the playbook in a folder, for a class without accounts on this machine."""
    given = {"course_root": str(folder / "class"), "course_students": "ada", "course_accounting": "off", **given}
    given["ansible_python_interpreter"] = sys.executable
    return subprocess.run(
        ["ansible-playbook", "-i", "localhost,", "rankzero.slurm.course", "-e", json.dumps(given), "-c", "local"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_relative_exercise_starts_at_the_current_directory(tmp_path: Path) -> None:
    (tmp_path / "exercise").mkdir()
    (tmp_path / "exercise" / "train.py").write_text("pass\n", encoding="utf-8")
    ran = run_course(tmp_path, course_exercise="exercise")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (tmp_path / "class" / "exercise" / "train.py").read_text(encoding="utf-8") == "pass\n"


def test_missing_exercise_is_reported_before_anything_is_created(tmp_path: Path) -> None:
    ran = run_course(tmp_path, course_exercise="missing")
    assert ran.returncode != 0
    assert str(tmp_path / "missing") in (ran.stdout + ran.stderr).replace("\n", "")
    assert not (tmp_path / "class").exists()
