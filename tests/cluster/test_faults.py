# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exactly once under injected faults: each quick fault of the matrix (benchmarks/faults) once.

`benchmarks/run faults --count N` runs them all, also the slow ones, on three labs and as often as one likes.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.faults.matrix import FAULTS
from benchmarks.faults.run import run_matrix, shares
from tests.cluster.conftest import LabCluster

#: Of those that need the lab for themselves, the one that does not take long.
QUICK = [
    fault for fault in FAULTS if (not fault.slow and not fault.alone) or fault.name.startswith("slurmctld crashes")
]


def test_no_fault_loses_or_doubles_a_launch(lab: LabCluster, tmp_path: Path) -> None:
    runs = run_matrix(lab.lab, lab.name, tmp_path, len(QUICK), chosen=[fault.name for fault in QUICK])
    assert [run for run in runs if not run.good] == []
    assert len({run.fault for run in runs}) >= 20


def test_every_fault_is_run_at_least_once() -> None:
    each = shares(FAULTS, 1)
    assert set(each) == {fault.name for fault in FAULTS} and min(each.values()) == 1
    assert sum(shares(FAULTS, 300).values()) >= 290
