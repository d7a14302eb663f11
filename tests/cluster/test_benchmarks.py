# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each benchmark still runs and writes its tables. Their figures are looked at nowhere: one round each says nothing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.repository import ROOT

# Only those who change a benchmark need this. Several use a lab of the same name.
pytestmark = [pytest.mark.more, pytest.mark.xdist_group("benchmarks")]

SMALLEST = {
    "agents": ("--only", "once-more"),
    "all": ("--quick", "--against", "HEAD"),
    "budget": ("--rounds", "1", "--report-only"),
    "command": ("--rounds", "1"),
    "ends": ("--launches", "2", "--load", "0"),
    "environments": ("--rounds", "1", "--nodes", "1", "--ranks", "1", "--parts", "times"),
    "faults": ("--random", "--count", "2", "--labs", "bare"),
    "hangs": ("--conditions", "path", "--launches", "7"),
    "history": ("--rounds", "1", "--sizes", "3,40"),
    "launch": ("--rounds", "1", "--artifact-rounds", "1"),
    "limits": ("--fraction", "0.0005", "--only", "files,followed"),
    "overhead": ("--rounds", "1", "--sizes", "1x1"),
    "scale": ("--nodes", "2,4", "--ranks", "2"),
    "specs": ("--count", "20"),
    "sweep": ("--rounds", "1", "--elements", "3"),
    "watch": ("--rounds", "1", "--seconds", "5"),
}


def test_every_benchmark_is_here() -> None:
    assert sorted(path.parent.name for path in (ROOT / "benchmarks").glob("*/__main__.py")) == sorted(SMALLEST)


@pytest.mark.parametrize("name", SMALLEST)
def test_a_benchmark_runs(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "benchmarks" / "run", name, *SMALLEST[name]],
        env={**os.environ, "RANKZERO_BENCHMARK_RESULTS": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "|" in done.stdout, "a table"
