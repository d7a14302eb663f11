# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What modules return about a thousand launches stays small, whatever their jobs have written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.run.bounded import FEW, MOST_BYTES, bounded
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import Attempt, LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.drained import Drained


def report(number: int, *, values: int = 0, nodes: int = 2, attempts: int = 1, text: int = 20) -> dict[str, Any]:
    """A launch whose artifact has this many values, on this many nodes, with texts of this many characters."""
    hosts = [f"gpu-node-{node:04d}" for node in range(nodes)]
    artifact = {
        "path": "work/m.json",
        "valid": True,
        "scalars": {f"value_{index}": index / 7 for index in range(values)},
    }
    events: list[Any] = [{"time": 1.0 + index, "event": "cancelled", "reason": "r" * text} for index in range(attempts)]
    return LaunchReport(
        name="lr",
        key=f"{number:016x}",
        generation=1,
        standing="succeeded",
        slurm_state="COMPLETED",
        message="m" * text,
        run_dir=f"/state/runs/lr/{number:016x}/1",
        logs_dir=f"/state/runs/lr/{number:016x}/1/logs",
        job_id=f"7_{number}",
        completed=True,
        success=True,
        reason="r" * text,
        drained=[Drained(host, "r" * text, "m") for host in hosts[: nodes // 4]],
        nodes=hosts,
        attempts=[Attempt(index, nodes=hosts, reason="r" * text) for index in range(attempts)],
        outcome={"success": True, "message": "m" * text, "artifact": artifact, "nodes": hosts},
        journal=events,
    ).as_dict()


@pytest.mark.parametrize(
    "shape",
    [
        {"values": 3},
        {"values": 2000},
        {"nodes": 2000},
        {"attempts": 60, "nodes": 64},
        {"text": 50_000},
        {"values": 500, "nodes": 500, "attempts": 20, "text": 5_000},
    ],
)
def test_each_of_many_launches_takes_four_kilobytes(shape: dict[str, int]) -> None:
    reports = [report(number, **shape) for number in range(FEW + 10)]
    found = bounded(reports)
    assert len(json.dumps(found)) <= (FEW + 10) * (MOST_BYTES + 2)
    for before, after in zip(reports, found):
        assert {
            name: after[name] for name in ("run_dir", "job_id", "success", "standing", "slurm_state", "completed")
        } == {name: before[name] for name in ("run_dir", "job_id", "success", "standing", "slurm_state", "completed")}
        assert set(after) - {"left_out"} == set(before)
        assert after["outcome"]["success"] is True and after["artifact"]["valid"] is True
        changed = {name for name in before if after[name] != before[name]}
        assert set(after.get("left_out", ())) == changed, "what is missing is named, and nothing else"


def test_a_few_launches_are_returned_whole_and_small_reports_always() -> None:
    large = [report(number, values=2000) for number in range(FEW)]
    assert bounded(large) == large
    mixed = [report(number, values=2000 if number == 7 else 3) for number in range(FEW + 1)]
    assert [number for number, (a, b) in enumerate(zip(mixed, bounded(mixed))) if a != b] == [7]


def test_elements_of_a_sweep_keep_what_names_them() -> None:
    element = {
        "number": 3,
        "key": "k" * 64,
        "parameters": {f"option_{index}": "v" * 500 for index in range(40)},
        "submission": "submitted",
        "why": "w" * 9000,
        "job_id": "7_3",
        "run_dir": "/state/runs/lr/k/1",
    }
    (*_others, found) = bounded([element] * (FEW + 1))
    assert len(json.dumps(found)) <= MOST_BYTES and found["left_out"] == ["why", "parameters"]
    assert {name for name in element if found[name] != element[name]} == {"why", "parameters"}
    assert found["parameters"]["option_0"] == "v" * 200 and len(found["parameters"]) == 8
