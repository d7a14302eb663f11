# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a running launch is, from the end of the log of its first or last rank. Reads only."""

from __future__ import annotations

import os

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.checklist import (
    RankLog,
    first_and_last,
    from_the_end,
    progress_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import LATE, LATE_SECONDS, parse_metrics
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory


def progress(launch: ModuleResult, now: float) -> ModuleResult | None:
    """Step, total, loss, and seconds left of a launch from job_info; None if its logs show no step.

    Megatron prints its steps on the last rank, most other programs on the first. `now`: epoch seconds.
    """
    logs = RunDirectory(str(launch["run_dir"])).shown(os.path.join("logs", str(launch["attempt"])))
    for log in first_and_last(logs).values():
        newest = progress_of(log, launch["started_at"])
        if newest is None:
            continue
        left, seconds = None, newest.seconds or newest.average
        if newest.total is not None and seconds is not None:
            left = max(0.0, (newest.total - newest.step) * seconds - max(0.0, now - newest.at))
        age = max(0.0, now - newest.at)
        if seconds is not None and age > max(LATE_SECONDS, LATE * seconds):
            left = None
        return {"step": newest.step, "total": newest.total, "loss": _loss(log), "seconds_left": left, "step_age": age}
    return None


def _loss(log: RankLog) -> float | None:
    """The newest loss in the log."""
    for line in from_the_end(log.tail):
        metrics = parse_metrics(line)
        if metrics is not None and metrics.loss is not None:
            return metrics.loss
    return None
