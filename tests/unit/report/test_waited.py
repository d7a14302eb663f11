# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What module job_wait says of a launch before a wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.report import waited
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import open_run
from tests.unit.run.test_launches import SUBMITTED, make_run, queue, started

END = 1_800_000_000


@pytest.mark.parametrize(("passed", "hidden"), [(10, True), (39, True), (41, False)])
def test_whether_an_outcome_may_still_be_hidden_is_told_by_the_clusters_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passed: int, hidden: bool
) -> None:
    """The controller's clock may be hours apart from the one that gave the end."""
    run = make_run(tmp_path, *SUBMITTED, claim="1 lab 7\n", started_json=started())
    slurm = queue("FAILED", exit_code="256", StartTime=str(END - 60), EndTime=str(END)).slurm()
    monkeypatch.setattr(waited, "Slurm", lambda: slurm)
    monkeypatch.setattr(waited, "chosen_runs", lambda _options, _slurm: [open_run(str(run))])
    monkeypatch.setattr("time.time", lambda: float(END + passed))
    options = {"run_dirs": [str(run)], "x_settle": 0.0, "x_logs": None, "until": "finished"}
    (found,) = waited.reported({**options, "outcome_grace": 40}, check_mode=True)["launches"]
    assert (found["completed"], found["outcome"], found["finished_at"]) == (True, None, END)
    assert found.get("_hidden", False) is hidden
