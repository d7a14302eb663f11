# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run directories that version 0.1.0 wrote on a lab cluster are read by this version.

release_0_1.json holds their files as text: run -> path -> content. The job of `good` proved its artifact, rank 1 of
`fail` ran out of memory, `cancel` was cancelled, and `running` was copied while its job ran.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.logs.archive import collect
from ansible_collections.rankzero.slurm.plugins.module_utils.prune.prune import prune
from ansible_collections.rankzero.slurm.plugins.module_utils.report.diagnose import DIAGNOSIS_SPEC, diagnose
from ansible_collections.rankzero.slurm.plugins.module_utils.run import select
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search import launch_list
from tests.unit.run.test_launches import gone, queue

RUNS: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("release_0_1.json").read_text(encoding="utf-8"))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state root with all of them."""
    for files in RUNS.values():
        launch = json.loads(files["launch.json"])
        run = tmp_path / "runs" / launch["name"] / launch["key"][:16] / "1"
        for path, content in files.items():
            (run / path).parent.mkdir(parents=True, exist_ok=True)
            (run / path).write_text(content, encoding="utf-8")
    return tmp_path


def of(state: Path, name: str, **more: Any) -> dict[str, Any]:
    return {**dict.fromkeys(select.RUN_ARGUMENTS), "state_root": str(state), "name": f"old-{name}", **more}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("good", {"completed": True, "success": True, "exit_code": 0, "job_id": "1"}),
        ("fail", {"completed": True, "success": False, "exit_code": 1, "job_id": "2"}),
        ("cancel", {"completed": True, "success": False, "exit_code": 143, "job_id": "4"}),
    ],
)
def test_an_ended_launch_is_reported_where_slurm_has_forgotten_it(
    state: Path, name: str, wanted: dict[str, Any]
) -> None:
    (launch,) = launch_list.job_info(gone().slurm(), of(state, name))["launches"]
    assert {key: launch[key] for key in wanted} == wanted
    assert (launch["nodes"], launch["active"]) == (["node01", "node02"], False)
    assert (launch["artifact"] or {}).get("values", {}) == ({} if name == "cancel" else {"loss": 0.5})


def test_a_launch_that_runs_on_is_active(state: Path) -> None:
    slurm = queue("RUNNING", JobArrayID="3", Name="old-sleep.83990a844895c207.1").slurm()
    (launch,) = launch_list.job_info(slurm, of(state, "sleep"))["launches"]
    assert (launch["active"], launch["state"], launch["job_id"]) == (True, "RUNNING", "3")
    (launch,) = launch_list.job_info(gone().slurm(), of(state, "sleep"))["launches"]
    assert not launch["success"]


def test_its_logs_are_found_and_say_why_it_failed(state: Path) -> None:
    files, _problems = collect(str(state / "runs/old-fail/1119552837979498/1/logs"))
    assert {path for path, _size in files} >= {"0/rank-0000.log", "0/rank-0001.log", "job.2.log"}
    options = {key: value.get("default") for key, value in DIAGNOSIS_SPEC.items()}
    found = diagnose(gone().slurm(), {**options, **of(state, "fail"), "processes": 1}, check_mode=True)["diagnosis"]
    assert (found["family"], found["ranks"], found["nodes"]) == ("cuda_oom", [1], ["node02"]), found


def test_prune_counts_what_has_ended_and_keeps_what_runs(state: Path) -> None:
    slurm = queue("RUNNING", JobArrayID="3", Name="old-sleep.83990a844895c207.1").slurm()
    done = prune(slurm, store_root=str(state / "store"), state_root=str(state), days=0, check_mode=True)
    assert {Path(removal["path"]).parts[-3] for removal in done["removed"]} == {"old-good", "old-fail", "old-cancel"}
