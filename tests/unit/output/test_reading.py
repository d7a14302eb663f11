# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetched logs with links that came with a change of somebody else, or that take their place: nothing else is read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.diagnosis import Diagnosis, Evidence
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output import writer
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.fetched import holdings
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen import merged_logs
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.card import card, last_words
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.ending import Ending, FetchedLogs
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.hours import hours
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.report_rows import report
from tests.unit.output.test_writer import LAUNCH, git
from tests.unit.page.runs import stamp
from tests.unit.screen.test_card import END
from tests.unit.screen.test_card import LAUNCH as LAUNCHED
from tests.unit.screen.test_hours import BEGAN, waited

LOGS = f"{LAUNCH}/logs"
OTHERS = "the-content-of-another-file"
#: Where a link may be, from the top of the project.
LINKS = [
    *(LAUNCH.rsplit("/", count)[0] for count in (3, 2, 1)),
    LAUNCH,
    LOGS,
    f"{LOGS}/0",
    f"{LOGS}/0/000",
    f"{LOGS}/0/rank-0000.log",
    f"{LOGS}/0/step.log",
    f"{LOGS}/job.7.log",
]


def write_logs(top: Path, word: str, begin: int) -> None:
    lines = "".join(f"{stamp(BEGAN + begin + step)} step {step} loss 1.5\n" for step in range(1, 31))
    text = f"[rankzero] RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 host={word}\n{lines}Traceback (most recent call last):\n"
    for name in ("0/rank-0000.log", "0/000/rank-0001.log", "0/step.log", "job.7.log"):
        (top / LOGS / name).parent.mkdir(parents=True, exist_ok=True)
        (top / LOGS / name).write_text(f"{text}RuntimeError: {word}\nstep 61 loss 0.5 {word}\nValueError: {word}\n")


def tail() -> list[str]:
    shown = merged_logs.Tail(os.path.abspath(LOGS))
    names = dict.fromkeys(("0/rank-0000.log", "0/000/rank-0001.log", "0/step.log", "job.7.log"), True)
    news = []
    for name in names:
        try:
            news += shown.news({name: True})
        except OSError as error:
            news.append(str(error))
    return [*shown.begin(), *news, *shown.rest()]


def failed() -> list[str]:
    why = Diagnosis("error", "it failed", root=Evidence("logs/0/rank-0000.log", 35, "ValueError: ", "error", 0))
    end = replace(END, success=False, standing="failed")
    rows = report({}, Ending(LAUNCHED, end, logs=FetchedLogs(os.path.abspath(LOGS)), diagnosis=why))
    return [row.text for row in rows]


READERS: dict[str, Callable[[], Any]] = {
    "card": lambda: card(Ending(LAUNCHED, END, logs=FetchedLogs(os.path.abspath(LOGS)))),
    "last words": lambda: last_words(os.path.abspath(LOGS)),
    "report": failed,
    "merge": lambda: Path(merged_logs.merge(os.path.abspath(LOGS))).read_text(),
    "tail": tail,
    "hours": lambda: (hours(waited(), os.path.abspath(LOGS)) or {}).get("sentence"),
    "holdings": lambda: sorted(name for name in holdings(Place.of_logs(os.path.abspath(LOGS))) if os.path.islink(name)),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project").mkdir()
    git(tmp_path / "project", "init", "-q")
    monkeypatch.chdir(tmp_path / "project")
    writer._tracked.cache_clear()
    return tmp_path / "project"


@pytest.fixture
def outside(project: Path) -> Path:
    write_logs(project, "own", 20)
    write_logs(project.parent / "outside", OTHERS, 60)
    return project.parent / "outside"


def test_fetched_logs_are_read_by_everybody(outside: Path) -> None:
    texts = {name: str(read()) for name, read in READERS.items()}
    assert "own" in texts["card"] and "own" in texts["last words"] and "own" in texts["report"]
    assert texts["merge"].count("ValueError: own") == 4 and texts["tail"].count("ValueError: own") == 8
    assert len(holdings(Place.of_logs(os.path.abspath(LOGS)))) == 4
    assert hours(waited(), os.path.abspath(LOGS)) is not None


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("link", LINKS)
def test_nothing_is_read_through_a_link_that_came_with_the_code(
    project: Path,
    outside: Path,
    link: str,
    reader: str,
) -> None:
    place = project / link
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    place.symlink_to(outside / link)
    git(project, "add", "-f", link)
    try:
        told = str(READERS[reader]())
    except RankzeroError as error:
        told = error.message
    assert OTHERS not in told
    if reader == "hours":
        assert told != str((hours(waited(), str(outside / LOGS)) or {})["sentence"])


@pytest.mark.parametrize("link", LINKS[3:])
def test_what_takes_the_place_of_a_log_meanwhile_is_not_read(
    project: Path,
    outside: Path,
    link: str,
) -> None:
    """Between the look at a folder and the reading of a file in it."""
    place = project / link
    with Place.of_logs(os.path.abspath(LOGS)).files() as logs:
        paths = merged_logs.newest_logs(logs)
        place.rename(project / "aside")
        place.symlink_to(outside / link)
        texts = []
        for path in paths:
            try:
                with logs.at(path) as stream:
                    texts.append(stream.read().decode())
            except OSError:
                continue
    assert len(paths) == 4 and texts and not any(OTHERS in text for text in texts)
