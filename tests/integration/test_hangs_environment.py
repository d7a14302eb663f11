# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The benchmark of hangs refuses an environment that the lab's user cannot use, and says what to do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from benchmarks.hangs.environment import environment_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can try what another user may read")


def test_an_environment_whose_interpreter_others_cannot_reach_is_refused_before_a_lab_is_booted(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    environment = tmp_path / "environment"
    (environment / "bin").mkdir(parents=True)
    (home / "python").symlink_to("/usr/bin/python3")
    (environment / "bin" / "python").symlink_to(home / "python")
    with pytest.raises(SystemExit, match=r"user 260001 of the lab cannot import torch .*/usr/bin/python3 -m venv"):
        environment_of(str(environment), tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_one_without_torch_is_refused_with_what_its_python_said(tmp_path: Path) -> None:
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", str(tmp_path / "environment")], check=True)
    with pytest.raises(SystemExit, match=r"No module named|Permission denied"):
        environment_of(str(tmp_path / "environment"), tmp_path / "made")
