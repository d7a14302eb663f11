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
        {"id": "f", "class": "node_failure", "also_acceptable": ["unknown"], "root_lineno": 1, "group": "g4"},
        {"id": "g", "class": "node_failure", "root_lineno": None, "group": "g4"},
        {"id": "h", "class": "healthy", "root_lineno": None, "group": "g4"},
    ]
    for label in labels:
        (tmp_path / f"{label['id']}.log").write_text(LOG)
    said: dict[str, dict[str, Any]] = {
        "a": {"class": "data_error", "root_lineno": 3, "confidence": "high"},
        "b": {"class": "nan_loss", "root_lineno": 1, "confidence": "high"},
        "c": {"class": "cuda_oom", "root_lineno": 1, "confidence": "low"},
        "d": {"class": "nan_loss", "root_lineno": 4, "confidence": "medium"},
        "e": {"class": "healthy", "root_lineno": None, "confidence": "high"},
        "f": {"class": "unknown", "root_lineno": 3, "confidence": "low"},
        "g": {"class": "healthy", "root_lineno": None, "confidence": "medium"},
        "h": {"class": "unknown", "root_lineno": None, "confidence": "low"},
    }
    found = score.score(labels, said, str(tmp_path))
    count = found["count"]
    assert (count["cases"], count["class"], count["line"]) == (5, 3, 2)
    assert (count["healthy"], count["false_alarm"]) == (3, 1)
    assert (count["called_healthy"], count["no_cause"]) == (1, 1)
    assert score.summary("all", count).endswith("high 1/2, medium 1/1, low 0/1")
    assert len(found["misses"]) == 3
    assert score.table(found["confusion"])[1:] == [
        "cuda_oom          2      1  nan_loss 1",
        "healthy           3      1  cuda_oom 1, unknown 1",
        "nan_loss          1      1",
        "node_failure      2      1  healthy 1",
    ]
    assert score.summary("g1", found["groups"]["g1"]).startswith("g1: class 1/1 (100%); root line 1/1 (100%)")
    assert "false alarms 0/1 (0%)" in score.summary("g3", found["groups"]["g3"])


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
    unknown = ("unknown", None)
    odd = {"empty": unknown, "bytes": unknown, "folder": unknown, "gone": unknown}
    assert said == {**odd, "oom": ("cuda_oom", 2)}
