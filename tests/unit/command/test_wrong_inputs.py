# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command answers what people get wrong with what is right, on stderr, with the exit code that says what it was."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from rankzero import playbook
from rankzero.command import main
from tests import warm_playbooks
from tests.repository import BIN
from tests.unit.command.wrong_inputs import WRONG, Wrong

INVENTORY = """\
slurm_login:
  hosts:
    alpha:
      ansible_connection: local
      ansible_python_interpreter: {python}
      launch_cluster: {{state_root: {folder}/state, store_root: {folder}/store}}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a program, a job and an inventory of one cluster, whose login node is this machine."""
    folder = tmp_path / "project"
    (folder / "jobs").mkdir(parents=True)
    (folder / "train.py").write_text("print('trains')\n")
    (folder / "inventory").write_text(INVENTORY.format(python=sys.executable, folder=tmp_path))
    (tmp_path / "state" / "runs" / "tiny" / ("0" * 16) / "1").mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(playbook, "ansible_playbook", lambda: str(BIN / "ansible-playbook"))
    monkeypatch.setattr(playbook, "_attached", _warm)
    return folder


def _warm(argv: list[str], environment: dict[str, str], _output: Any) -> int:
    """A real playbook; the start of ansible-playbook is most of its time."""
    code, output = warm_playbooks.run(argv, Path.cwd(), environment)
    print(output)
    return code


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong.typed} {wrong.facts[0]}"[:60])
def test_a_wrong_input_is_answered_with_what_is_right(
    wrong: Wrong, project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (project / "jobs" / "tiny.yml").write_text(wrong.job)
    (project / "jobs" / "train.sh").write_text(f"#!/bin/bash\n#SBATCH --time=10\n{wrong.script}\nsrun true\n")
    before = sorted(os.listdir(project.parent / "state" / "runs"))
    code = main(wrong.typed.split(" "))
    said = capfd.readouterr().err
    assert (code, [fact for fact in wrong.facts if fact not in said]) == (wrong.code, []), said
    assert "Traceback" not in said and len(said.splitlines()) <= 6, said
    assert sorted(os.listdir(project.parent / "state" / "runs")) == before
