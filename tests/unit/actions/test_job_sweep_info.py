# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller half of job_sweep_info: how it waits, what it says meanwhile, and what a lost connection does."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.rankzero.slurm.plugins.action import job_sweep_info
from ansible_collections.rankzero.slurm.plugins.module_utils.report.sweep_results import ACTION_ARGUMENTS
from ansible_collections.rankzero.slurm.plugins.module_utils.run.bounded import FEW, MOST_BYTES
from ansible_collections.rankzero.slurm.plugins.plugin_utils.waits.reconnect import retried
from tests.unit.screen.test_sweep_table import result, row


def looked(*standings: str) -> dict[str, Any]:
    """One answer of the module."""
    rows = [
        row(number, standing, 1.5 if standing == "succeeded" else None) for number, standing in enumerate(standings)
    ]
    over = "running" not in standings
    return result(rows, completed=over, success=set(standings) == {"succeeded"}, slurm_commands=1)


class Bench:
    """An action whose module answers what a test says, on a clock that only sleeping moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Any, **options: Any) -> None:
        self.now = 0.0
        self.lines: list[str] = []
        self.answers = list(answers)
        self.slept: list[float] = []
        self.given: list[dict[str, Any]] = []
        self.action = job_sweep_info.ActionModule.__new__(job_sweep_info.ActionModule)
        self.action._connection = SimpleNamespace(transport="local")
        check_mode = options.pop("check_mode", False)
        self.action._task = SimpleNamespace(args={"name": "lr", **options}, check_mode=check_mode)
        defaults = {name: spec.get("default") for name, spec in ACTION_ARGUMENTS.items()}
        monkeypatch.setattr(job_sweep_info.Action, "run", lambda *_args: {})
        monkeypatch.setattr(self.action, "validate_argument_spec", lambda _spec: (None, {**defaults, **options}))
        monkeypatch.setattr(job_sweep_info, "call_module", self.module)
        clock = SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep)
        monkeypatch.setattr(job_sweep_info, "time", clock)
        patient = functools.partial(retried, clock=clock.monotonic, sleep=self.sleep)
        monkeypatch.setattr(job_sweep_info, "retried", patient)
        monkeypatch.setattr(job_sweep_info.display, "display", lambda line, color=None: self.lines.append(line))

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def module(self, _action: Any, _name: str, module_args: dict[str, Any], *_rest: Any) -> dict[str, Any]:
        self.given.append(module_args)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    def run(self) -> dict[str, Any]:
        found: dict[str, Any] = self.action.run(None, {"inventory_hostname": "login"})
        return found


def test_it_waits_ever_more_patiently_and_says_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    going = [looked("running", "running")] * 20
    bench = Bench(
        monkeypatch, *going, looked("succeeded", "running"), looked("succeeded", "failed"), wait=True, poll_max=4.0
    )
    found = bench.run()
    assert (found["completed"], found["success"], found["polls"]) == (True, False, 22)
    assert bench.slept[0] == 1.0 and max(bench.slept) == 4.0 and bench.slept == sorted(bench.slept)
    told = [line for line in bench.lines if ": lr: " in line]
    assert told[0] == "login: lr: 2 running" and "best loss 1.5" in told[1] and len(told) == 3
    # The module is asked for what it knows alone.
    assert set(bench.given[0]) == {"name"}


def test_without_wait_and_under_check_mode_it_looks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for options in ({}, {"wait": True, "check_mode": True}):
        bench = Bench(monkeypatch, looked("running"), **options)
        found = bench.run()
        assert (found["polls"], found["completed"], bench.slept, found["files"]) == (1, False, [], {})


def test_the_wait_ends_at_its_limit_and_the_sweep_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, looked("running"), wait=True, wait_timeout=7)
    found = bench.run()
    assert not found.get("failed") and not found["completed"] and sum(bench.slept) == 7


def test_a_lost_connection_is_tried_again_and_then_says_how_to_attach(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = AnsibleConnectionFailure("mux is gone")
    bench = Bench(
        monkeypatch, looked("running"), gone, {"unreachable": True, "msg": "no route"}, looked("succeeded"), wait=True
    )
    assert bench.run()["success"]
    assert any("the connection is lost (mux is gone)" in line for line in bench.lines)
    bench = Bench(monkeypatch, looked("running"), gone, wait=True, reconnect_timeout=20)
    found = bench.run()
    assert found["failed"] and not found["completed"]
    assert (
        "The sweep lr is not affected" in found["msg"] and 'job_sweep_info -a "sweep_dir=/s wait=true"' in found["msg"]
    )


def test_what_the_module_refuses_is_the_tasks_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = {"failed": True, "msg": "sweep.metric: no artifact ..."}
    assert Bench(monkeypatch, looked("running"), refused, wait=True).run() == refused


def test_the_result_of_many_elements_is_small_and_the_files_have_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    values = {f"value_{index}": "v" * 150 for index in range(64)}
    answer = result(
        [row(number, metric=1.5, scalars=values) for number in range(FEW + 5)], completed=True, success=True
    )
    found = Bench(monkeypatch, answer, dest=str(tmp_path)).run()
    assert all(len(json.dumps(element)) <= MOST_BYTES for element in found["elements"])
    assert [element["left_out"] for element in found["elements"]] == [["scalars"]] * (FEW + 5)
    assert [element["run_dir"] for element in found["elements"]] == [one["run_dir"] for one in answer["elements"]]
    kept = json.loads(Path(found["files"]["json"]).read_text())
    assert all(element["scalars"] == values for element in kept["elements"])
