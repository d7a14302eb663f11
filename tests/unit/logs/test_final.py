# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Logs that come with the last look at a launch: packed on the cluster, stored on the controller."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.logs import final
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.redact import redactor_of
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.transfer import FetchRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.secrets.sums import FILE, sums_of
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.display import display
from ansible_collections.rankzero.slurm.plugins.plugin_utils.waits.final_logs import FinalLogs
from tests.writers import Run


class Launch:
    """A run directory with a log, and a folder on the controller."""

    def __init__(self, root: Path) -> None:
        self.run = RunDirectory(str(Run.below(root / "state").journal({"event": "intent", "time": 1}).path))
        self.log = Path(self.run.file("logs")) / "0" / "rank-0000.log"
        self.log.parent.mkdir(parents=True)
        self.dest = root / "here"

    def fetched(self) -> dict[str, Any] | None:
        """Ask, pack and store, with JSON in between as between action and module."""
        logs = FinalLogs(str(self.dest), self.run.path, display)
        request = FetchRequest.of(json.loads(json.dumps(logs.request())))
        return logs.taken(json.loads(json.dumps(final.packed(self.run, request, redactor_of(self.run)))))

    @property
    def here(self) -> Path:
        return self.dest / "gpt" / "0123456789abcdef" / "1" / "logs" / "0" / "rank-0000.log"


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launch:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    return Launch(tmp_path)


def test_small_logs_come_along_and_only_what_is_new(launch: Launch, tmp_path: Path) -> None:
    launch.log.write_text("step 1\n", encoding="utf-8")
    first = launch.fetched()
    assert first and (first["bytes"], first["rounds"], first["over"]) == (7, 1, True)
    assert launch.here.read_text(encoding="utf-8") == "step 1\n"
    again = launch.fetched()
    assert again and (again["bytes"], again["rounds"], again["changed"]) == (0, 0, False)
    launch.log.write_text("step 1\nstep 2\n", encoding="utf-8")
    more = launch.fetched()
    assert more and more["bytes"] == 7 and launch.here.read_text(encoding="utf-8") == "step 1\nstep 2\n"
    assert os.listdir(tmp_path / "tmp") == [], "no archive is left"


def test_secrets_are_replaced(launch: Launch) -> None:
    Path(launch.run.file(FILE)).write_text(sums_of([b"a-token-of-some-length"]), encoding="utf-8")
    launch.log.write_text("it is a-token-of-some-length\n", encoding="utf-8")
    assert launch.fetched()
    assert "a-token" not in launch.here.read_text(encoding="utf-8")


def test_large_logs_are_left_to_a_fetch_of_their_own(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ansible_collections.rankzero.slurm.plugins.plugin_utils.waits.final_logs.MOST_BYTES", 4)
    launch.log.write_text("step 1\n", encoding="utf-8")
    assert launch.fetched() is None
    # What came is a beginning, on which the fetch builds.
    assert launch.here.read_text(encoding="utf-8") == "step"


def test_logs_of_another_launch_at_the_same_place_are_left_alone(launch: Launch) -> None:
    launch.log.write_text("step 1\n", encoding="utf-8")
    assert launch.fetched()
    Path(launch.run.file("journal.jsonl")).unlink()
    Run(Path(launch.run.path)).journal({"event": "intent", "time": 2})
    launch.log.write_text("another\n", encoding="utf-8")
    assert launch.fetched() is None
    assert launch.here.read_text(encoding="utf-8") == "step 1\n"


def test_an_answer_that_does_not_fit_its_archive_is_refused(launch: Launch) -> None:
    launch.log.write_text("step 1\n", encoding="utf-8")
    logs = FinalLogs(str(launch.dest), launch.run.path, display)
    answer = final.packed(launch.run, FetchRequest.of(logs.request()), redactor_of(launch.run))
    assert answer and answer["parts"]
    answer["parts"][0]["path"] = "../../outside"
    assert logs.taken(answer) is None
    assert not list(launch.dest.rglob("outside"))
