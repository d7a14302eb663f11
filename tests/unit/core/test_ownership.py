# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose files are believed. tests/cluster/test_attacks_stores.py tries it with two users."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core import ownership
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Trust
from ansible_collections.rankzero.slurm.plugins.module_utils.store import atomic, locks, uses
from ansible_collections.rankzero.slurm.plugins.module_utils.store.publish import publish_files

ME, OTHER = os.geteuid(), os.geteuid() + 4711
FILE, FOLDER, LINK = 0o100000, 0o040000, 0o120000


@pytest.mark.parametrize(
    ("uid", "mode", "group_writes", "expected"),
    [
        (ME, FILE | 0o644, False, ""),
        (0, FOLDER | 0o755, False, ""),
        (OTHER, FILE | 0o444, False, f"belongs to user {OTHER}"),
        (OTHER, LINK | 0o777, False, f"belongs to user {OTHER}"),
        (ME, LINK | 0o777, False, ""),
        (ME, FILE | 0o664, False, "can be written by the group .*0664"),
        (ME, FILE | 0o646, False, "can be written by everybody .*0646"),
        (OTHER, FOLDER | 0o2775, True, ""),
        (OTHER, FOLDER | 0o2777, True, "can be written by everybody .*2777"),
    ],
)
def test_whose_file_is_believed(uid: int, mode: int, group_writes: bool, expected: str) -> None:
    status = SimpleNamespace(st_uid=uid, st_gid=0, st_mode=mode)
    found = ownership.flaw(status, Trust.own(group_writes=group_writes))  # type: ignore[arg-type]
    assert re.fullmatch(f"{expected}(?:\\)|)" if expected else "", found), found


def tree(root: Path) -> Path:
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "run").write_text("", encoding="utf-8")
    (root / "lib").symlink_to("bin")
    for path in (root, root / "bin", root / "bin" / "run"):
        path.chmod(0o755)
    return root


def test_one_bad_file_spoils_a_tree(tmp_path: Path) -> None:
    root = tree(tmp_path / "tree")
    assert ownership.tree_flaw(str(root), Trust.own(), links=True) == ""
    (root / "bin" / "run").chmod(0o775)
    assert ownership.tree_flaw(str(root), Trust.own()).startswith(f"{root}/bin/run can be written by the group")
    (root / "bin" / "run").chmod(0o755)
    os.mkfifo(root / "bin" / "pipe")
    (root / "bin" / "pipe").chmod(0o644)
    assert ownership.tree_flaw(str(root), Trust.own()) == f"{root}/bin/pipe is neither a file, nor a folder, nor a link"


def test_a_link_leads_out_to_what_only_the_owners_can_write(tmp_path: Path) -> None:
    root, away = tree(tmp_path / "tree"), tree(tmp_path / "away")
    (root / "bin" / "python").symlink_to("/usr/bin/env")
    (root / "bin" / "more").symlink_to(away / "bin")
    assert ownership.tree_flaw(str(root), Trust.own(), links=True) == ""
    away.chmod(0o775)
    found = ownership.tree_flaw(str(root), Trust.own(), links=True)
    assert found.startswith(f"{root}/bin/more leads out, and {away} can be written by the group")
    assert ownership.tree_flaw(str(root), Trust.own()) == ""


def test_what_a_dangling_link_names_may_be_made_by_nobody_else(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert ownership.path_flaw(str(tmp_path / "missing" / "below"), Trust.own()) == ""
    tmp_path.chmod(0o1777)
    assert "lets others make it" in ownership.path_flaw(str(tmp_path / "missing" / "below"), Trust.own())


def test_a_folder_above_that_all_may_write_is_found(tmp_path: Path) -> None:
    store = tmp_path / "open" / "more" / "store"
    store.mkdir(parents=True)
    assert ownership.exposed_above(str(store)) == ""
    (tmp_path / "open").chmod(0o777)
    assert ownership.exposed_above(str(store)) == str(tmp_path / "open")
    (tmp_path / "open").chmod(0o1777)
    assert ownership.exposed_above(str(store)) == ""


def test_the_right_to_write_is_taken_from_others_once(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder").chmod(0o2775)
    assert ownership.tighten(str(tmp_path / "folder"))
    assert (tmp_path / "folder").stat().st_mode & 0o7777 == 0o2755
    assert not ownership.tighten(str(tmp_path / "folder"))


def test_new_folders_go_on_with_the_group_of_the_one_above(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project").chmod(0o2755)
    atomic.open_folders(str(tmp_path / "project" / "store" / "code"))
    publish_files(str(tmp_path / "project" / "runtime" / "key"), {"job.sh": ""})
    for name in ("store", "store/code", "runtime", "runtime/key"):
        assert (tmp_path / "project" / name).stat().st_mode & 0o7777 == 0o2755


def test_the_mode_of_what_a_link_leads_to_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "file").chmod(0o666)
    (tmp_path / "link").symlink_to("file")
    with pytest.raises(OSError, match="link"):
        ownership.tighten(str(tmp_path / "link"))
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o666


def test_people_read_names_where_there_are_any() -> None:
    assert ownership.user_name(0) == "user root"
    assert ownership.user_name(4294967000) == "user 4294967000"
    assert ownership.group_name(4294967000) == "4294967000"
    assert ownership.described("/").startswith("owner user root, group root, mode 0")


@pytest.mark.parametrize(("mode", "closed"), [(0o755, True), (0o2755, True), (0o2775, False)])
def test_marks_are_open_to_a_group_only_where_the_store_is(tmp_path: Path, mode: int, closed: bool) -> None:
    """Whatever the umask: a group that may write a mark's folder could tell a prune what is in use."""
    store = tmp_path / "store"
    store.mkdir()
    store.chmod(mode)
    slot = uses.Slot(str(store), "code", "1" * 32)
    before = os.umask(0o002)
    try:
        uses.touch(slot)
        uses.register(slot.root, "/state")
        with locks.hold(slot.lock, 5):
            pass
    finally:
        os.umask(before)
    made = list(store.rglob("*"))
    assert len(made) >= 5
    assert {not path.stat().st_mode & stat.S_IWGRP for path in made} == {closed}
    assert not any(path.stat().st_mode & stat.S_IWOTH for path in made)
    assert uses.registered(slot.root).keys() == {"/state"}
