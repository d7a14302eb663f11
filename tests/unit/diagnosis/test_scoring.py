# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The benchmark of accuracy: what counts as right, and that any folder can be predicted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.diagnosis import predict, score

LOG = "start\n[rank0]: KeyError: 'a'\n[rank7]: KeyError: 'a'\nend 12\n"


@pytest.mark.parametrize(
    ("said", "wanted", "right"), [(2, 2, True), (3, 2, True), (1, 2, False), (None, 2, False), (99, 2, False)]
)
def test_another_ranks_same_line_is_as_good(said: int | None, wanted: int, right: bool) -> None:
    assert score.same_line(LOG.split("\n"), said, wanted) == right


def test_the_score_counts_classes_lines_and_false_alarms(tmp_path: Path) -> None:
    labels: list[dict[str, Any]] = [
        {"id": "a", "class": "cuda_oom", "also_acceptable": ["data_error"], "root_lineno": 2, "group": "g1"},
        {"id": "b", "class": "cuda_oom", "root_lineno": 2, "group": "g2"},
        {"id": "c", "class": "healthy", "root_lineno": None, "group": "g2"},
        {"id": "d", "class": "nan_loss", "root_lineno": 2, "also_lines": [4], "group": "g3"},
        {"id": "e", "class": "healthy", "root_lineno": None, "group": "g3"},
    ]
    for label in labels:
        (tmp_path / f"{label['id']}.log").write_text(LOG)
    said = {
        "a": {"class": "data_error", "root_lineno": 3},
        "b": {"class": "nan_loss", "root_lineno": 1},
        "c": {"class": "cuda_oom", "root_lineno": 1},
        "d": {"class": "nan_loss", "root_lineno": 4},
        "e": {"class": "healthy", "root_lineno": None},
    }
    found = score.score(labels, said, str(tmp_path))
    assert found["count"] == {"cases": 3, "class": 2, "line": 2, "healthy": 2, "false_alarm": 1}
    assert len(found["misses"]) == 2
    assert score.table(found["confusion"])[1:] == [
        "cuda_oom      2      1  nan_loss 1",
        "healthy       2      1  cuda_oom 1",
        "nan_loss      1      1",
    ]
    assert score.summary("g1", found["groups"]["g1"]) == "g1: class 1/1 (100%); root line 1/1 (100%)"
    assert score.summary("g3", found["groups"]["g3"]).endswith("false alarms 0/1 (0%)")


def test_odd_files_are_predicted_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.log").touch()
    (tmp_path / "bytes.log").write_bytes(bytes(range(256)) * 99)
    (tmp_path / "folder.log").mkdir()
    (tmp_path / "gone.log").symlink_to(tmp_path / "nowhere")
    (tmp_path / "oom.log").write_text("x\nRuntimeError: CUDA error: out of memory\n")
    (tmp_path / "other.txt").write_text("RuntimeError: CUDA error: out of memory\n")
    monkeypatch.setattr(sys, "argv", ["predict.py", str(tmp_path)])
    predict.main()
    said = {
        one["id"]: (one["class"], one["root_lineno"]) for one in map(json.loads, capsys.readouterr().out.splitlines())
    }
    healthy = ("healthy", None)
    odd = {"empty": healthy, "bytes": healthy, "folder": healthy, "gone": healthy}
    assert said == {**odd, "oom": ("cuda_oom", 2)}
