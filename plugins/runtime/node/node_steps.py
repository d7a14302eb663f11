# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps of one task on each of some nodes, beside whatever else runs in the job. Standard library only."""

from __future__ import annotations

import os
from collections.abc import Sequence

from artifact import verdict
from core import components, slurm
from core.files import HEADS
from core.state import Job


def words(job: Job, nodes: str, cpus: str, log: str, program: Sequence[str], bind: bool = True) -> list[str]:
    """srun and its options. `nodes`: names with commas; `program`: a file of the runtime and its options; it ends
    with the job (job_end.py).
    """
    count = nodes.count(",") + 1
    made = ["srun", "--overlap", f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1"]
    made += [f"--cpus-per-task={cpus}", *([] if bind else ["--cpu-bind=none"]), "--mem=0", "--gres=none"]
    made += [f"--nodelist={nodes}", "--kill-on-bad-exit=0", "--export=ALL", f"--output={log}", "--open-mode=append"]
    made += ["env", "RANKZERO_HOLDS=1", "/bin/bash", f"{job.runtime}/start/python.sh", "-I", "-S"]
    made += [f"{job.runtime}/{program[0]}", *program[1:]]
    made += ["--local-dir", job.get("RANKZERO_LOCAL_DIR"), "--slurm-tmp", slurm.temporary_folder(job)]
    return components.placed(job, [*made, "--memory", slurm.memory(job)])


def view(job: Job, name: str) -> str:
    """Where on every node of this run is what is held under a name."""
    from node import disk

    # It names the folder by them.
    for variable in ("RANKZERO_RUN_DIR", "SLURM_JOB_ID"):
        os.environ[variable] = job.get(variable)
    return os.path.join(disk.view(), name)


def make_report_folder(job: Job) -> None:
    """The folder in which every node reports, of this attempt."""
    try:
        os.makedirs(os.path.join(job.preflight.folder, HEADS), exist_ok=True)
    except OSError:
        verdict.refuse(job, 73, f"cannot create {job.preflight.folder}")
