# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a run directory as their own writers write them.

A test of a part that reads files of another takes them from here: written by hand, they say what the reader expects.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.report.diagnose import DIAGNOSIS_SPEC, diagnose
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm

#: The end of a rank's log for which a diagnosis finds that the GPU's memory is full.
CUDA_OOM = (
    'Traceback (most recent call last):\n  File "pretrain.py", line 3, in step\n    go()\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.\n"
)


def write_diagnosis(slurm: Slurm, run: Path, **options: Any) -> dict[str, Any]:
    """Diagnose the launch of a run directory as the playbook does, which writes diagnosis.json. The module's result."""
    defaults = {name: option.get("default") for name, option in DIAGNOSIS_SPEC.items()}
    return diagnose(slurm, {**defaults, "run_dir": str(run), "processes": 1, **options})
