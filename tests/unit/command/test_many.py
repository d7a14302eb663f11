# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many launches from Python: one playbook for all of them, tables, functions as jobs, and several threads."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import rankzero
from rankzero import functions
from tests.unit.command.conftest import Ansible
from tests.unit.command.test_documents import DIAGNOSED, KEY, PROVEN, REPORT

RUNNING = {"standing": "running", "active": True, "completed": False, "success": False, "finished_at": None}


def row(number: int, **more: Any) -> dict[str, Any]:
    """What job_wait says of a launch."""
    return {**PROVEN, "name": f"gpt{number}", "run_dir": f"/state/runs/gpt{number}/{KEY}/1", **more}


def stage(number: int, file: str) -> dict[str, Any]:
    known = {"name": f"gpt{number}", "key": KEY * 4, "generation": 1, "job_id": str(number), "standing": "waiting"}
    return {**known, "run_dir": row(number)["run_dir"], "file": file, "submission": "submitted"}


@pytest.fixture
def three(ansible: Ansible) -> rankzero.Launches:
    files = ["item 1", "jobs/train.yml", "item 3"]
    # The playbook may have another order: each after those that it follows.
    stages = [stage(number, file) for number, file in reversed(list(enumerate(files)))]
    ansible.answer(0, ("job_pipeline", "ok", {"stages": stages}))
    return rankzero.submit_many([{"name": "gpt0"}, "./jobs/train.yml", {"name": "gpt2"}], overrides={"seed": 7})


def test_many_jobs_are_one_playbook(ansible: Ansible, three: rankzero.Launches) -> None:
    assert [(launch.name, launch.job_id, launch.key) for launch in three] == [
        ("gpt0", "0", KEY), ("gpt1", "1", KEY), ("gpt2", "2", KEY),
    ]  # fmt: skip
    (call,) = ansible.calls()
    assert "rankzero.slurm.pipeline" in call["argv"]
    given = ansible.variables()
    assert [item["job"] for item in given["job"]] == [{"name": "gpt0"}, "./jobs/train.yml", {"name": "gpt2"}]
    assert all(item["after"] == [] for item in given["job"])
    assert (given["launch_overrides"], given["launch_wait"]) == ({"seed": 7}, False)
    assert rankzero.submit_many([]) == [] and len(ansible.calls()) == 1


def test_a_wait_asks_for_what_has_not_ended(ansible: Ansible, three: rankzero.Launches) -> None:
    ansible.answer(
        0, ("job_wait", "ok", {"launches": [row(2, **RUNNING), row(0), row(1, **RUNNING)], "completed": False})
    )
    done, pending = rankzero.wait(three, first=1)
    assert ([one.name for one in done], [one.name for one in pending]) == (["gpt0"], ["gpt1", "gpt2"])
    assert (ansible.variables()["first"], len(ansible.variables()["run_dirs"])) == (1, 3)
    assert done[0].result == {"loss": 1.5, "note": "x"} and len(ansible.calls()) == 2, "it came with the wait"
    assert three.wait(first=1).done == done and len(ansible.calls()) == 2
    ended = [row(1, **{name: REPORT.as_dict()[name] for name in ("standing", "success", "artifact")}), row(2)]
    ansible.answer(0, ("job_wait", "ok", {"launches": ended, "completed": True}))
    assert [one.name for one in rankzero.as_completed(three)] == ["gpt0", "gpt1", "gpt2"]
    assert (ansible.variables()["first"], len(ansible.variables()["run_dirs"])) == (1, 2)
    with pytest.raises(rankzero.LaunchFailed):
        _ = three[1].result
    assert [line.split() for line in three.table().splitlines()] == [
        ["launch", "standing", "seconds", "loss"],
        [f"gpt0/{KEY[:8]}", "succeeded", "1", "1.5"],
        [f"gpt1/{KEY[:8]}", "failed", "1", "-"],
        [f"gpt2/{KEY[:8]}", "succeeded", "1", "1.5"],
    ]
    ansible.answer(4, ("job_wait", "unreachable", {"msg": "no route to login"}))
    with pytest.raises(rankzero.Unreachable, match="no route"):
        rankzero.wait([rankzero.Launch(stage(5, "") | {"cluster": "login"}, three[0].options)])
    with pytest.raises(rankzero.UsageError, match="first"):
        rankzero.wait(three, first=0)


def test_values_that_a_wait_left_out_are_asked_for(ansible: Ansible, three: rankzero.Launches) -> None:
    short = {**PROVEN["artifact"], "scalars": {}}
    ansible.answer(
        0, ("job_wait", "ok", {"launches": [row(n, artifact=short, left_out=["artifact"]) for n in range(3)]})
    )
    three.wait()
    ansible.answer(0, ("job_info", "ok", {"launches": [row(0)]}))
    assert three[0].result == {"loss": 1.5, "note": "x"}


def test_a_time_limit_of_all_that_complete(ansible: Ansible, three: rankzero.Launches) -> None:
    ansible.answer(0, ("job_wait", "ok", {"launches": [row(n, **RUNNING) for n in range(3)], "completed": False}))
    with pytest.raises(rankzero.Unfinished, match="3 launches"):
        list(rankzero.as_completed(three, timeout=0.01))
    assert ansible.variables()["wait_timeout"] == 1


def test_a_sweep_has_a_launch_for_each_combination(ansible: Ansible) -> None:
    elements = [
        {"number": n, "key": KEY * 4, "parameters": {"lr": str(n)}, "submission": "submitted", "why": "new",
         "standing": "waiting", "job_id": f"7_{n}", "run_dir": f"/s/runs/lr/{n}/1", "generation": 1}
        for n in (1, 2)
    ]  # fmt: skip
    ansible.answer(0, ("job_sweep", "ok", {"name": "lr", "elements": elements}))
    launches = rankzero.sweep("jobs/train.yml", {"lr": [1, 2e-4]}, nodes=2)
    assert [(one.job_id, one.parameters) for one in launches] == [("7_1", {"lr": "1"}), ("7_2", {"lr": "2"})]
    given = ansible.variables()
    assert given["launch_overrides"] == {"sweep.parameters": {"lr": ["1", "0.0002"]}} and given["nodes"] == 2
    assert [line.split() for line in launches.table().splitlines()] == [
        ["lr", "standing", "seconds"], ["1", "-", "-"], ["2", "-", "-"],
    ]  # fmt: skip


def test_launches_of_two_clusters_are_not_mixed(three: rankzero.Launches) -> None:
    other = rankzero.Launch({**stage(4, ""), "cluster": "beta"}, three[0].options)
    for call in (rankzero.wait, rankzero.compare):
        with pytest.raises(rankzero.UsageError, match="beta and login"):
            call([*three, other])


def test_a_function_is_a_job_that_imports_it(ansible: Ansible, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the job runs is run here, as on a node: in the folder of the code, with nothing but the command."""
    package = tmp_path / "code" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "adding.py").write_text("def add(a, b=1):\n    return {'sum': a + b}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    from package.adding import add  # type: ignore[import-not-found]

    launch = {"name": "add", "key": KEY * 4, "generation": 1, "job_id": "7", "run_dir": f"/s/runs/add/{KEY}/1"}
    ansible.answer(0, ("job", "ok", {**launch, "submission": "submitted"}))
    call = rankzero.submit(add, 5, b=7, job={"resources": {"time": "00:05:00"}}, nodes=2)
    assert (call.job_id, ansible.variables()["job"]) == ("7", {"name": "add", "resources": {"time": "00:05:00"}})
    given = ansible.variables()["launch_overrides"]
    assert given["code.src"] == str(tmp_path / "code") and given["artifact"]["path"] == functions.FILE
    for rank in ("1", "0"):
        assert not Path(functions.FILE).exists()
        command = [sys.executable, *given["command"][1:]]
        subprocess.run(command, env={"RANK": rank, "PYTHONPATH": given["code.src"]}, check=True)
    assert json.loads(Path(functions.FILE).read_text(encoding="utf-8")) == {"returned": {"sum": 12}}
    ansible.answer(
        0, ("job_info", "ok", {"launches": [{**PROVEN, "artifact": {"valid": True, "scalars": {"returned": 3}}}]})
    )
    assert call.returned() == 3
    ansible.answer(0, ("job", "ok", {**launch, "submission": "adopted"}))
    rankzero.submit(add, 5, job="jobs/train.yml")
    assert ansible.variables()["job"] == "jobs/train.yml"


def test_a_function_with_many_values_is_a_sweep(ansible: Ansible) -> None:
    """Equal calls are one element, which stands in each place; the call's text is that of `submit`."""
    calls = [json.dumps({"args": args, "kwargs": {}}) for args in ([1, "b"], [2, "b"])]
    elements = [
        {"number": n, "key": f"{n}{KEY}" * 4, "parameters": {"call": call}, "submission": "submitted", "why": "new",
         "standing": "waiting", "job_id": f"7_{n}", "run_dir": f"/s/runs/row/{n}/1", "generation": 1}
        for n, call in enumerate(calls)
    ]  # fmt: skip
    ansible.answer(0, ("job_sweep", "ok", {"name": "row", "elements": elements}))
    launches = rankzero.submit_each(row, [1, 2, 1], "bbb", job={"sweep": {"parallel": 2}})
    assert [one.job_id for one in launches] == ["7_0", "7_1", "7_0"]
    given = ansible.variables()["launch_overrides"]
    assert given["sweep.parameters"] == {"call": calls} and given["command"][-1] == "{call}"
    assert ansible.variables()["job"] == {"name": "row", "sweep": {"parallel": 2}}
    assert rankzero.submit_each(row, [], []) == [] and len(ansible.calls()) == 1
    with pytest.raises(ValueError, match="zip"):
        rankzero.submit_each(row, [1, 2], [3])
    launch = {"name": "row", "key": KEY * 4, "generation": 1, "job_id": "7", "run_dir": f"/s/runs/row/{KEY}/1"}
    ansible.answer(0, ("job", "ok", {**launch, "submission": "submitted"}))
    rankzero.submit(row, 1, "b")
    assert ansible.variables()["launch_overrides"]["command"] == [*given["command"][:-1], calls[0]]


def test_a_function_that_fails_says_where(ansible: Ansible, three: rankzero.Launches, tmp_path: Path) -> None:
    failed = {"standing": "failed", "success": False, "artifact": None}
    ansible.answer(0, ("job_wait", "ok", {"launches": [row(n, **failed) for n in range(3)], "completed": True}))
    three.wait()
    lines = ["cause     work/adding.py:2 raised TypeError"]
    diagnosed = ("job_diagnosis", "ok", {"diagnosis": DIAGNOSED, "lines": lines})
    ansible.answer(0, diagnosed, ("job_logs", "ok", {"dest": str(tmp_path)}))
    with pytest.raises(rankzero.LaunchFailed, match=r"gpt0 has no result(?s:.)*adding\.py:2 raised TypeError") as told:
        three[0].returned()
    assert told.value.traceback == ""


def test_a_notebook_shows_the_table(ansible: Ansible, three: rankzero.Launches) -> None:
    ansible.answer(0, ("job_wait", "ok", {"launches": [row(n) for n in range(3)], "completed": True}))
    three.wait()
    three[0].parameters["lr"] = "<script>"
    page = three._repr_html_()
    assert page.count("<tr>") == 4 and page.count("<td>succeeded</td>") == 3 and "<th>loss</th>" in page
    assert "&lt;script&gt;" in page and "<script>" not in page


def test_functions_that_no_job_can_import_are_refused(ansible: Ansible) -> None:
    def inner() -> None: ...

    for function in (inner, lambda: 1, functools.partial(json.dumps, 1), print):
        with pytest.raises(rankzero.UsageError, match="top of a file"):
            rankzero.submit(function)
    with pytest.raises(rankzero.UsageError, match="must be JSON"):
        rankzero.submit(row, {1, 2})
    with pytest.raises(rankzero.UsageError, match="command"):
        rankzero.submit(row, 1, job={"command": ["x"]})
    assert ansible.calls() == []


def test_an_item_of_a_loop_says_why_it_has_failed(ansible: Ansible) -> None:
    results = [{"failed": True, "msg": "code: train.py changed meanwhile"}, {"changed": True, "msg": "sent"}]
    ansible.answer(2, ("code_snapshot", "failed", {"msg": "One or more items failed", "results": results}))
    with pytest.raises(rankzero.Refused, match=r"^code: train.py changed meanwhile$"):
        rankzero.run("jobs/train.yml")


def test_threads_share_nothing(ansible: Ansible) -> None:
    """Each call has its own process, its own records, and its own listener."""
    launch = {"name": "gpt", "key": KEY * 4, "generation": 1, "job_id": "7", "run_dir": f"/s/runs/gpt/{KEY}/1"}
    ansible.answer(0, ("job", "ok", {**launch, "submission": "submitted"}))
    heard: list[list[str]] = [[] for _number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda n: rankzero.run("jobs/train.yml", nodes=n + 1, listener=heard[n].append), range(8)))
    assert {one.run_dir for one in done} == {launch["run_dir"]} and all(lines == ["PLAY RECAP"] for lines in heard)
    assert len(ansible.calls()) == 8 and len({call["env"]["RANKZERO_RECORDS"] for call in ansible.calls()}) == 8
