# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both halves of job_pull together, on folders of this machine: resume, repair, verification, check mode."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.action import job_pull
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import PULL_SPEC
from ansible_collections.rankzero.slurm.plugins.modules import job_pull as module
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions import fetch
from tests.unit.logs.test_outputs import JSON, RESULT, launch, sha256
from tests.writers import Run


class Desk:
    """The action, whose module runs in this process. `before`: called before each call of the module."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.run_dir = Path(launch(tmp_path / "there", JSON).path)
        self.dest = tmp_path / "here"
        self.tmp = tmp_path / "tmp"
        self.tmp.mkdir()
        self.requests: list[dict[str, Any]] = []
        self.before = lambda _request: None
        self.patch = monkeypatch
        monkeypatch.setattr(fetch.Action, "run", lambda *_args: {})
        monkeypatch.setattr(fetch.display, "warning", lambda *_args: None)
        monkeypatch.setattr(module, "is_over", lambda *_args, **_more: True)
        monkeypatch.setattr(module, "origin_of", lambda _path: "0123456789abcdef")

    def work(self, name: str) -> Path:
        return self.run_dir / "work" / name

    def here(self, name: str) -> Path:
        return self.dest / "gpt" / "0123456789abcdef" / "1" / "work" / name

    def call(self, _action: Any, _name: str, module_args: dict[str, Any], *_rest: Any) -> dict[str, Any]:
        self.requests.append(module_args["x_request"])
        self.before(module_args["x_request"])
        given = {**{name: spec.get("default") for name, spec in PULL_SPEC.items()}, **module_args}
        try:
            return module.logic(SimpleNamespace(params=given, check_mode=self.check))
        except RankzeroError as error:
            return {"failed": True, "msg": error.message}

    def pull(self, *paths: str, check: bool = False, **named: str) -> dict[str, Any]:
        """`named`: the options that name the launch; without them its run directory does."""
        self.check = check
        where = named or {"run_dir": str(self.run_dir)}
        options = {"run_dir": None, **where, "paths": list(paths), "dest": str(self.dest), "reconnect_timeout": 5}
        action = job_pull.ActionModule.__new__(job_pull.ActionModule)
        shell = SimpleNamespace(tmpdir=str(self.tmp))
        action._connection = SimpleNamespace(transport="local", _shell=shell, fetch_file=shutil.copy)
        action._play_context = SimpleNamespace(become=False)
        action._task = SimpleNamespace(args=options, check_mode=check)
        for name, made in {
            "validate_argument_spec": lambda _spec: (None, options),
            "_remove_tmp_path": lambda _path: None,
            "_discard": lambda _archive: None,
        }.items():
            self.patch.setattr(action, name, made)
        self.patch.setattr(fetch, "call_module", self.call)
        result: dict[str, Any] = action.run(None, {"inventory_hostname": "login"})
        return result


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Desk:
    return Desk(monkeypatch, tmp_path)


def test_artifact_arrives_verified_and_only_once(desk: Desk) -> None:
    first = desk.pull()
    assert first["changed"] and desk.here("result.json").read_bytes() == RESULT
    assert first["files"] == [{"path": "result.json", "bytes": len(RESULT), "sha256": sha256(RESULT)}]
    assert first["artifact"] == {"path": str(desk.here("result.json")), "sha256": sha256(RESULT)}
    assert (first["name"], first["key"], first["generation"]) == ("gpt", "0123456789abcdef", 1)
    second = desk.pull()
    assert (second["changed"], second["bytes"], second["rounds"]) == (False, 0, 0)
    assert second["files"] == first["files"]


def test_named_folder_is_fetched_whole_and_without_links(desk: Desk) -> None:
    found = desk.pull("ckpt", "ckpt-old")
    assert [file["path"] for file in found["files"]] == ["ckpt-old", "ckpt/last/a.pt", "ckpt/last/done"]
    assert found["artifact"] is None
    everything = desk.pull(".")
    assert "train.py" not in [file["path"] for file in everything["files"]]


def test_interrupted_copy_is_continued(desk: Desk) -> None:
    whole = bytes(range(256)) * 100
    desk.work("big.bin").write_bytes(whole)
    desk.here("big.bin").parent.mkdir(parents=True)
    desk.here("big.bin").write_bytes(whole[:20_000])
    assert desk.pull("big.bin")["bytes"] == len(whole) - 20_000
    assert desk.here("big.bin").read_bytes() == whole


def test_copy_that_is_damaged_before_its_end_is_fetched_again(desk: Desk) -> None:
    """The transfer looks at the last bytes only; the digest sees the rest."""
    whole = bytes(range(256)) * 100
    desk.work("big.bin").write_bytes(whole)
    desk.here("big.bin").parent.mkdir(parents=True)
    desk.here("big.bin").write_bytes(b"damage" + whole[6:])
    assert desk.pull("big.bin")["bytes"] == len(whole)
    assert desk.here("big.bin").read_bytes() == whole


def test_file_that_keeps_changing_fails(desk: Desk) -> None:
    count = 0

    def rewrite(request: dict[str, Any]) -> None:
        nonlocal count
        if request["digests"]:
            count += 1
            desk.work("ckpt-old").write_bytes(b"new%d" % count)

    desk.before = rewrite
    found = desk.pull("ckpt-old")
    assert found["failed"] and "ckpt-old" in found["msg"] and count == 2


def test_artifact_that_was_changed_after_its_proof_fails(desk: Desk) -> None:
    desk.work("result.json").write_bytes(b'{"loss": 0.1}')
    found = desk.pull()
    assert found["failed"] and "result.json" in found["msg"]


def test_check_mode_fetches_nothing(desk: Desk) -> None:
    found = desk.pull(".", check=True)
    assert found["changed"] and found["rounds"] == 0 and not desk.dest.exists()
    sizes = {file["path"]: file["bytes"] for file in found["files"]}
    assert sizes == {"ckpt-old": 3, "ckpt/last/a.pt": 10, "ckpt/last/done": 0, "result.json": len(RESULT)}
    assert found["bytes"] == sum(sizes.values())


@pytest.mark.parametrize("named", [{"job_id": "77"}, {"name": "gpt"}, {"name": "gpt", "key": "01234567"}])
def test_launch_by_job_or_name(named: dict[str, str], desk: Desk) -> None:
    Run(desk.run_dir).journal({"event": "submitted", "job_id": "77"})
    state_root = str(desk.run_dir.parents[3])
    found = desk.pull(**named, state_root=state_root)
    assert (found.get("run_dir"), found.get("job_id")) == (str(desk.run_dir), "77"), found
    assert desk.here("result.json").read_bytes() == RESULT
    refused = desk.pull(name="other", state_root=state_root)
    assert refused["failed"] and "gpt" in refused["msg"]


def test_path_without_files_fails(desk: Desk) -> None:
    found = desk.pull("nothing")
    assert found["failed"] and "nothing" in found["msg"]
    assert json.dumps(desk.requests)
