# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result card, and which log's end is shown when a job has failed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import IN_PLACE
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_end import LaunchEnd
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.card import card, duration, last_words
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.ending import Ending, FetchedLogs, Launched

RUN = "/s/runs/gpt/0123456789abcdef/2"
LAUNCH = Launched("gpt", RUN, "7", 2)
END = LaunchEnd(
    *("gpt", "0123456789abcdef", 2, "succeeded", "the artifact is proven", RUN, f"{RUN}/logs"),
    completed=True,
    success=True,
    slurm_state="COMPLETED",
    job_id="7",
    attempt=1,
    nodes=["node01", "node02"],
    wall_time=65.2,
    outcome={
        "artifact": {
            "path": f"{RUN}/work/result.json",
            "valid": True,
            "scalars": {"loss": 2.1451, "same": True},
        }
    },
)


def test_the_card_of_a_proven_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert card(Ending(LAUNCH, END, logs=FetchedLogs(str(tmp_path / "runs" / "gpt")))) == [
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
    assert f"  code      {line}" in card(Ending(replace(LAUNCH, plan=["gpt, key 0123", line]), END))


def test_the_card_of_many_nodes_names_a_few() -> None:
    nodes = [f"node{number:03d}" for number in range(1000)]
    lines = card(Ending(LAUNCH, replace(END, nodes=nodes)))
    (line,) = [line for line in lines if line.startswith("  nodes ")]
    assert line.startswith("  nodes     1000: node000 node001 ") and line.endswith(" and 992 more") and len(line) < 100


def test_the_card_explains_the_variables_where_that_was_asked() -> None:
    lines = card(Ending(replace(LAUNCH, explain=["A  1  because", "B  2  so"]), END))
    assert lines[-2:] == ["  variables A  1  because", "            B  2  so"]


def test_the_card_names_the_run_in_each_tracker() -> None:
    link = "http://mlflow.example.org/#/experiments/1/runs/ab12"
    rows = [{"tracker": "mlflow", "run": "ab12", "place": link}, {"tracker": "wandb", "run": "gpt-1", "place": ""}, "x"]
    assert tracked(rows)[-3:-1] == [f"  tracker   mlflow {link}", "  tracker   wandb run gpt-1"]
    assert tracked([{"tracker": "\x1b[31mx", "place": "a\nb"}])[-2] == "  tracker   x a b"


def tracked(rows: list[Any]) -> list[str]:
    """The card of a job that has recorded this of its trackers."""
    return card(Ending(LAUNCH, replace(END, outcome={"trackers": rows})))


@pytest.mark.parametrize("end", [END, replace(END, standing="failed", success=False)])
def test_what_the_wait_says_and_nothing_else_is_the_standing(end: LaunchEnd) -> None:
    assert card(Ending(LAUNCH, end))[0] == f"gpt {end.standing}"


def test_a_wait_that_has_failed_knows_no_standing() -> None:
    lines = card(Ending(LAUNCH, problem="the connection was lost"))
    assert lines[0] == "gpt unknown" and "  verdict   the connection was lost" in lines


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
