# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller half of job_logs while the connection comes and goes, and the card where it stays away."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.rankzero.slurm.plugins.action import job_logs, job_report
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.archive import fetch_plan
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.transfer import Fetched, FetchRequest, Round
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import LOGS_SPEC, TAIL_BYTES
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions import fetch
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.card import card
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.ending import Ending, FetchedLogs, Launched
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import Row
from ansible_collections.rankzero.slurm.plugins.plugin_utils.waits import reconnect

RUN = "/state/runs/gpt/0123456789abcdef/1"


class Desk:
    """The action with a connection that a test breaks, on a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, dest: Path, answers: list[Any]) -> None:
        self.now = 0.0
        self.lines: list[str] = []
        self.answers = answers
        self.action = job_logs.ActionModule.__new__(job_logs.ActionModule)
        shell = SimpleNamespace(tmpdir="/tmp/there")
        self.action._connection = SimpleNamespace(transport="local", _shell=shell, fetch_file=self.fetch)
        self.action._play_context = SimpleNamespace(become=False)
        self.action._task = SimpleNamespace(args={"run_dir": RUN}, check_mode=False)
        self.fetches = 0
        options = {**{name: spec.get("default") for name, spec in LOGS_SPEC.items()}, "run_dir": RUN, "dest": str(dest)}
        monkeypatch.setattr(fetch.Action, "run", lambda *_args: {})
        monkeypatch.setattr(self.action, "validate_argument_spec", lambda _spec: (None, options))
        monkeypatch.setattr(fetch, "call_module", self.answer)
        monkeypatch.setattr(self.action, "_remove_tmp_path", self.unreachable)
        monkeypatch.setattr(self.action, "_discard", self.unreachable)
        monkeypatch.setattr(fetch.display, "display", lambda line, color=None: self.lines.append(line))
        clock = {"monotonic": lambda: self.now, "sleep": self.sleep}
        monkeypatch.setattr(reconnect.retried, "__kwdefaults__", {"clock": clock["monotonic"], "sleep": clock["sleep"]})

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def unreachable(self, *_arguments: Any) -> None:
        raise AnsibleConnectionFailure("no route")

    def fetch(self, _source: str, target: str) -> None:
        self.fetches += 1
        if self.fetches == 1:
            raise AnsibleConnectionFailure("no route")
        Path(target).write_bytes(b"")

    def answer(self, _action: Any, _name: str, module_args: dict[str, Any], *_rest: Any) -> dict[str, Any]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)


def found(**more: Any) -> dict[str, Any]:
    fetched = Fetched([], more=False, left=0, notes=[], archive=None, archive_bytes=0)
    return {**Round(RUN, "0123456789abcdef", True, None, fetched).result(), **more}


def test_logs_arrive_over_a_connection_that_breaks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It breaks before the module answers, while the archive travels, and when the host should be tidied."""
    lost = AnsibleConnectionFailure("no route")
    desk = Desk(monkeypatch, tmp_path, [lost, {"unreachable": True, "msg": "no route"}, found(archive="/there/logs")])
    monkeypatch.setattr(fetch, "unpack", lambda _stream, _parts, _dest: 5)
    result = desk.action.run(None, {"inventory_hostname": "login"})
    assert not result.get("failed") and result["bytes"] == 5 and desk.fetches == 2
    assert sum("the connection is back" in line for line in desk.lines) == 2


def test_no_archive_stays_on_the_host_where_it_cannot_be_unpacked_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without `become` the task's remote folder goes with it; with it, the archive is in the host's /tmp."""
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    desk = Desk(monkeypatch, tmp_path / "taken", [found(archive="/tmp/rankzero-logs-x/logs.tar.gz")])
    discarded: list[str | None] = []
    monkeypatch.setattr(desk.action, "_discard", discarded.append)
    result = desk.action.run(None, {"inventory_hostname": "login"})
    assert result["failed"] and "/tmp/rankzero-logs-x/logs.tar.gz" in discarded


def test_only_the_end_of_a_giant_log_is_fetched_by_default_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    giant = tmp_path / "there" / "logs" / "giant.log"
    giant.parent.mkdir(parents=True)
    with giant.open("wb") as stream:
        stream.truncate(TAIL_BYTES + 5_000_000)
    desk = Desk(monkeypatch, tmp_path / "here", [])

    def module(_action: Any, _name: str, module_args: dict[str, Any], *_rest: Any) -> dict[str, Any]:
        request = FetchRequest.of({**module_args["x_request"], "folder": str(tmp_path)})
        fetched = fetch_plan(Beneath(str(giant.parent)), request, write=True)
        return Round(RUN, "0123456789abcdef", True, None, fetched).result()

    monkeypatch.setattr(fetch, "call_module", module)
    monkeypatch.setattr(desk.action._connection, "fetch_file", shutil.copy)
    result = desk.action.run(None, {"inventory_hostname": "login"})
    assert result["bytes"] == TAIL_BYTES and (Path(result["dest"]) / "giant.log").stat().st_size == TAIL_BYTES
    (line,) = desk.lines
    assert line == f"login: {result['omitted']}" and "5 MB of giant.log" in line


def test_a_fetch_in_several_archives_shows_bytes_and_a_rate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    archive = found(archive="/there/logs")
    desk = Desk(monkeypatch, tmp_path, [{**archive, "more": True, "left": 3_000_000}, archive])
    monkeypatch.setattr(fetch, "unpack", lambda _stream, _parts, _dest: 1_000_000)
    monkeypatch.setattr(fetch.display, "display", lambda *_args, **_more: None)
    rows: list[Row] = []
    monkeypatch.setattr(type(fetch.display), "draws", True)
    monkeypatch.setattr(fetch.display, "row", rows.append)
    result = desk.action.run(None, {"inventory_hostname": "login"})
    assert not result.get("failed") and result["bytes"] == 2_000_000
    (row,) = rows
    assert (row.name, row.fraction) == ("logs", 0.25) and row.detail.endswith("/s") and "1 MB of 4 MB" in row.text


def test_a_card_is_shown_where_the_logs_cannot_be_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    desk = Desk(monkeypatch, tmp_path, [AnsibleConnectionFailure("no route")])
    logs = desk.action.run(None, {"inventory_hostname": "login"})
    assert logs["failed"] and logs["connection_lost"] and desk.now <= 120
    proven = LaunchReport(
        *("gpt", "0123456789abcdef", 1, "succeeded", "", RUN, f"{RUN}/logs"),
        completed=True,
        success=True,
        slurm_state="COMPLETED",
    )
    lines = card(Ending(Launched("gpt", RUN), proven, logs=record_of(FetchedLogs, logs)))
    assert any("logs" in line and "not fetched" in line for line in lines)
    monkeypatch.setattr(job_report.Action, "run", lambda *_args: {})
    monkeypatch.setattr(job_report.display, "display", lambda *_args, **_more: None)

    def reported(logs: dict[str, Any]) -> dict[str, Any]:
        report = job_report.ActionModule.__new__(job_report.ActionModule)
        arguments = {
            "launch": {"name": "gpt", "run_dir": RUN},
            "result": proven.as_dict(),
            "logs": logs,
            "diagnosis": {},
        }
        monkeypatch.setattr(report, "validate_argument_spec", lambda _spec: (None, arguments))
        result: dict[str, Any] = report.run(None, {})
        return result

    assert not reported(logs).get("failed")
    refused = reported({"msg": "the run directory belongs to another user"})
    assert refused["failed"] and "another user" in refused["msg"]
