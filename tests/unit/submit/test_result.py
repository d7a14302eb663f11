# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results of launches and sweeps: the action reads from the module's JSON what the launcher returned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.submit.result import (
    LaunchResult,
    SubmissionResult,
    SweepResult,
    read_result,
)
from tests.unit.submit.bench import Bench
from tests.unit.submit.grid import Grid


def sent(result: SubmissionResult) -> dict[str, Any]:
    """What the action gets: the module's result as JSON, with fields that the module adds."""
    document: dict[str, Any] = json.loads(json.dumps({**result.result(), "slurm_commands": 1}))
    return document


def test_the_action_reads_what_the_launcher_returned(bench: Bench) -> None:
    results = [bench.launcher(check_mode=True).launch(), bench.launcher().launch(), bench.launcher().launch()]
    assert [result.submission for result in results] == ["planned", "submitted", "adopted"]
    for result in results:
        read = read_result(sent(result))
        assert isinstance(read, LaunchResult) and sent(read) == sent(result)
    assert results[1].active_ids() == ["101"] and not results[1].hopeless
    cancelled = bench.launcher().cancel()
    assert sorted(sent(cancelled)) == sorted(
        ["name", "key", "generation", "run_dir", "changed", "submission", "missing", "job_id", "slurm_commands"]
    )
    read = read_result(sent(cancelled))
    assert isinstance(read, LaunchResult) and read.job_id == "101" and read.active_ids() == []


def test_the_action_reads_what_the_sweep_returned(tmp_path: Path) -> None:
    grid = Grid(tmp_path)
    planned, submitted = grid.launcher(check_mode=True).launch(), grid.launcher().launch()
    for result in (planned, submitted):
        read = read_result(sent(result))
        assert isinstance(read, SweepResult) and sent(read) == sent(result)
    assert submitted.active_ids() == ["101"] and "checks" not in sent(submitted)
    grid.ends(0, False)
    assert grid.launcher(relaunch="never").launch().hopeless
