# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The address of a tracker that another user's file or log names is shown, and nobody goes there."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Untrusted
from ansible_collections.rankzero.slurm.plugins.module_utils.trackers.sync import ARGUMENTS, sync
from tests.unit.explain.test_one_verdict import places
from tests.unit.run.test_launches import queue
from tests.webserver import WebServer
from tests.writers import Run

OTHER = 60012
MARK = "a program of another user has run"
PROGRAM = f'#!/bin/sh\n[ "$2" = --help ] || echo "{MARK} with $WANDB_API_KEY for $WANDB_BASE_URL" >> MARKED\n'

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files of another user can be made by root only")


def planted(folder: Path, address: str) -> Path:
    """A failed launch in whose files and log that address is the place of each tracker; its state root."""
    tools = folder / "environment" / "bin"
    tools.mkdir(parents=True)
    (tools / "wandb").write_text(PROGRAM.replace("MARKED", str(folder / "marked")), encoding="utf-8")
    (tools / "wandb").chmod(0o755)
    run = Run.below(folder / "state").launch({
        "env": {"WANDB_BASE_URL": address, "MLFLOW_TRACKING_URI": address},
        "environment": {"mode": "path", "path": str(tools.parent)},
    })  # fmt: skip
    run.journal({"event": "intent"}, {"event": "submitted", "job_id": "7"})
    run.claimed().numbered(0).started().ended(1, "exit code 1")
    lines = f"wandb: View run at {address}\nRuntimeError: MLflow at {address}api/2.0/mlflow does not answer\n"
    (run.path / "logs" / "0" / "rank-0000.log").write_text(lines, encoding="utf-8")
    rows = [{"tracker": name, "run": "r", "place": address} for name in ("wandb", "mlflow")]
    (run.path / "trackers.json").write_text(json.dumps(rows), encoding="utf-8")
    offline = run.path / "wandb" / "offline-run-20260101_000000-r"
    offline.mkdir(parents=True)
    (offline / "run-r.wandb").write_text("steps of a run", encoding="utf-8")
    return folder / "state"


def give(place: Path) -> None:
    for path in (place, *place.rglob("*")):
        os.chown(path, OTHER, OTHER, follow_symlinks=False)


def upload(root: Path, **more: Any) -> Any:
    """Module tracker_sync with a key of ours."""
    (root.parent / "key").write_text("our own key", encoding="utf-8")
    given = {name: option.get("default") for name, option in ARGUMENTS.items()}
    given.update(state_root=str(root), api_key_file=str(root.parent / "key"), **more)
    return sync(queue("FAILED").slurm(), given, check_mode=False)


def test_another_users_launch_is_shown_with_its_address_and_nobody_asks_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In all eight places that tell of a launch. The server sees who comes by another way than a socket of Python."""
    gone: list[Any] = []
    with WebServer({}).running() as server:
        root = planted(tmp_path, server.url)
        give(root)
        monkeypatch.setattr(socket.socket, "connect", lambda _socket, address: gone.append(address), raising=False)
        shown, why = places(root, root / "runs" / "gpt" / "0123456789abcdef" / "1", monkeypatch)
        assert (gone, server.asked) == ([], [])
    assert server.url in shown["page"] and server.url in shown["Markdown"] and why["root"]


@pytest.mark.parametrize("named", [{}, {"launches": ["gpt"]}])
def test_our_key_is_not_sent_where_another_users_launch_says(tmp_path: Path, named: dict[str, Any]) -> None:
    root = planted(tmp_path, "http://wandb.example.org/")
    give(root)
    assert upload(root, **named)["folders"] == []
    assert not (tmp_path / "marked").exists()


def test_a_manifest_of_another_user_in_a_launch_of_ones_own_names_no_server(tmp_path: Path) -> None:
    root = planted(tmp_path, "http://wandb.example.org/")
    give(root / "runs" / "gpt" / "0123456789abcdef" / "1" / "launch.json")
    with pytest.raises(Untrusted, match=f"belongs to user {OTHER}"):
        upload(root)
    assert not (tmp_path / "marked").exists()


def test_a_launch_of_ones_own_does(tmp_path: Path) -> None:
    """The same files, so that the tests above can fail."""
    root = planted(tmp_path, "http://wandb.example.org/")
    with pytest.raises(RankzeroError, match="uploaded nothing"):
        upload(root)
    assert (tmp_path / "marked").read_text() == f"{MARK} with our own key for http://wandb.example.org/\n"
