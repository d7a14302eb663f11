# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller half of job_wait where no cluster can help: lost connections, and a clock of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.rankzero.slurm.plugins.action import job_wait
from ansible_collections.rankzero.slurm.plugins.module_utils.logs import final
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.archive import PLAIN
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.transfer import FetchRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import WAIT_SPEC
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import JobRecord
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.poll import Poll, Request, View
from ansible_collections.rankzero.slurm.plugins.plugin_utils.waits import waiting

RUN = "/state/runs/gpt/0123456789abcdef/1"
STARTED = View(exists=True, started={"job_id": "7", "attempt": 0, "nodes": ["node01"]})
PROVEN = replace(STARTED, outcome={"attempt": 0, "success": True})


def known(**more: Any) -> dict[str, Any]:
    """What the module says of a launch that runs."""
    launch = LaunchReport(
        "gpt",
        "0123456789abcdef",
        1,
        "running",
        "running on node01",
        RUN,
        f"{RUN}/logs",
        job_id="7",
        slurm_state="RUNNING",
    )
    return {**launch.as_dict(), "slurm_commands": 1, **more}


RUNNING = JobRecord("7", ".".join(RUN.split("/")[-3:]), "RUNNING")


class Bench:
    """An action whose connection answers what a test says, on a clock that only sleeping moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        self.now = 1000.0
        self.lines: list[str] = []
        self.modules: list[dict[str, Any]] = []
        self.polls: list[Any] = []
        self.asked = 0
        self.looks: list[float] = []
        self.given: dict[str, Any] = {}
        self.action = job_wait.ActionModule.__new__(job_wait.ActionModule)
        self.action._connection = SimpleNamespace(transport="local")
        self.action._templar = SimpleNamespace(template=lambda value: value)
        self.action._discovered_interpreter = None
        self.action._task = SimpleNamespace(args={"run_dir": RUN, **options}, check_mode=False)
        defaults = {name: spec.get("default") for name, spec in WAIT_SPEC.items()}
        monkeypatch.setattr(job_wait.Action, "run", lambda *_args: {})
        monkeypatch.setattr(self.action, "validate_argument_spec", lambda _spec: (None, {**defaults, **options}))
        monkeypatch.setattr(job_wait, "call_module", self.call)
        clock = SimpleNamespace(monotonic=lambda: self.now, time=lambda: self.now, sleep=self.sleep)
        monkeypatch.setattr(waiting, "time", clock)
        monkeypatch.setattr(job_wait.display, "display", lambda line, color=None: self.lines.append(line))

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def call(self, action: Any, name: str, arguments: dict[str, Any], *rest: Any) -> dict[str, Any]:
        if "x_poll" in arguments:
            return self.poll(Request.of(arguments["x_poll"]))
        return self.module(action, name, arguments, *rest)

    def module(self, _action: Any, _name: str, arguments: dict[str, Any], *_rest: Any) -> dict[str, Any]:
        self.given = arguments
        return dict(self.modules.pop(0) if len(self.modules) > 1 else self.modules[0])

    def poll(self, request: Request) -> dict[str, Any]:
        self.asked += 1
        answer = self.polls.pop(0) if len(self.polls) > 1 else self.polls[0]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, dict):
            return answer
        self.now += request.hold
        self.looks += [self.now] * bool(request.targets)
        queue = {"7": RUNNING} if request.jobs else {}
        views = (answer,) if request.targets else ()
        return {"poll": Poll(True, asked=bool(request.jobs), queue=queue, views=views, held=request.hold).as_dict()}

    def run(self) -> dict[str, Any]:
        known = {"inventory_hostname": "login", "ansible_inventory_sources": ["my hosts.yml"]}
        result: dict[str, Any] = self.action.run(None, known)
        return result


@pytest.fixture
def lost() -> Iterator[AnsibleConnectionFailure]:
    yield AnsibleConnectionFailure("mux is gone")


def test_a_lost_connection_is_tried_again_and_told_once(
    monkeypatch: pytest.MonkeyPatch, lost: AnsibleConnectionFailure
) -> None:
    bench = Bench(monkeypatch)
    bench.polls = [STARTED, lost, lost, lost, PROVEN]
    bench.modules = [
        known(),
        known(completed=True, success=True, standing="succeeded", slurm_state="COMPLETED", message="proven"),
    ]
    result = bench.run()
    assert (result["success"], result["polls"]) == (True, 2)
    assert sum("the connection is lost (mux is gone)" in line for line in bench.lines) == 1
    assert sum("the connection is back" in line for line in bench.lines) == 1


@pytest.mark.parametrize("more", [{}, {"until": "pattern", "pattern": "step"}, {"run_dirs": [RUN]}])
def test_the_look_that_finds_the_proof_of_a_launch_is_the_last_call(
    monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    bench = Bench(monkeypatch, **more)
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(job_wait, "call_module", lambda *given: calls.append(given[2]) or bench.call(*given))
    end = known(completed=True, success=True, standing="succeeded", slurm_state="COMPLETED", message="proven")
    proven = {"poll": Poll(True, views=(PROVEN,)).as_dict(), **({} if more else {"report": end})}
    bench.polls = [STARTED, proven]
    bench.modules = [{"launches": [each]} if "run_dirs" in more else each for each in (known(), end)]
    result = bench.run()
    first, *looks, last = calls
    assert "x_poll" not in first and all(look["x_poll"] for look in looks)
    if more:
        assert "x_poll" not in last and not any("x_settle" in look for look in looks)
    else:
        assert result["success"] and last["x_poll"] and last["x_settle"] == waiting.SETTLE


def test_a_connection_that_stays_lost_ends_with_the_way_back(
    monkeypatch: pytest.MonkeyPatch, lost: AnsibleConnectionFailure
) -> None:
    bench = Bench(monkeypatch, reconnect_timeout=60)
    bench.polls = [lost]
    bench.modules = [known()]
    result = bench.run()
    assert result["failed"] and result["completed"] is False and result["job_id"] == "7"
    assert f"ansible-playbook -i 'my hosts.yml' rankzero.slurm.attach -e run_dir={RUN}" in result["msg"]
    assert "Job 7 is not affected" in result["msg"]
    assert bench.now - 1000.0 <= 60 and bench.asked <= 8, "bounded in time, and ever more slowly"


def test_a_module_that_finds_the_host_unreachable_is_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch)
    bench.polls = [PROVEN]
    unreachable = {"unreachable": True, "msg": "no route"}
    bench.modules = [
        known(),
        unreachable,
        known(completed=True, success=True, standing="succeeded", slurm_state="COMPLETED"),
    ]
    assert bench.run()["success"] is True
    assert any("the connection is lost (no route)" in line for line in bench.lines)


def test_the_deadline_is_kept_and_does_not_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, wait_timeout=30)
    bench.polls = [STARTED]
    bench.modules = [known()]
    result = bench.run()
    assert not result.get("failed") and result["completed"] is False
    assert result["message"] == "not finished after 30 s (wait_timeout); the job continues: running on node01"
    assert bench.now == pytest.approx(1030.0)


def test_files_are_looked_at_every_five_seconds_and_later_every_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, wait_timeout=300)
    bench.polls = [STARTED]
    bench.modules = [known()]
    result = bench.run()
    gaps = [after - before for before, after in zip(bench.looks, bench.looks[1:])]
    # It begins with short gaps, because most jobs that fail do so at once. The last gap ends at the deadline. One look
    # comes the moment that the silence is long enough, and not with the next of the others.
    assert sorted(gaps[5:-1])[1] >= 5.0, gaps
    assert len(bench.looks) <= 60 / 5 + 240 / 10 + 5
    # squeue is called with a look, at most every ten seconds: nothing but looks costs the host a command.
    assert result["polls"] == len(bench.looks)
    assert 300 / 10 - 3 <= result["slurm_commands"] <= 300 / 10 + 8


def test_what_is_over_or_never_began_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for record in (
        known(completed=True, outcome={"success": False}, finished_at=999.0),
        known(completed=True, finished_at=900.0),
        known(completed=True, finished_at=None),
        known(job_id=None, standing="unsubmitted", slurm_state=None),
        {"failed": True, "msg": "no"},
    ):
        bench = Bench(monkeypatch)
        bench.modules = [record]
        assert bench.run() == record and bench.asked == 0


def test_an_outcome_that_may_still_be_hidden_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, outcome_grace=40)
    bench.polls = [
        STARTED,
        PROVEN,
    ]
    bench.modules = [
        known(completed=True, finished_at=990.0, _hidden=True),
        known(completed=True, success=True, standing="succeeded", slurm_state="COMPLETED"),
    ]
    assert bench.run()["success"] is True
    assert bench.asked == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"until": "pattern"}, "until: pattern requires it"),
        ({"pattern": "x"}, "pattern: requires until: pattern"),
        ({"until": "pattern", "pattern": "("}, "'(' is not a regular expression"),
        ({"log": "../secrets.env"}, "must be the name of a log file such as rank-0003.log"),
    ],
)
def test_options_that_do_not_go_together_are_named(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], said: str
) -> None:
    bench = Bench(monkeypatch, **options)
    result = bench.run()
    assert result["failed"] and said in result["msg"] and bench.asked == 0


def test_a_host_that_asks_for_a_login_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch)
    bench.polls = [STARTED, AnsibleConnectionFailure("Permission denied (keyboard-interactive).")]
    bench.modules = [known()]
    result = bench.run()
    assert result["failed"] and result["completed"] is False and bench.asked == 2
    assert "the host asks for a login" in result["msg"] and "rankzero.slurm.attach" in result["msg"]


def test_an_answer_that_was_cut_short_is_asked_for_again_and_a_refusal_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = {"failed": True, "msg": "The module ended without a result (exit code 0).", "module_stdout": '{"poll": {"vi'}
    bench = Bench(monkeypatch)
    bench.polls = [STARTED, cut, cut, PROVEN]
    bench.modules = [
        known(),
        known(completed=True, success=True, standing="succeeded", slurm_state="COMPLETED", message="proven"),
    ]
    result = bench.run()
    assert (result["success"], result["polls"]) == (True, 4)
    refused = {"failed": True, "msg": "x_request: is not what the action plugin of this module sends"}
    bench = Bench(monkeypatch)
    bench.polls = [STARTED, refused]
    bench.modules = [known()]
    assert bench.run()["msg"] == refused["msg"] and bench.asked == 2


def test_an_outage_does_not_slow_the_wait_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the poll that was answered counts as the time of a round trip, not the two minutes before it."""
    bench = Bench(monkeypatch, reconnect_timeout=600)
    gone = [AnsibleConnectionFailure("no route")] * 6
    bench.polls = [*gone, STARTED, PROVEN]
    bench.modules = [
        known(),
        known(completed=True, success=True, standing="succeeded", slurm_state="COMPLETED", message="proven"),
    ]
    back: list[float] = []
    monkeypatch.setattr(
        job_wait.display,
        "display",
        lambda line, color=None: back.append(bench.now) if "the connection is back" in line else None,
    )
    assert bench.run()["success"] is True
    assert back[0] - 1000.0 > 30 and bench.now - back[0] < 15, (back, bench.now)


def test_a_connection_lost_before_the_first_answer_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, lost: AnsibleConnectionFailure
) -> None:
    bench = Bench(monkeypatch)
    answers = [lost, known(completed=True, finished_at=None)]

    def module(*_arguments: Any, **_options: Any) -> dict[str, Any]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(bench, "module", module)
    assert bench.run()["completed"] is True
    assert any("the connection is back" in line for line in bench.lines)


def test_the_logs_of_a_small_run_come_with_the_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = RunDirectory(str(tmp_path / "state" / "runs" / "gpt" / "0123456789abcdef" / "1"))
    log = Path(run.file("logs")) / "rank-0000.log"
    log.parent.mkdir(parents=True)
    log.write_text("step 1\n", encoding="utf-8")
    bench = Bench(monkeypatch, run_dir=run.path, logs_dest=str(tmp_path / "here"))
    bench.polls = [PROVEN]
    logs = final.packed(run, FetchRequest(budget=final.MOST_BYTES), PLAIN)
    end = {"completed": True, "success": True, "standing": "succeeded", "slurm_state": "COMPLETED", "message": "proven"}
    bench.modules = [known(), known(**end, _logs=logs)]
    result = bench.run()
    assert (result["success"], result["logs"]["bytes"], "_logs" in result) == (True, 7, False)
    assert (Path(result["logs"]["dest"]) / "rank-0000.log").read_text(encoding="utf-8") == "step 1\n"
    # The folder is the controller's, so the module does not get it.
    assert "logs_dest" not in bench.given and bench.given["x_logs"]["budget"] == final.MOST_BYTES
    # A launch that has ended already: the first look is the last one. Logs that are not packed are fetched otherwise.
    bench.modules = [known(**end, finished_at=0.0, outcome={}, _logs=None)]
    assert "logs" not in bench.run()


@pytest.mark.parametrize("answer", [{"failed": True, "msg": "no"}, {"diagnosis": {"facts": {}}}, None])
def test_a_wait_says_who_holds_the_job_up(monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any] | None) -> None:
    """None: the diagnosis finds the rank. Otherwise it finds nothing or fails, and the wait goes on."""
    bench = Bench(monkeypatch)
    bench.polls = [*[STARTED] * 120, PROVEN]
    why = {"standstill": {"message": "rank 5 on node03 sleeps\x1b[2J; 7 other ranks wait in all_reduce #812"}}
    calls: list[str] = []

    def module(_action: Any, name: str, arguments: dict[str, Any], *_rest: Any) -> dict[str, Any]:
        calls.append(name)
        if name.endswith("job_diagnosis"):
            assert arguments["run_dir"] == RUN
            return answer or {"diagnosis": {"facts": why, "stall": {"message": "no line in its log for 1 min"}}}
        return known(completed=calls.count(name) > 1, success=calls.count(name) > 1)

    monkeypatch.setattr(bench, "module", module)
    assert bench.run()["success"] is True
    assert "rankzero.slurm.job_diagnosis" in calls
    shown = [line for line in bench.lines if "7 other ranks wait in all_reduce #812" in line]
    # A look that only shows the same again says it where the silence has doubled.
    doubled = sum("it stands still" in line for line in bench.lines)
    assert len(shown) == (1 + doubled if answer is None else 0)
    assert answer is not None or calls.count("rankzero.slurm.job_diagnosis") > len(shown)
    assert not any("\x1b" in line for line in shown)


def test_a_launch_that_notifies_somebody_calls_its_module_and_no_other_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark is not part of the result."""
    for notifies in (True, False):
        bench = Bench(monkeypatch)
        called: list[str] = []

        def module(_action: Any, name: str, *rest: Any, bench: Bench = bench, called: list[str] = called) -> Any:
            called.append(name.rpartition(".")[2])
            return {"messages": []} if name.endswith("job_notify") else Bench.module(bench, _action, name, *rest)

        monkeypatch.setattr(bench, "module", module)
        mark = {"_notify": True} if notifies else {}
        bench.polls = [STARTED, PROVEN]
        bench.modules = [
            known(**mark),
            known(**mark, completed=True, success=True, standing="succeeded", slurm_state="COMPLETED"),
        ]
        assert "_notify" not in bench.run()
        told = ["job_notify"] if notifies else []
        assert called == ["job_wait", *told, "job_wait", *told], "the start, and the end"
