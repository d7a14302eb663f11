# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a running launch is, from the logs of its ranks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.running import progress

STEPS = "step 10/100 loss 2.5 1.0 s/step\nstep 20/100 loss 2.25 1.0 s/step\nsaved nothing\n"
NOW = 1_000_000.0


def running(tmp_path: Path, age: float = 5.0, **logs: str) -> dict[str, Any] | None:
    run = tmp_path / "runs" / "gpt" / "0123456789abcdef" / "1"
    folder = run / "logs" / "1"
    folder.mkdir(parents=True)
    for name, text in logs.items():
        path = folder / f"{name.replace('_', '-')}.log"
        path.write_text(text)
        os.utime(path, (NOW - age, NOW - age))
    return progress({"run_dir": str(run), "attempt": 1, "started_at": NOW - 100}, NOW)


@pytest.mark.parametrize(
    "logs", [{"rank_0000": STEPS, "rank_0001": ""}, {"rank_0000": "hello\n", "rank_0001": "", "rank_0002": STEPS}]
)
def test_the_rank_that_prints_steps_is_read(tmp_path: Path, logs: dict[str, str]) -> None:
    """80 steps of one second are left, and the last line is 5 seconds old."""
    assert running(tmp_path, **logs) == {"step": 20, "total": 100, "loss": 2.25, "seconds_left": 75.0, "step_age": 5.0}


def test_a_step_that_is_late_leaves_no_estimate(tmp_path: Path) -> None:
    late = running(tmp_path, 137.0, rank_0000=STEPS)
    assert late is not None and (late["seconds_left"], late["step_age"]) == (None, 137.0)


def test_the_time_left_is_estimated_from_the_start_where_no_line_gives_a_time(tmp_path: Path) -> None:
    """Ten steps in 95 s, the start-up included: 90 more take at most 855 s, of which 5 have passed."""
    found = running(tmp_path, rank_0000="step 9/100 loss 2\nstep 10/100 loss 2\n")
    assert found is not None and found["seconds_left"] == 850.0


def test_what_the_log_does_not_show_is_not_known(tmp_path: Path) -> None:
    assert running(tmp_path, rank_0000="iteration 7\n") == {
        "step": 7,
        "total": None,
        "loss": None,
        "seconds_left": None,
        "step_age": 5.0,
    }


def test_a_launch_without_steps_has_no_progress(tmp_path: Path) -> None:
    assert running(tmp_path, rank_0000="loading\n", step="step 3\n") is None
