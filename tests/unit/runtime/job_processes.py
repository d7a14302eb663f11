# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes of a job of the harness, also those that outlive its script for a moment."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

from tests.unit.runtime.harness import Job, wait_for


def processes(job: Job) -> list[int]:
    """Processes that still have this run directory in their environment."""
    pids = []
    for entry in filter(lambda entry: entry.name.isdigit(), Path("/proc").iterdir()):
        with contextlib.suppress(OSError):
            if f"RANKZERO_RUN_DIR={job.run}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                pids.append(int(entry.name))
    return pids


def wait_until_gone(job: Job) -> None:
    """Until nothing of this job runs any more. It is soon: a sampler looks every second."""
    with subprocess.Popen(["sleep", "30"]) as limit:
        try:
            wait_for(lambda: not processes(job), limit)
        finally:
            limit.kill()
