# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that a lab writes, compared whole. `python -m tests.unit.lab.labs` rewrites the golden files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import accounting, wrappers
from tests.unit.lab.labs import GOLDEN, LABS, PYTHON, rendered


@pytest.mark.parametrize("label", LABS)
def test_what_a_lab_writes(label: str) -> None:
    assert rendered(*LABS[label]) == (GOLDEN / f"{label}.txt").read_text(encoding="utf-8")


def test_every_golden_file_is_compared() -> None:
    assert sorted(path.stem for path in GOLDEN.iterdir()) == sorted(LABS)


@pytest.mark.parametrize("label", LABS)
def test_the_scripts_are_valid(label: str, tmp_path: Path) -> None:
    for name, text in wrappers.render(*LABS[label], PYTHON).items():
        if text.startswith("#!/bin/sh"):
            script = tmp_path / name.replace("/", "-")
            script.write_text(text, encoding="utf-8")
            done = subprocess.run(["sh", "-n", str(script)], capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{name}: {done.stderr}"
        else:
            compile(text, name, "exec")


def test_the_database_user_is_the_operating_systems() -> None:
    assert "'slurm'@'localhost' IDENTIFIED VIA unix_socket" in accounting.grants("slurm")
