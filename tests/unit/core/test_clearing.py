# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lies outside of a tree that is removed outlives it, whatever is in the tree. A tree of any depth is removed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core import clearing
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import LEVELS, Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import scan
from ansible_collections.rankzero.slurm.plugins.module_utils.lab import cluster
from ansible_collections.rankzero.slurm.plugins.module_utils.lab.layout import Lab
from ansible_collections.rankzero.slurm.plugins.module_utils.logs import archive
from ansible_collections.rankzero.slurm.plugins.module_utils.prune import inventory
from ansible_collections.rankzero.slurm.plugins.module_utils.store import atomic


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "outside"
    made.mkdir()
    (made / "precious").write_text("stays")
    yield made
    assert (made / "precious").read_text() == "stays"


def delete(path: Path) -> None:
    folder = clearing.open_folder(str(path.parent))
    try:
        clearing.remove_in(folder, path.name)
    finally:
        os.close(folder)
    assert not os.path.lexists(path)


def test_links_of_every_kind_go_and_what_they_lead_to_stays(tmp_path: Path, outside: Path) -> None:
    doomed = tmp_path / "doomed"
    (doomed / "inner").mkdir(parents=True)
    (doomed / "inner" / "folder").symlink_to(outside)
    (doomed / "up").symlink_to("../outside")
    (doomed / "file").symlink_to(outside / "precious")
    os.link(outside / "precious", doomed / "hard")
    os.mkfifo(doomed / "fifo")
    (doomed / "loop").symlink_to("loop")
    delete(doomed)


def test_a_link_in_the_place_of_the_thing_itself_goes_alone(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "doomed").symlink_to(outside)
    delete(tmp_path / "doomed")


def test_a_folder_on_the_way_that_has_become_a_link_is_not_entered(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "store").symlink_to(outside)
    with pytest.raises(NotADirectoryError):
        clearing.open_folder(str(tmp_path / "store"))
    for crooked in (f"{tmp_path}/../{tmp_path.name}", "relative", ""):
        with pytest.raises(NotADirectoryError, match="absolute"):
            clearing.open_folder(crooked)


def test_a_folder_that_becomes_a_link_while_it_is_emptied_saves_nothing_and_takes_nothing(
    tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack on rm -r: between the look at a folder and the entry into it a link is put in its place."""
    doomed = tmp_path / "doomed"
    (doomed / "a").mkdir(parents=True)
    real = os.open

    def swapping(path: str, *options: int, **place: int) -> int:
        if path == "a" and not (doomed / "a").is_symlink():
            (doomed / "a").rmdir()
            (doomed / "a").symlink_to(outside)
        return real(path, *options, **place)

    monkeypatch.setattr(clearing.os, "open", swapping)
    with pytest.raises(OSError, match="a"):
        clearing.remove_tree(str(doomed))
    monkeypatch.undo()
    delete(doomed)


def deep(top: Path, levels: int = 1050) -> None:
    """A folder that holds folders in each other, and a file in each of them."""
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _level in range(levels):
        os.mkdir("deep", dir_fd=here)
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        inner = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


def test_what_is_to_be_kept_stays(tmp_path: Path) -> None:
    deep(tmp_path / "held", 3)
    (tmp_path / "held" / "lock").write_text("mine")
    folder = os.open(tmp_path / "held", os.O_RDONLY)
    clearing.clear(folder, keep=("lock",))
    os.close(folder)
    assert [path.name for path in (tmp_path / "held").iterdir()] == ["lock"]


def test_a_lab_whose_jobs_have_made_deep_trees_is_removed(tmp_path: Path) -> None:
    """They lie on the disk of a node, and are deeper than a program may call itself or open folders."""
    lab = Lab("deep", str(tmp_path / "labs" / "deep"), way="simple", nodes=1)
    (tmp_path / "labs" / "deep" / "nodes").mkdir(parents=True)
    deep(Path(lab.path("nodes", "node01")))
    cluster._remove(lab, None)
    assert list((tmp_path / "labs").iterdir()) == []


def test_logs_are_found_in_a_folder_that_has_no_end(tmp_path: Path) -> None:
    """A job, also another user's, may have made it."""
    deep(tmp_path / "logs", 150)
    (tmp_path / "logs" / "rank-0000.log").write_text("said\n")
    names = [path for path, _size in archive.collect(Beneath(str(tmp_path / "logs")))[0]]
    assert "rank-0000.log" in names and len(names) == LEVELS + 1
    assert str(tmp_path / "logs" / "rank-0000.log") in scan.find_logs(str(tmp_path / "logs"))
    assert inventory.newest(str(tmp_path / "logs")) > 0
    assert atomic.remove(str(tmp_path / "logs"))
    assert list(tmp_path.iterdir()) == []


def test_read_only_folders_go(tmp_path: Path) -> None:
    inner = tmp_path / "doomed" / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "file").write_text("x")
    for folder in (inner, inner.parent, tmp_path / "doomed"):
        folder.chmod(0o555)
    delete(tmp_path / "doomed")
    removal_of_nothing = clearing.open_folder(str(tmp_path))
    clearing.remove_in(removal_of_nothing, "doomed")
    os.close(removal_of_nothing)
