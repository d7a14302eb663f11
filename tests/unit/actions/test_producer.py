# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the actions of producers follow their module in the background, and what the screen shows of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.action import uv_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.store.work.progress import Reading
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions import producer
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen import transfer
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import Row

BUILD = {"phase": "installing", "size": 0, "bytes": 0, "done": 0, "files": 40, "files_done": 12, "unit": "packages"}
GOING = {**BUILD, "seconds": 4.0, "written": 812_000_000, "notes": []}


class Desk:
    """The action, with answers of the module that a test gives; `calls`: the requests that it got."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answers: list[dict[str, Any]], *, check_mode: bool = False):
        self.calls: list[dict[str, Any]] = []
        self.rows: list[Row] = []
        self.action = uv_environment.ActionModule.__new__(uv_environment.ActionModule)
        self.action._task = SimpleNamespace(check_mode=check_mode)
        self.action.host = "login"

        def execute(_action: Any, _name: str, module_args: dict[str, Any], *_rest: Any) -> dict[str, Any]:
            self.calls.append(module_args["x_request"])
            return dict(answers.pop(0))

        monkeypatch.setattr(producer, "call_module", execute)
        monkeypatch.setattr(type(transfer.display), "draws", True)
        monkeypatch.setattr(transfer.display, "row", self.rows.append)


OPTIONS = {"state": "present", "store_root": "/scratch"}


def test_a_build_is_followed_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(monkeypatch, [{"going": GOING}, {"going": {}}, {"changed": True}])
    assert desk.action.make(OPTIONS, {"uv": "/bin/uv"}) == {"changed": True}
    assert [(call["follow"], call["again"]) for call in desk.calls] == [(1, False), (2, True), (4, True)]
    assert all(call["uv"] == "/bin/uv" for call in desk.calls)
    (row,) = desk.rows
    assert (row.host, row.name, row.fraction) == ("login", "env", 0.3)
    assert row.detail == "installing 812 MB written, 203 MB/s, 12 of 40 packages"


def test_a_build_that_the_site_killed_is_done_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(monkeypatch, [{"going": GOING}, {"failed": True, "killed": True, "msg": "killed"}, {"changed": True}])
    assert desk.action.make(OPTIONS, {"uv": None}) == {"changed": True}
    assert "follow" in desk.calls[1] and desk.calls[2] == {"uv": None}


def test_files_that_are_sent_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    desk = Desk(monkeypatch, [])
    shell = SimpleNamespace(tmpdir="/tmp/there", join_path=lambda *parts: "/".join(parts))
    monkeypatch.setattr(desk.action, "_connection", SimpleNamespace(_shell=shell), raising=False)
    monkeypatch.setattr(desk.action, "_transfer_file", lambda _path, _remote: None)
    monkeypatch.setattr(desk.action, "_fixup_perms2", lambda _paths: None)
    for name, size in (("a.whl", 1000), ("b.whl", 3000)):
        (tmp_path / name).write_bytes(bytes(size))
    assert desk.action.send(str(tmp_path / name) for name in ("a.whl", "b.whl")) == "/tmp/there"
    assert [(row.detail, row.fraction) for row in desk.rows] == [
        ("sent 1 kB of 4 kB, 1 of 2 files", 0.25),
        ("sent 4 kB of 4 kB, 2 of 2 files", 1.0),
    ]
    desk.rows.clear()
    desk.action.send([str(tmp_path / "a.whl")])
    assert not desk.rows, "one file has no steps in between"


@pytest.mark.parametrize(("options", "check_mode"), [({**OPTIONS, "state": "absent"}, False), (OPTIONS, True)])
def test_what_builds_nothing_is_one_call(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], check_mode: bool
) -> None:
    desk = Desk(monkeypatch, [{"changed": False}], check_mode=check_mode)
    desk.action.state = str(options["state"])
    assert desk.action.make(options, {"uv": None}) == {"changed": False}
    assert desk.calls == [{"uv": None}]


@pytest.mark.parametrize(
    ("known", "text", "fraction"),
    [
        ({"phase": "resolving", "files": 0, "written": 4000}, "resolving", None),
        ({"phase": "building", "files": 0, "written": 3e9, "seconds": 0.5}, "building 3.0 GB written", None),
        (
            {"files": 0, "size": 200e6, "bytes": 50e6, "done": 50e6},
            "installing 50 MB of 200 MB, 12 MB/s, 12 s left",
            0.25,
        ),
    ],
)
def test_what_is_known_as_text(known: dict[str, Any], text: str, fraction: float | None) -> None:
    event = transfer.event(record_of(Reading, {**GOING, **known}))
    assert (event.text, event.fraction) == (text, fraction)
