# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result card, and which log's end is shown when a job has failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import IN_PLACE
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.card import card, duration, last_words, standing_of

LAUNCH = {"name": "gpt", "job_id": "7", "generation": 2, "run_dir": "/s/runs/gpt/0123456789abcdef/2"}
RESULT = {
    "completed": True,
    "success": True,
    "standing": "succeeded",
    "slurm_state": "COMPLETED",
    "job_id": "7",
    "attempt": 1,
    "nodes": ["node01", "node02"],
    "wall_time": 65.2,
    "message": "the artifact is proven",
    "artifact": {
        "path": "/s/runs/gpt/0123456789abcdef/2/work/result.json",
        "valid": True,
        "scalars": {"loss": 2.1451, "same": True},
    },
}


def test_the_card_of_a_proven_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert card(LAUNCH, RESULT, {"dest": str(tmp_path / "runs" / "gpt")}) == [
        "gpt succeeded",
        "  job       7, generation 2, attempt 1, COMPLETED",
        "  nodes     2: node01 node02",
        "  wall time 1 min 05 s",
        "  artifact  work/result.json is proven",
        "            loss 2.145 · same true",
        "  verdict   the artifact is proven",
        "  run       /s/runs/gpt/0123456789abcdef/2 (on the cluster)",
        "  logs      runs/gpt (every rank's, fetched here)",
    ]


def test_the_card_says_that_the_key_does_not_cover_a_folder_in_place() -> None:
    line = f"{IN_PLACE} /home/me/gpt; the key does not cover its files"
    assert f"  code      {line}" in card({**LAUNCH, "plan": ["gpt, key 0123", line]}, RESULT, {})


def test_the_card_of_many_nodes_names_a_few() -> None:
    nodes = [f"node{number:03d}" for number in range(1000)]
    (line,) = [line for line in card(LAUNCH, {**RESULT, "nodes": nodes}, {}) if line.startswith("  nodes ")]
    assert line.startswith("  nodes     1000: node000 node001 ") and line.endswith(" and 992 more") and len(line) < 100


def test_the_card_explains_the_variables_where_that_was_asked() -> None:
    lines = card({**LAUNCH, "explain": ["A  1  because", "B  2  so"]}, RESULT, {})
    assert lines[-2:] == ["  variables A  1  because", "            B  2  so"]


def test_the_card_names_the_run_in_each_tracker() -> None:
    link = "http://mlflow.example.org/#/experiments/1/runs/ab12"
    rows = [{"tracker": "mlflow", "run": "ab12", "place": link}, {"tracker": "wandb", "run": "gpt-1", "place": ""}, "x"]
    lines = card(LAUNCH, {**RESULT, "outcome": {"trackers": rows}}, {})
    assert lines[-3:-1] == [f"  tracker   mlflow {link}", "  tracker   wandb run gpt-1"]
    assert card(LAUNCH, {**RESULT, "outcome": {"trackers": [{"tracker": "\x1b[31mx", "place": "a\nb"}]}}, {})[-2] == (
        "  tracker   x a b"
    )


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"standing": "failed", "slurm_state": "COMPLETED"}, "failed"),
        ({"failed": True, "msg": "the connection was lost"}, "unknown"),
    ],
)
def test_what_the_wait_says_and_nothing_else_is_the_standing(result: dict[str, Any], expected: str) -> None:
    assert standing_of(result) == expected


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "unknown"), (0.4, "0 s"), (59.4, "59 s"), (60, "1 min 00 s"), (7260, "2 h 01 min")]
)
def test_duration(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def logs(folder: Path, **files: str) -> str:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(folder)


def test_the_lowest_rank_with_an_exception_speaks(tmp_path: Path) -> None:
    where = logs(
        tmp_path,
        **{
            "0__rank-0000.log": "old attempt\nValueError: old\n",
            "1__rank-0000.log": "fine\nfine\n",
            "1__rank-0001.log": (
                "start\nTraceback (most recent call last):\n  File x\nZeroDivisionError: division\nafter\n"
            ),
            "1__rank-0002.log": "RuntimeError: later rank\n",
            "1__step.log": "srun: error: node02: task 1: Exited with exit code 1\n",
        },
    )
    assert last_words(where) == [
        "from 1/rank-0001.log:",
        "  start",
        "  Traceback (most recent call last):",
        "    File x",
        "  ZeroDivisionError: division",
    ]


def test_without_an_exception_the_step_speaks_then_the_job(tmp_path: Path) -> None:
    where = logs(tmp_path, **{"0__step.log": "srun: error: boom\n\n", "job.7.log": "job\n"})
    assert last_words(where) == ["from 0/step.log:", "  srun: error: boom"]
    (tmp_path / "0" / "step.log").write_text("")
    assert last_words(where) == ["from job.7.log:", "  job"]
    assert last_words(str(tmp_path / "nowhere")) == []
