# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller half of course_checkoff: what the teacher sees, and the tables on his machine."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.action import course_checkoff
from ansible_collections.rankzero.slurm.plugins.module_utils.course.checkoff import ACTION_ARGUMENTS
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions import modules
from tests.unit.course.semester import Semester


class Bench:
    """The action over a real result of a class in which ada has handed in, and ben has not."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, place: Path, *, check_mode: bool = False, **options: Any
    ) -> None:
        semester = Semester(place / "class")
        semester.hand_in("ada", 3, 11)
        self.lines: list[str] = []
        self.given: dict[str, Any] = {}
        self.answer = semester.check(nodes=[3])
        self.action = course_checkoff.ActionModule.__new__(course_checkoff.ActionModule)
        self.action._task = SimpleNamespace(args={"root": "/class", **options}, check_mode=check_mode)
        defaults = {name: option.get("default") for name, option in ACTION_ARGUMENTS.items()}
        monkeypatch.setattr(modules.Action, "run", lambda *_args: {})
        monkeypatch.setattr(self.action, "validate_argument_spec", lambda _spec: (None, {**defaults, **options}))
        monkeypatch.setattr(modules, "call_module", self.module)
        monkeypatch.setattr(modules.display, "display", lambda line, color=None: self.lines.append(line))

    def module(self, _action: Any, _name: str, module_args: dict[str, Any], *_rest: Any) -> dict[str, Any]:
        self.given = module_args
        return self.answer

    def run(self) -> dict[str, Any]:
        return self.action.run(None, {"inventory_hostname": "login"})


def test_the_table_is_shown_and_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    bench = Bench(monkeypatch, tmp_path, dest="sheets", pick="best")
    result = bench.run()
    assert bench.given == {"root": "/class", "pick": "best"}
    assert bench.lines[0].startswith("login: ddp: 2 students")
    assert bench.lines[-1] == "login: tables: sheets/ddp.csv, sheets/ddp.json"
    assert (tmp_path / "sheets/ddp.csv").read_text() == result["csv"]
    told = json.loads((tmp_path / "sheets/ddp.json").read_text())
    assert told["pick"] == "best" and [one["result"] for one in told["students"]] == ["passed", "failed"]
    assert (tmp_path / "sheets").stat().st_mode & 0o777 == 0o700


def test_all_evidence_is_shown_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = Bench(monkeypatch, tmp_path, evidence=True)
    assert bench.run()["files"] == {}
    assert "login: ada, all evidence:" in bench.lines
    assert "login:   ok    record, 3 nodes: user teacher (Slurm)" in bench.lines


def test_check_mode_writes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = Bench(monkeypatch, tmp_path, check_mode=True, dest=str(tmp_path / "sheets"))
    assert bench.run()["files"] == {} and not (tmp_path / "sheets").exists()


def test_a_folder_that_cannot_be_made_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = Bench(monkeypatch, tmp_path, dest=str(tmp_path / "file" / "sheets")).run()
    assert result["failed"] and result["msg"].startswith("dest: ")
    assert "cannot be written: Not a directory" in result["msg"]
    assert "students" in result


def test_a_failed_module_is_handed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = Bench(monkeypatch, tmp_path)
    bench.answer = {"failed": True, "msg": "root: /class contains no class"}
    assert bench.run() == bench.answer and bench.lines == []
