# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has become of a generation, from its own verdict and Slurm's record of its job; and whether it runs anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.run import steps
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import MAY_FOLLOW, RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord


@dataclass(frozen=True)
class Standing:
    """Where the newest generation stands: active, succeeded, failed or unknown (an intent without a known job)."""

    state: str
    run: RunDirectory
    job_id: str | None = None
    record: JobRecord | None = None
    message: str = ""


def settled(
    run: RunDirectory,
    job_id: str,
    record: JobRecord | None,
    outcome: Mapping[str, Any] | None,
    *,
    silent: bool,
    **partial: object,
) -> Standing:
    """The standing of a generation whose job is known. `record`: Slurm's, asked after `outcome` was read. `silent`:
    accounting did not answer. Raises `SlurmUnavailable` (with `partial`) where nobody can tell.
    """
    record = steps.judged(record, outcome)
    if outcome and outcome.get("ended_by") not in MAY_FOLLOW and not (record and record.pending):
        # A job that was requeued after its verdict waits once more, and may yet succeed.
        state = "succeeded" if outcome.get("success") else "failed"
        return Standing(state, run, job_id, record, str(outcome.get("message", "")))
    if record and record.active:
        return Standing("active", run, job_id, record)
    # The verdict may have been written between the two looks.
    outcome = run.outcome() or outcome
    if outcome and outcome.get("success"):
        return Standing("succeeded", run, job_id, record, str(outcome.get("message", "")))
    if record is None and silent:
        raise SlurmUnavailable(
            f"job {job_id} is not in the queue and accounting is silent: its end is unknown. Try again later.",
            **partial,
            job_id=job_id,
        )
    message = steps.describe_end(record) if record else "the job is gone from Slurm and left no verdict"
    return Standing("failed", run, job_id, record, message)


def wants_new(standing: Standing, relaunch: str) -> bool:
    """Whether a generation is followed by another one (or, where its submission was lost, submitted once more)."""
    if standing.state in ("active", "unknown"):
        return standing.state == "unknown"
    return relaunch == "always" or (relaunch == "on_failure" and standing.state == "failed")
