# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lies outside of a doomed tree outlives it, whatever lies in the tree; `store_prune` for others and by size."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.prune import delete_tree, users
from tests.unit.prune.test_prune import DAY, NOW, Place, gone

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "outside"
    made.mkdir()
    (made / "precious").write_text("stays")
    yield made
    assert (made / "precious").read_text() == "stays"


def delete(path: Path) -> None:
    folder = delete_tree.open_folder(str(path.parent))
    try:
        delete_tree.delete_in(folder, path.name)
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
    with pytest.raises(OSError, match=""):
        delete_tree.open_folder(str(tmp_path / "store"))
    for crooked in (f"{tmp_path}/../{tmp_path.name}", "relative", ""):
        with pytest.raises(OSError, match=""):
            delete_tree.open_folder(crooked)


def test_a_folder_that_becomes_a_link_while_it_is_emptied_saves_nothing_and_takes_nothing(
    tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack on rm -r: between the look at a folder and the entry into it a link is put in its place."""
    doomed = tmp_path / "doomed"
    (doomed / "a").mkdir(parents=True)
    real = os.stat

    def swapping(path: str, **options: object) -> os.stat_result:
        found = real(path, **options)  # type: ignore[arg-type]
        if path == "a" and not (doomed / "a").is_symlink():
            (doomed / "a").rmdir()
            (doomed / "a").symlink_to(outside)
        return found

    monkeypatch.setattr(delete_tree.os, "stat", swapping)
    folder = delete_tree.open_folder(str(tmp_path))
    with pytest.raises(OSError, match="a"):
        delete_tree.delete_in(folder, "doomed")
    os.close(folder)
    monkeypatch.undo()
    delete(doomed)


def test_a_tree_deeper_than_open_files_and_paths_may_be_goes(tmp_path: Path) -> None:
    (tmp_path / "doomed").mkdir()
    here = os.open(tmp_path / "doomed", os.O_RDONLY)
    for _level in range(1100):
        os.mkdir("deep", dir_fd=here)
        with open(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=here), "w", encoding="ascii"):
            pass
        inner = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    delete(tmp_path / "doomed")


def test_read_only_folders_go(tmp_path: Path) -> None:
    inner = tmp_path / "doomed" / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "file").write_text("x")
    for folder in (inner, inner.parent, tmp_path / "doomed"):
        folder.chmod(0o555)
    delete(tmp_path / "doomed")
    removal_of_nothing = delete_tree.open_folder(str(tmp_path))
    delete_tree.delete_in(removal_of_nothing, "doomed")
    os.close(removal_of_nothing)


def test_only_root_prunes_for_others_and_only_for_users_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users.os, "geteuid", lambda: 1000)
    with pytest.raises(RankzeroError, match="owners: needs root"):
        users.accounts(["nobody"])
    monkeypatch.setattr(users.os, "geteuid", lambda: 0)
    with pytest.raises(RankzeroError, match="'nosuchuser' is no user"):
        users.accounts(["nobody", "nosuchuser"])
    with pytest.raises(RankzeroError, match="root's own things"):
        users.accounts(["root"])


@root_only
def test_the_prune_of_a_user_is_done_by_that_user_for_good() -> None:
    def work() -> dict[str, object]:
        with pytest.raises(PermissionError):
            os.setuid(0)
        return {"ids": [*os.getresuid(), *os.getresgid()], "home": os.path.expanduser("~"), "groups": os.getgroups()}

    nobody = pwd.getpwnam("nobody")
    found = users.as_user(nobody, work)
    assert found["ids"] == [nobody.pw_uid] * 3 + [nobody.pw_gid] * 3
    assert found["home"] == nobody.pw_dir and 0 not in found["groups"]
    assert os.geteuid() == 0


@root_only
def test_one_users_failure_is_named_and_the_others_are_done() -> None:
    done = {
        "changed": True,
        "removed": [{"path": "/x"}],
        "bytes": 3,
        "swept": [],
        "kept": [],
        "diff": {},
        "notes": ["n"],
    }

    def work(name: str) -> dict[str, object]:
        if name == "nobody":
            raise RankzeroError("state_root: cannot be read")
        return dict(done)

    notes: list[str] = []
    with pytest.raises(RankzeroError) as caught:
        users.for_each(["nobody", "daemon"], work, notes.append)
    assert "nobody: state_root: cannot be read" in caught.value.message
    assert caught.value.partial["removed"] == [{"path": "/x", "owner": "daemon"}] and notes == ["daemon: n"]
    assert users.for_each(["daemon"], work, notes.append)["bytes"] == 3


@root_only
def test_a_process_that_dies_is_no_success() -> None:
    with pytest.raises(RankzeroError, match="ended from outside"):
        users.as_user(pwd.getpwnam("nobody"), lambda: os.kill(os.getpid(), 9))  # type: ignore[arg-type,return-value]


def test_a_size_takes_the_longest_unused_and_no_more_than_it_must(tmp_path: Path) -> None:
    place = Place(tmp_path)
    ages = {letter: NOW - days * DAY for letter, days in (("a", 90), ("b", 80), ("c", 70))}
    things = {letter: place.thing(f"code/{letter * 64}", used) for letter, used in ages.items()}
    place.thing(f"code/{'f' * 64}", NOW)
    for made in things.values():
        made.chmod(0o755)
        (made / "file").write_bytes(b"x" * 1000)
        used = ages[made.name[0]]
        os.utime(made, (used, used))
    shown = place.prune(max_size=2500, check_mode=True)
    assert gone(shown) == {str(things["a"])} and str(things["a"]) in shown["diff"]["before"]
    assert all(made.exists() for made in things.values())
    result = place.prune(max_size=2500)
    assert gone(result) == {str(things["a"])} and not things["a"].exists()
    kept = {one["path"]: one["reason"] for one in result["kept"]}
    assert "room within max_size" in kept[str(things["b"])]
    # A size below all that is there takes what age allows, and not what was used since.
    assert gone(place.prune(max_size=0)) == {str(things["b"]), str(things["c"])}
    assert (place.store / "code" / ("f" * 64)).exists()
    assert place.prune(max_size=0)["removed"] == []
