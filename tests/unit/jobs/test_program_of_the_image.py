# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program that is a file of the image (`container.workdir`), not of the code."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Site
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import Prepared, prepare
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import read_job

IMAGE = {"runtime": "apptainer", "image": "/i.sif", "workdir": "/opt/project"}


def ready(project: Path, *command: str) -> Prepared:
    given = {"name": "x", "command": list(command), "container": IMAGE}
    read = read_job(given, None, None, None, str(project))
    return prepare(read, Site("/state", "/store", read.settings), relaunch="on_failure", facts={})


def warned(made: Prepared) -> list[str]:
    return [line for line in made.lines if line.startswith("warning: container.workdir")]


def test_a_program_below_the_workdir_is_not_looked_for_in_the_code(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    made = ready(tmp_path, "scripts/pretrain.py", "--lr", "1")
    assert made.plan.argv[-3:] == ("scripts/pretrain.py", "--lr", "1")
    assert warned(made) == []


def test_a_program_that_the_code_has_too_is_said_to_be_the_images(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    (warning,) = warned(ready(tmp_path, "./train.py"))
    assert "/opt/project/train.py" in warning
