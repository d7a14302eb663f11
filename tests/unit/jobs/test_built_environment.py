# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a launch says of the environment that it builds, and what the role that builds it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Site
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.outbound import described
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import Prepared, prepare
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import Job, read_job


def ready(read: Job) -> Prepared:
    return prepare(read, Site("/state", "/store", read.settings), relaunch="never", facts={})


@pytest.mark.parametrize(("mode", "kind"), [("venv", "environment"), ("wheelhouse", "packages")])
def test_a_requirements_file(mode: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "requirements.txt").write_text("-r base.txt\ntorch\n")
    (tmp_path / "base.txt").write_text("numpy\n")
    given = {
        "name": "x",
        "command": ["train.py"],
        "environment": {"mode": mode, "requirements": "requirements.txt"},
        "code": {"exclude": ["*.txt"]},
    }
    read = read_job(given, None, None, None, str(tmp_path))
    made = ready(read)
    assert made.leaving.files[str(tmp_path)][-2:] == ["requirements.txt", "base.txt"]
    assert any(line.endswith("from requirements.txt") for line in made.lines)
    (ref,) = [ref for ref in made.plan.refs if ref.kind == kind]
    assert described(ref, made.snapshot, read)["requirements"] == "requirements.txt"
    (tmp_path / "base.txt").write_text("numpy  # a comment\n")
    assert ready(read).plan.key == made.plan.key
    (tmp_path / "base.txt").write_text("numpy>=2\n")
    assert ready(read).plan.key != made.plan.key
