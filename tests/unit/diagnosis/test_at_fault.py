# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of a node, of a launcher's shell or of a server that look like something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.diagnosis.test_lookalikes import TRACEBACK, advised


@pytest.mark.parametrize(
    ("text", "family", "said"),
    [
        (
            "salloc: Prolog failure on node k003\nsalloc: error: Job allocation 7 has been revoked\n",
            "node_failure",
            "prolog",
        ),
        (
            "srun: PrologSlurmctld failed, job killed\nsrun: error: Job allocation 7 has been revoked\n",
            "node_failure",
            "prolog",
        ),
        (
            "slurmstepd: error: execve(): /tmp/slurmd/job7/slurm_script: No such file or directory\n",
            "node_failure",
            "Slurm's own copy",
        ),
        (
            "bash: orted: command not found\n" + "-" * 74 + "\nORTE was unable to reliably start daemons.\n",
            "script_error",
            "mpirun",
        ),
        (
            TRACEBACK.format(file="app.py", function="main", message="wandb.errors.CommError: returned error 404"),
            "hub_auth",
            "refused",
        ),
        (
            TRACEBACK.format(
                file="app.py",
                function="main",
                message="RuntimeError: Detected mismatch between collectives on ranks. Rank 9 is running collective: A",
            ),
            "collective_timeout",
            "different collectives",
        ),
    ],
)
def test_what_is_at_fault_is_told_from_what_it_looks_like(tmp_path: Path, text: str, family: str, said: str) -> None:
    told = advised(tmp_path, text)
    assert (told.family, said in told.what) == (family, True), told


def test_the_number_of_an_error_is_no_node(tmp_path: Path) -> None:
    told = advised(tmp_path, "[rank1]: EI0006: [PID: 7] Getting socket times out. Reason: Remote Rank did not send.\n")
    assert (told.family, told.ranks, told.nodes) == ("collective_timeout", [1], [])
