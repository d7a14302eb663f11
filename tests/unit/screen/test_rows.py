# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way of a row from a task's process to the screen, and what results of tasks say."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import advice
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.cause import find_cause
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.diagnosis import Diagnosis, Evidence
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.scan import Scan
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.registry import SIGNATURES
from ansible_collections.rankzero.slurm.plugins.module_utils.explain import evidence
from ansible_collections.rankzero.slurm.plugins.module_utils.explain.diagnosis_report import DiagnosisReport
from ansible_collections.rankzero.slurm.plugins.module_utils.explain.diagnosis_report import screen as diagnosed
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_end import LaunchEnd
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.result import LaunchResult
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen import results
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.card import card
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.ending import Ending, FetchedLogs, Launched, Proof
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.launch_rows import borrowed, launched, limit
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.channel import Channel
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import (
    BAD,
    NOTE,
    OK,
    RUNNING,
    WARNING,
    Row,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.report_rows import report
from tests.unit.slurm.recorded import NO_ACCOUNTING, FakeSlurm

HOST = {"inventory_hostname": "h"}
RUN = "/s/runs/gpt/0123456789abcdef/2"
LAUNCH = Launched("gpt", RUN, "7", 2, proof=Proof("result.json", {"loss": {"lt": 3}}))
PROVEN = LaunchEnd(
    *("gpt", "0123456789abcdef", 2, "succeeded", "the artifact is proven", RUN, f"{RUN}/logs"),
    completed=True,
    success=True,
    wall_time=29.3,
    outcome={
        "artifact": {
            "path": f"{RUN}/work/result.json",
            "valid": True,
            "scalars": {"world_size": 4, "loss": 0.24853},
        }
    },
)
FAILED = LaunchEnd(
    *("gpt", "0123456789abcdef", 2, "failed", "the program ended with exit code 1", RUN, f"{RUN}/logs"),
    completed=True,
    wall_time=12.0,
)
DIAGNOSIS = Diagnosis(
    "batch_size",
    "a size does not fit",
    root=Evidence("logs/0/rank-0003.log", 10, "ValueError: batch size", "batch_size", 3, "node02"),
    remedy="Choose a batch size that the number of ranks divides.",
)


def test_rows_of_several_processes_arrive_whole() -> None:
    channel = Channel()
    rows = [Row(f"host{number}", RUNNING, "step", text="x" * 3000, fraction=0.5) for number in range(8)]
    children = []
    for row in rows:
        child = os.fork()
        if child == 0:
            for _time in range(5):
                channel.send(row)
            os._exit(0)
        children.append(child)
    seen: list[Row] = []
    while children:
        seen += channel.receive()
        done, _status = os.waitpid(-1, os.WNOHANG)
        children = [child for child in children if child != done]
    seen += channel.receive()
    assert sorted(seen, key=lambda row: row.host) == [row for row in rows for _time in range(5)]
    os.write(channel._sink, b'{"host": "torn\n[1]\n{"host": "a"}\n')
    channel.send(rows[0])
    assert list(channel.receive()) == [rows[0]]
    os.close(channel.source)
    channel.send(rows[0])


@pytest.mark.parametrize(
    ("action", "result", "seconds", "expected"),
    [
        ("rankzero.slurm.uv_environment", {"environment": {"packages": {"a": "1", "torch": "2.13"}}}, 40.0,
         [Row("h", OK, "env", "torch 2.13, 2 packages", seconds=40.0)]),
        ("rankzero.slurm.job_logs", {"bytes": 5_000_000, "files": [1, 2]}, 3.0,
         [Row("h", OK, "logs", "5 MB in 2 files", seconds=3.0)]),
        ("rankzero.slurm.job_logs", {"bytes": 500, "files": [1, 2]}, 3.0, []),
        ("rankzero.slurm.job", {"changed": True}, 9.0, []),
        ("rankzero.slurm.job_info", {}, 9.0, []),
        ("rankzero.slurm.job_cancel", {"changed": True}, 9.0, []),
        ("ansible.builtin.debug", {"msg": ["one", "two"]}, 0.1,
         [Row("h", NOTE, text="one"), Row("h", NOTE, text="two")]),
        ("ansible.builtin.copy", {"changed": True}, 0.25, [Row("h", OK, text="A task", right="0.2 s")]),
        ("ansible.builtin.copy", {"changed": False}, 0.25, []),
        ("ansible.builtin.command", {"changed": False}, 6.0, [Row("h", OK, text="A task", right="6.0 s")]),
    ],
)  # fmt: skip
def test_what_a_task_that_went_well_shows(
    action: str, result: dict[str, Any], seconds: float, expected: list[Row]
) -> None:
    assert results.done("h", action, "A task", result, seconds) == expected


def test_check_mode_tells_what_a_step_would_build() -> None:
    action, ref = "rankzero.slurm.image", {"key": "6b3d016ae24e6e1f"}
    assert results.foretold("h", action, {"changed": True, "ref": ref}) == [
        Row("h", OK, "image", "6b3d016ae24e would be built")
    ]
    assert not results.foretold("h", action, {"changed": False, "ref": ref})


@pytest.mark.parametrize(
    ("action", "result", "expected"),
    [
        ("rankzero.slurm.job", {"msg": "one\ntwo"}, ["one", "    two"]),
        ("ansible.builtin.command", {"msg": "non-zero return code", "rc": 3, "stderr": "oops"},
         ["A task: non-zero return code", "    oops"]),
        ("x.y.z", {"msg": "MODULE FAILURE", "module_stderr": "a\nb"}, ["A task: MODULE FAILURE", "    a", "    b"]),
        ("x.y.z", {"failed": True}, ["A task: failed without a message"]),
        ("rankzero.slurm.job_report", {"msg": "gpt failed", "standing": "failed", "card": ["long"]}, []),
    ],
)  # fmt: skip
def test_what_a_task_that_failed_shows(action: str, result: dict[str, Any], expected: list[str]) -> None:
    assert [row.text for row in results.failed("h", action, "A task", result)] == expected


def test_the_end_of_a_proven_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, last = report(HOST, Ending(LAUNCH, PROVEN, logs=FetchedLogs(str(tmp_path / "runs" / "logs"))))
    assert (first.text, first.right) == ("Proven in 29 s: loss 0.2485 (< 3), world_size 4", "work/result.json")
    assert last.text == "logs runs/logs"
    trackers = [{"tracker": "mlflow", "run": "ab12", "place": "http://host/#/ab12"}]
    tracked = replace(PROVEN, outcome={"trackers": trackers})
    assert [row.text for row in report(HOST, Ending(LAUNCH, tracked))][1:] == ["mlflow http://host/#/ab12"]


def test_the_end_of_a_failed_launch_says_the_cause_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Traceback, rank and node, the log here, one line of advice."""
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "runs" / "logs" / "0" / "rank-0003.log"
    log.parent.mkdir(parents=True)
    frames = "".join(f'  File "x.py", line {number}\n    f()\n' for number in range(3)) + "    ~^^\n"
    log.write_text(f"step 1\nTraceback (most recent call last):\n{frames}ValueError: batch size 3\nmore\n")
    fetched = FetchedLogs(str(tmp_path / "runs" / "logs"))
    rows = report(HOST, Ending(LAUNCH, FAILED, logs=fetched, diagnosis=DIAGNOSIS))
    assert [row.state for row in rows] == [BAD, *[NOTE] * (len(rows) - 1)]
    assert [row.text for row in rows] == [
        "gpt failed after 12 s: a size does not fit",
        '      File "x.py", line 0',
        "        f()",
        '      File "x.py", line 1',
        "        f()",
        '      File "x.py", line 2',
        "        f()",
        "    ValueError: batch size 3",
        "    where   rank 3 on node02",
        "    log     runs/logs/0/rank-0003.log:10",
        "    advice  Choose a batch size that the number of ranks divides.",
        "logs runs/logs",
    ]


@pytest.mark.parametrize(
    ("state", "words", "cause"),
    [
        ("CANCELLED", "it was cancelled, signal 15", "the job was cancelled"),
        ("TIMEOUT", "it reached its time limit; raise resources.time or resume from a checkpoint", "time limit"),
    ],
)
@pytest.mark.parametrize("screen", [True, False])
def test_a_job_that_slurm_ended_says_the_cause_once(
    tmp_path: Path, state: str, words: str, cause: str, screen: bool
) -> None:
    message = f"{state}: {words}"
    launch = LaunchReport(
        "gpt", "k", 1, "failed", message, "", "", job_id="7", slurm_state=state, completed=True, outcome={}
    )
    told = evidence.of_end(FakeSlurm(sacct=NO_ACCOUNTING).slurm(), RunDirectory(str(tmp_path)), launch, SIGNATURES)
    diagnosis = advice.diagnosis_of(find_cause(told.logs, failed=True), Scan())
    ending = Ending(LAUNCH, replace(FAILED, slurm_state=state, message=message), diagnosis=diagnosis)
    if screen:
        lines = [row.text for row in report(HOST, ending)]
        assert lines[0] == f"gpt failed after 12 s: {diagnosis.what}" and cause in diagnosis.what
        assert [line.split()[0] for line in lines[1:]] == ["advice"], lines
    else:
        lines = [*card(ending), *diagnosed(DiagnosisReport(diagnosis))]
        assert not any(words in line for line in lines), lines
        assert sum(diagnosis.what in line for line in lines) == 1


def test_an_input_of_another_store_says_whose_it_is() -> None:
    store = "/shared/platform/rankzero"
    sources = [{"kind": "environment", "key": "6b", "store": store}, {"kind": "code", "key": "2c", "store": "/mine"}]
    made = LaunchResult("gpt", "72", 1, "/r", "submitted", True, "3")
    rows = launched("lab", made, {"environment": "6b", "code": "4 files"}, borrowed(sources, "/mine"))
    assert [row.text for row in rows[:2]] == [f"6b (from {store})", "4 files (cached)"]


def test_what_nodes_lack_is_said_once() -> None:
    lack = "environment: /usr has no Python package torch"
    message = f"preflight: node01: {lack}; node02: {lack}; FAILED: the batch script failed"
    root = Evidence("Slurm", 1, f"FAILED: {message}", "refused")
    why = Diagnosis(
        "refused", "the job refused to start its ranks", root=root, nodes=["node01", "node02"], remedy="Look at it."
    )
    unfit = {"node01": lack, "node02": lack, "node03": "no space"}
    end = replace(FAILED, message=message, outcome={"unfit_nodes": unfit})
    assert [row.text for row in report(HOST, Ending(LAUNCH, end, diagnosis=why))] == [
        "gpt failed after 12 s: the job refused to start its ranks",
        "    where   node01, node02",
        "    advice  Look at it.",
        f"node01, node02 are not fit: {lack}",
        "node03 is not fit: no space",
    ]


def test_the_jobs_own_verdict_is_shown_below_any_cause() -> None:
    told = (
        "the program ended with exit code 1; not requeued: no progress: saved is the same after attempt 1 and attempt 2"
    )
    end = replace(FAILED, outcome={"message": told, "unfit_nodes": {}})
    rows = [row.text for row in report(HOST, Ending(LAUNCH, end, diagnosis=DIAGNOSIS))]
    assert f"    verdict {told}" in rows
    lack = {"node01": "no einops", "node02": "no einops, either"}
    message = "preflight: node01: no einops; node02: no einops, either; not requeued: this was attempt 6 of at most 6"
    end = replace(FAILED, outcome={"message": message, "unfit_nodes": lack})
    rows = [row.text for row in report(HOST, Ending(LAUNCH, end, diagnosis=DIAGNOSIS))]
    (verdict,) = [text for text in rows if "verdict" in text]
    assert "not requeued: this was attempt 6 of at most 6" in verdict and "einops" not in verdict


@pytest.mark.parametrize(("together", "said"), [(False, True), (True, False), (None, False)])
def test_ranks_that_ran_apart_are_named(together: bool | None, said: bool) -> None:
    ending = Ending(LAUNCH, replace(PROVEN, outcome={"together": together}))
    rows = [row.text for row in report(HOST, ending)] + card(ending)
    assert [text for text in rows if "each rank ran on its own" in text] == [
        text for text in rows if "together" in text
    ]
    assert len([text for text in rows if "together" in text]) == (2 if said else 0)


def test_what_went_wrong_after_the_ranks_is_a_warning_and_on_the_card() -> None:
    problem = "`cp -r out /home` ended with exit code 1 on node01 (setup.after_ranks)"
    ending = Ending(LAUNCH, replace(PROVEN, outcome={"after_ranks": problem}))
    assert [row.state for row in report(HOST, ending) if problem in row.text] == [WARNING]
    assert f"  after     {problem}" in card(ending)
    without = Ending(LAUNCH, replace(PROVEN, outcome={}))
    rows = [row.text for row in report(HOST, without)]
    assert not [line for line in rows + card(without) if "after" in line]


def test_a_diagnosis_that_names_a_file_elsewhere_reads_nothing_there(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("ValueError: batch size secret\n")
    assert DIAGNOSIS.root
    elsewhere = replace(DIAGNOSIS, root=replace(DIAGNOSIS.root, file="logs/../secret", line=1))
    rows = report(HOST, Ending(LAUNCH, FAILED, logs=FetchedLogs(str(tmp_path / "logs")), diagnosis=elsewhere))
    assert not any("secret" in row.text for row in rows)


def test_a_launch_that_goes_on_tells_how_to_come_back() -> None:
    rows = report(HOST, Ending(LAUNCH))
    assert "job 7 continues" in rows[0].text
    for playbook in ("attach", "cancel"):
        assert f"rankzero.slurm.{playbook} -e run_dir=/s/runs/gpt/0123456789abcdef/2" in rows[-1].text


def test_a_time_limit_of_days_is_told_in_days() -> None:
    assert [limit(text) for text in ("1-04:00:00", "02:30:00", "1-04", "90", "90:30", "UNLIMITED")] == [
        "1 d 4 h", "2 h 30 min", "1 d 4 h", "1 h 30 min", "1 h 30 min 30 s", "UNLIMITED",
    ]  # fmt: skip
