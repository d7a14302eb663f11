# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python module: typed, silent, and usable inside a running event loop, as in a notebook."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rankzero
from rankzero import direct, errors
from rankzero.playbook import Played
from tests.repository import ROOT
from tests.unit.command.conftest import Ansible

JOB = {"name": "gpt", "key": "72ee2a70" * 8, "generation": 1, "job_id": "7", "run_dir": "/s/runs/gpt/72ee2a70/1"}

#: What a user would write. Wrong attributes or types must not pass.
USAGE = """
import rankzero


def best(files: list[str]) -> float:
    losses: list[float] = []
    for file in files:
        launch: rankzero.Launch = rankzero.run(file, "--lr", "1e-3", nodes=4, overrides={"resources.time": "02:00:00"})
        try:
            losses.append(float(launch.wait(timeout=3600).result["loss"]))
        except rankzero.LaunchFailed:
            why: rankzero.Diagnosis = launch.diagnosis()
            print(why.family, *why.lines)
        except rankzero.Unfinished as left:
            print(left.code, launch.cancel().standing)
    nodes: list[str] = [node for one in rankzero.launches(active=True) for node in one.status().nodes]
    print(nodes, [attempt.exit_code for attempt in rankzero.attach("gpt").attempts])
    pulled: list[int] = [path.stat().st_size for path in rankzero.attach("gpt").pull("checkpoints", dest="out")]
    print(sum(pulled))
    plan: rankzero.Plan = rankzero.plan({"name": "gpt", "command": ["train.py"]}, listener=print)
    swept: rankzero.Launches = rankzero.sweep(files[0], {"lr": [0.1, "3e-4"]}, overrides={"sweep.parallel": 2})
    done, pending = rankzero.wait([*swept, *rankzero.submit_many(files)], first=1, timeout=60.0)
    for ended in rankzero.as_completed(pending):
        series: rankzero.Series = ended.metrics()["loss"]
        print(series.steps[-1], series.values[-1], ended.parameters.get("lr"), done.table())
    print(rankzero.compare(["gpt/72ee2a70", swept[0]], time="wall_time").rows[0]["scalars"])
    value: object = rankzero.submit(max, 1, 2, job={"name": "most"}).returned(timeout=60)
    print(value, plan.key, __import__("pathlib").Path(str(launch.logs()[0])))
    return min(losses)
"""
WRONG = """
import rankzero

rankzero.run("jobs/train.yml", nodes="four")
rankzero.run("jobs/train.yml").results
"""


@pytest.fixture
def queued(ansible: Ansible) -> Ansible:
    ansible.answer(0, ("job", "ok", {**JOB, "submission": "submitted", "standing": "queued"}))
    return ansible


def test_nothing_is_printed_unless_a_listener_prints(queued: Ansible, capfd: pytest.CaptureFixture[str]) -> None:
    launch = rankzero.run("jobs/train.yml", nodes=4)
    assert (launch.name, launch.key, launch.job_id) == ("gpt", "72ee2a70" * 2, "7")
    assert capfd.readouterr() == ("", "")
    rankzero.run("jobs/train.yml", listener=print)
    assert capfd.readouterr() == ("PLAY RECAP\n", "")


def test_output_goes_to_the_log(queued: Ansible, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="rankzero")
    rankzero.run("jobs/train.yml")
    assert [record.getMessage() for record in caplog.records] == ["PLAY RECAP"]


def test_call_in_a_running_event_loop(queued: Ansible) -> None:
    """A notebook runs its cells inside an event loop."""

    async def cell() -> str | None:
        return rankzero.run("jobs/train.yml").job_id

    assert asyncio.run(cell()) == "7"


def test_several_clusters_need_a_choice(ansible: Ansible) -> None:
    """The playbook refuses before anything is submitted (tests/unit/jobs/test_selection.py), if it is asked to."""
    ansible.answer(0)
    for call in (rankzero.run, rankzero.plan, rankzero.attach):
        with pytest.raises(rankzero.RankzeroError, match="cluster="):
            call("jobs/train.yml")
        assert "rankzero_one_cluster" in ansible.variables(), call


def test_attach_takes_what_the_command_takes(queued: Ansible) -> None:
    """Of the launches of a name the newest, which the cluster chooses as for the command."""
    status = {**JOB, "standing": "running", "slurm_state": "RUNNING", "active": True, "attempts": []}
    queued.answer(0, ("job_info", "ok", {"launches": [status]}))
    assert rankzero.attach("gpt").job_id == "7"
    given = queued.variables()
    assert given["launch_name"] == "gpt" and "single" in given
    queued.answer(2, ("job_info", "failed", {"msg": "no launch with name=gtp is recorded"}))
    with pytest.raises(rankzero.Refused, match="gtp"):
        rankzero.attach("gtp")


def test_one_call_at_a_time_is_made_in_this_process(queued: Ansible, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that calls meanwhile has a playbook. Ctrl-C is raised, as where a playbook was interrupted."""
    monkeypatch.setattr(direct, "_login", lambda call: call)
    calls: list[rankzero.Launch] = []

    def played(*_given: Any) -> Played:
        calls.append(rankzero.run("jobs/train.yml"))
        return Played(errors.INTERRUPTED, [])

    monkeypatch.setattr(direct, "_played", played)
    for count in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            rankzero.run("jobs/train.yml")
        assert len(calls) == len(queued.calls()) == count


def strict(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    (folder / "usage.py").write_text(program, encoding="utf-8")
    argv = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-incremental",
        "--follow-imports=silent",
        "--config-file=",
        "usage.py",
    ]
    return subprocess.run(
        argv, cwd=folder, env={"MYPYPATH": str(ROOT / "python")}, capture_output=True, text=True, check=False
    )


def test_usage_is_typed(tmp_path: Path) -> None:
    checked: Any = strict(tmp_path, USAGE)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    refused = strict(tmp_path, WRONG).stdout
    assert "arg-type" in refused and "attr-defined" in refused
