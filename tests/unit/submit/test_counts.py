# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many files a launch opens and how many Slurm commands it runs. Counts only: no time is measured."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.needs import StorageNeeds
from tests.unit.submit.bench import Bench
from tests.unit.submit.grid import Grid

EVENTS = ("open", "os.listdir", "os.scandir", "os.mkdir")
# An audit hook stays for the life of a process; it counts only while this list holds a counter.
_COUNTERS: list[list[str]] = []
_HOOKED: list[bool] = []


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    # A stream for an open descriptor (os.fdopen) opens nothing.
    if _COUNTERS and event in EVENTS and not (event == "open" and isinstance(arguments[0], int)):
        _COUNTERS[-1].append(f"{event} {arguments[0]}")


@contextmanager
def opened() -> Iterator[list[str]]:
    """The files that are opened, and the folders that are listed or made meanwhile."""
    if not _HOOKED:
        sys.addaudithook(_hook)
        _HOOKED.append(True)
    _COUNTERS.append([])
    try:
        yield _COUNTERS[-1]
    finally:
        _COUNTERS.pop()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    # With a state root, what Slurm says about the cluster is remembered.
    places = StorageNeeds(roots={"state_root": str(tmp_path / "state")})
    made.request = replace(made.request, places=places)
    made.launch()
    made.ends(success=True)
    made.launch(runs_dir=str(made.runs.parent / "fedcba9876543210"))  # the cluster is known now
    made.cluster.asked.clear()
    return made


def test_a_warm_launch(bench: Bench) -> None:
    with opened() as files:
        result = bench.launch(runs_dir=str(bench.runs.parent / "00112233445566aa"))
    assert result["submission"] == "submitted" and bench.cluster.commands == ["sinfo", "sbatch"]
    assert len(files) <= 80, "\n".join(files)


def test_an_unchanged_launch(bench: Bench) -> None:
    with opened() as files:
        assert bench.launch()["submission"] == "unchanged"
    assert bench.cluster.commands == []
    assert len(files) <= 30, "\n".join(files)


def test_a_history_adds_no_opens_to_a_launch(bench: Bench) -> None:
    """Launches of other names are not looked at."""
    counts = []
    runs = bench.runs.parent.parent
    for number in range(2):
        with opened() as files:
            bench.launch(name=f"new{number}", runs_dir=str(runs / f"new{number}" / "0123456789abcdef"))
        counts.append(len(files))
        for other in range(20):
            (runs / f"other{other}" / "0123456789abcdef" / "1").mkdir(parents=True, exist_ok=True)
    assert counts[0] == counts[1]


def _of_one_element(grid: Grid, first: int, again: bool = False) -> list[float]:
    """What one further element of a sweep costs: files opened, folders made, journals read, Slurm commands."""
    counted = []
    for count in (10, 30):
        grid.wanted, grid.key = list(range(first, first + count)), f"{first + count:016x}"
        if again:
            grid.launch()
        grid.cluster.asked.clear()
        with opened() as files:
            states = set(grid.states(grid.launch()))
        assert states == ({"adopted"} if again else {"submitted"})
        journals = [file for file in files if file.endswith("journal.jsonl")]
        made = [file for file in files if file.startswith("os.mkdir")]
        counted.append((len(files) - len(made), len(made), len(journals), len(grid.cluster.commands)))
        first += count
    return [(most - least) / 20 for least, most in zip(*counted)]


def test_a_further_element_of_a_sweep(tmp_path: Path) -> None:
    """Three files, three folders, and no Slurm command. While it waits, its journal is read once."""
    grid = Grid(tmp_path)
    grid.launch()  # the cluster is known now
    assert _of_one_element(grid, 3) == [3, 3, 1, 0]
    files, made, journals, commands = _of_one_element(grid, 100, again=True)
    assert (made, journals, commands) == (0, 1, 0) and files <= 20
