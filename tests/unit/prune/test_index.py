# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A prune with the index of ended launches removes the same as one without it, and reads less."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.prune import inventory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search import launch_list
from tests.unit.prune.test_prune import CODE, DAY, NOW, OTHER, Place, gone
from tests.writers import Run

COUNT = 40
RECENT, FAILED, WAITING = 3, 5, 7


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Forty launches: the fourth ended yesterday, the sixth failed, the eighth waits in the queue."""
    place = Place(tmp_path)
    for number in range(COUNT):
        ended = None if number == WAITING else NOW - (1 if number == RECENT else 100) * DAY
        by = "crash" if number == FAILED else "program"
        place.run(
            f"job{number % 4}/{number:016x}/1",
            uses=CODE if number in (RECENT, WAITING) else OTHER,
            ended=ended,
            ended_by=by,
        )
    place.jobs["70"] = (f"job{WAITING % 4}.{WAITING:016x}.1", "PENDING")
    for code in (CODE, OTHER):
        place.thing(f"code/{code}")
    return place


def index(place: Place) -> Path:
    options: dict[str, Any] = {"state_root": str(place.state), "newest": True}
    launch_list.job_info(place.slurm(), options)
    return place.state / "index" / "launches"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The run directories that are read, and those whose files are searched for names."""
    paths: list[str] = []
    snapshot, names_of = RunDirectory.snapshot, inventory.names_of
    monkeypatch.setattr(RunDirectory, "snapshot", lambda run: paths.append(run.path) or snapshot(run))
    monkeypatch.setattr(inventory, "names_of", lambda run, files: paths.append(run.path) or names_of(run, files))
    return paths


def test_a_prune_reads_only_what_has_not_ended_long_ago(place: Place, read: list[str]) -> None:
    without = place.prune(check_mode=True)
    assert len(gone(without)) == COUNT - 2 + 1 and str(place.store / "code" / OTHER) in gone(without)
    lines = index(place).read_text().count("\n")
    assert lines >= COUNT - 2
    read.clear()
    assert place.prune(check_mode=True) == without
    kept = {str(place.state / "runs" / f"job{number % 4}" / f"{number:016x}" / "1") for number in (RECENT, WAITING)}
    assert set(read) == kept


@pytest.mark.parametrize("also", [CODE, OTHER])
def test_what_a_launch_names_is_read_once_until_it_is_written_again(place: Place, read: list[str], also: str) -> None:
    recent = place.state / "runs" / "job3" / f"{RECENT:016x}" / "1"
    index(place)
    without = place.prune(check_mode=True)
    assert str(recent) in read
    read.clear()
    assert place.prune(check_mode=True) == without and str(recent) not in read
    names = place.state / "index" / "names"
    assert names.stat().st_mode & 0o777 == 0o600
    whole = names.read_text()
    for damaged in ("", whole[: len(whole) // 2], whole.replace(CODE, OTHER), whole.replace("keys", "none")):
        names.write_text(damaged)
        read.clear()
        assert place.prune(check_mode=True) == without and str(recent) in read, "a damaged line is not believed"
    names.write_text(whole)
    Run(recent).launch({"environment": {"variables": {"USES": also}}})
    read.clear()
    after = place.prune(check_mode=True)
    assert str(recent) in read and (str(place.store / "code" / OTHER) in gone(after)) == (also == CODE)


def test_what_goes_is_compared_with_each_file(place: Place, read: list[str]) -> None:
    """A journal that grows leaves the time of its folder."""
    index(place)
    old = place.state / "runs" / "job1" / f"{1:016x}" / "1"
    assert str(old) in gone(place.prune(check_mode=True))
    Run(old, "71").journal({"event": "cancelled", "time": NOW - DAY})
    read.clear()
    assert str(old) not in gone(place.prune(check_mode=True)) and str(old) in read


def test_a_launch_that_is_back_in_the_queue_is_kept_whatever_the_index_says(place: Place) -> None:
    index(place)
    place.jobs["99"] = (f"job1.{FAILED:016x}.1", "PENDING")
    result = place.prune(check_mode=True)
    assert {"path": str(place.state / "runs" / "job1" / f"{FAILED:016x}" / "1"), "reason": "job 99 is pending"} in (
        result["kept"]
    )


def test_a_damaged_or_stale_index_removes_nothing_more(place: Place) -> None:
    without = place.prune(check_mode=True)
    path = index(place)
    whole = path.read_text()
    recent = place.state / "runs" / "job3" / f"{RECENT:016x}" / "1"
    for damaged in (
        whole[: len(whole) // 2],
        whole.replace(str(NOW - DAY), str(NOW - 99 * DAY)),
        whole.replace(f"job3/{RECENT:016x}", f"job3/{RECENT + 4:016x}"),
    ):
        path.write_text(damaged)
        assert place.prune(check_mode=True) == without
    path.write_text(whole)
    # The same launch under the same path, restored from elsewhere: another inode, another time of change.
    shutil.copytree(recent, recent.with_name("2"))
    shutil.rmtree(recent)
    recent.with_name("2").rename(recent)
    assert place.prune(check_mode=True) == without


def test_the_size_of_a_folder_counts_each_file_once(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "one").write_bytes(b"1" * 100)
    (folder / "deep" / "two").write_bytes(b"2" * 20)
    (folder / "deep" / "again").hardlink_to(folder / "one")
    (folder / "out").symlink_to("/usr")
    assert inventory.size(str(folder)) == 120 + len("/usr")
    assert inventory.size(str(folder / "one")) == 100
    assert inventory.size(str(folder), owner=4_000_000) == 0
    assert inventory.size(str(tmp_path / "missing")) == 0
