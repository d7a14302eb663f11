# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module course_class with the class file of docs/course.md: where its exercise is looked for, and what is sent."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def run_course(folder: Path, *flags: str, **given: str) -> subprocess.CompletedProcess[str]:
    """Run the playbook in a folder, for a class without accounts on this machine."""
    given = {"course_root": str(folder / "class"), "course_students": "ada", "course_accounting": "off", **given}
    given["ansible_python_interpreter"] = sys.executable
    return subprocess.run(
        [
            "ansible-playbook",
            "-i",
            "localhost,",
            "rankzero.slurm.course",
            "-e",
            json.dumps(given),
            "-c",
            "local",
            *flags,
        ],
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


def test_only_the_files_that_differ_are_sent_again(tmp_path: Path) -> None:
    """One archive, whatever the number of files; a second run changes nothing, and a note of the teacher stays."""
    source, there = tmp_path / "exercise", tmp_path / "class" / "exercise"
    for number in range(12):
        (source / f"part{number % 3}").mkdir(parents=True, exist_ok=True)
        (source / f"part{number % 3}" / f"{number}.py").write_text(str(number), encoding="utf-8")
    (source / "run.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    (source / "run.sh").chmod(0o755)
    planned = run_course(tmp_path, "--check", "--diff", course_exercise="exercise")
    assert "exercise/part2/11.py" in planned.stdout and not there.exists(), planned.stdout
    assert "changed=1" in run_course(tmp_path, course_exercise="exercise").stdout
    assert {path.name for path in there.rglob("*.py")} == {f"{number}.py" for number in range(12)}
    assert (there / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (there / "part0").stat().st_mode & 0o777 == 0o755
    (there / "NOTE").write_text("by the teacher", encoding="utf-8")
    assert "changed=0" in run_course(tmp_path, course_exercise="exercise").stdout
    (source / "part1" / "1.py").write_text("another", encoding="utf-8")
    again = run_course(tmp_path, "--diff", course_exercise="exercise").stdout
    assert "changed=1" in again and "exercise/part1/1.py" in again and "part1/4.py" not in again, again
    assert (there / "part1" / "1.py").read_text(encoding="utf-8") == "another" and (there / "NOTE").exists()


def test_missing_exercise_is_reported_before_anything_is_created(tmp_path: Path) -> None:
    ran = run_course(tmp_path, course_exercise="missing")
    assert ran.returncode != 0
    assert str(tmp_path / "missing") in (ran.stdout + ran.stderr).replace("\n", "")
    assert not (tmp_path / "class").exists()


def test_a_task_cannot_send_a_request_of_its_own(tmp_path: Path) -> None:
    options = {"name": "ddp", "root": str(tmp_path / "class"), "students": ["ada"], "x_request": {"archive": "/etc/x"}}
    command = ["ansible", "-i", "localhost,", "-c", "local", "localhost", "-m", "rankzero.slurm.course_class"]
    ran = subprocess.run(
        [*command, "-a", json.dumps(options)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode != 0 and "x_request" in ran.stdout + ran.stderr
    assert not (tmp_path / "class").exists()
