# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run directory whose owner has put links into it: whoever looks at it reads no file that they lead to."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import prefilter, scan
from ansible_collections.rankzero.slurm.plugins.module_utils.explain import diagnose, rank_stacks
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics import checklist, monitor, running
from ansible_collections.rankzero.slurm.plugins.module_utils.report import page_data
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.attempt_times import AttemptSpan
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.launch_ledger import Reading, with_steps
from tests.unit.page.runs import stamp

RUN = f"runs/gpt/{'a' * 16}/1"
BEGAN = 1_700_000_000.0
OTHERS = "the-content-of-another-file"
FILES = (
    "logs/0/rank-0000.log", "logs/0/rank-0001.log", "logs/job.7.log", "monitor/0/node01.host.csv",
    "work/metrics.jsonl", "stacks/0/trace-0",
)  # fmt: skip
LINKS = [*(RUN.rsplit("/", count)[0] for count in (3, 2, 1)), RUN]
LINKS += [f"{RUN}/{name}" for name in ("logs", "logs/0", "monitor", "monitor/0", "work", "stacks", "stacks/0", *FILES)]
SPAN = {"attempt": 0, "began": BEGAN, "ended": BEGAN + 100, "ranks": BEGAN, "proven": None}


def write_run(root: Path, word: str, loss: float) -> None:
    lines = "".join(f"{stamp(BEGAN + step)} step {step}/99 loss {loss}\n" for step in range(1, 61))
    text = f"[rankzero] RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 host={word}\n{lines}Traceback (most recent call last):\n"
    text += f'  File "train.py", line 1, in <module>\nRuntimeError: {word}\n'
    samples = f"1700000000,{loss},5,6,7\n"
    metrics = f'{{"step": 1, "loss": {loss}, "_timestamp": {BEGAN + 5}}}\n'
    for name, content in zip(FILES, (text, text, text, samples, metrics, word)):
        (root / RUN / name).parent.mkdir(parents=True, exist_ok=True)
        (root / RUN / name).write_text(content)


def scanned(run: RunDirectory) -> scan.Scan:
    return scan.scan(diagnose.newest_logs(run.file("logs"), 0), opener=run.shown().at)


def told(run: RunDirectory) -> Any:
    """What a diagnosis, a list, a page, the hours and the search for stacks read of a run."""
    logs = scanned(run)
    metrics = page_data._metrics(run, [page_data.Span(0, BEGAN, BEGAN + 100)], full=True)
    spans = [AttemptSpan(**SPAN, job_id="7", nodes=1, succeeded=False)]
    return [
        [event.text for log in logs.logs for event in log.events],
        checklist.all_facts(diagnose._rank_logs(logs), opener=run.shown().at),
        running.progress({"run_dir": run.path, "attempt": 0, "started_at": BEGAN}, BEGAN + 61),
        monitor.read_samples(run.shown("monitor/0")),
        [series.points for series in metrics.collected.series.values()],
        with_steps(run.shown("logs"), spans, Reading(most=1 << 20), run.shown("work")),
        rank_stacks.dumps(run, 0),
    ]


def test_a_run_is_read_by_everybody(tmp_path: Path) -> None:
    write_run(tmp_path, "own", 7.25)
    text = str(told(RunDirectory(str(tmp_path / RUN))))
    assert "RuntimeError: own" in text and "host='own'" in text and text.count("7.25") > 60


@pytest.mark.parametrize("link", LINKS)
def test_no_link_in_a_run_is_followed(tmp_path: Path, link: str) -> None:
    state, outside = tmp_path / "state", tmp_path / "outside"
    write_run(state, "own", 7.25)
    write_run(outside, OTHERS, 3.75)
    place = state / link
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    place.symlink_to(outside / link)
    try:
        text = str(told(RunDirectory(str(state / RUN))))
    except RankzeroError as error:
        text = error.message
    assert OTHERS not in text and "3.75" not in text


@pytest.mark.parametrize("tool", [prefilter.tool(), None], ids=["tool", "python"])
@pytest.mark.parametrize("link", [RUN, f"{RUN}/logs", f"{RUN}/logs/0", f"{RUN}/{FILES[0]}"])
def test_a_log_that_becomes_a_link_is_not_searched(tmp_path: Path, link: str, tool: list[str] | None) -> None:
    """Between the list of the logs and their search, which a program of its own does."""
    state, outside = tmp_path / "state", tmp_path / "outside"
    write_run(state, "own", 7.25)
    write_run(outside, f"ERROR {OTHERS}", 3.75)
    run = RunDirectory(str(state / RUN))
    path = run.file(FILES[0])
    assert prefilter.find([path, run.file(FILES[1])], tool, opener=run.shown().at)[path].seen
    (state / link).rename(tmp_path / "aside")
    (state / link).symlink_to(outside / link)
    found = prefilter.find([path, run.file(FILES[1])], tool, opener=run.shown().at)
    assert found[path].seen == 0
    read = scan.scan([path], opener=run.shown().at)
    assert not read.logs and list(read.unreadable) == [path]


def test_a_named_log_may_be_a_link_and_what_is_in_a_named_folder_may_not(tmp_path: Path) -> None:
    request = diagnose._Request(1, scan.SIGNATURES, 10.0, 60.0, False, True, BEGAN)
    read: Callable[[Path], Any] = lambda path: diagnose._of_path(str(path), request)["diagnosis"]  # noqa: E731
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.log").write_text("RuntimeError: mine\n")
    (tmp_path / "latest").symlink_to("real")
    (tmp_path / "latest.log").symlink_to("real/a.log")
    for path in ("real", "latest", "latest.log"):
        assert read(tmp_path / path)["root"]["text"] == "RuntimeError: mine", path
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "b.log").symlink_to(tmp_path / "real" / "a.log")
    found = read(tmp_path / "folder")
    assert not found["root"] and "is a link" in str(found["unreadable"])
