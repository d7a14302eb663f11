# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a launch's artifact will lie, and the program of its runtime that judges it, for those who wait for it."""

from __future__ import annotations

import json
import os
import re
import shlex

from ansible_collections.rankzero.slurm.plugins.module_utils.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import fresh
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.journal import RunDirectory

CHECKER = "outcome.py"


def proof_of(run: RunDirectory) -> dict[str, str]:
    """{"artifact": its path, "checker": the program}. Raises `RankzeroError` where the job names no artifact."""
    try:
        contract = json.loads(fresh.text_of(run.file("contract.json")))
        runtime = re.search(r"^export RANKZERO_RUNTIME=(.+)$", fresh.text_of(run.file("job.sbatch")), re.MULTILINE)
        checker = os.path.join(shlex.split(runtime[1])[0], CHECKER) if runtime else ""
    except ValueError:
        contract, checker = {}, ""
    if not checker:
        raise RankzeroError(f"until: artifact needs contract.json and job.sbatch of the launch; {run.path} lacks them")
    if not contract.get("artifact"):
        raise RankzeroError(f"until: artifact, but the launch {run.path} names none (artifact in its job file)")
    place = os.path.normpath(run.file(os.path.join("work", contract["artifact"]["path"])))
    return {"artifact": place, "checker": checker}
