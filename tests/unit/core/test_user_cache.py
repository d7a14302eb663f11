# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.module_cache import UNUSED
from ansible_collections.rankzero.slurm.plugins.module_utils.core.user_cache import UserCache


def test_what_is_kept_is_read_by_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "kept"
    assert UserCache(str(folder)).read("one") is None
    UserCache(str(folder)).write("one", b"1")
    assert UserCache(str(folder)).read("one") == b"1" and folder.stat().st_mode & 0o777 == 0o700


def test_what_others_could_have_written_is_not_read(tmp_path: Path) -> None:
    cache = UserCache(str(tmp_path / "kept"))
    cache.write("one", b"1")
    (tmp_path / "kept" / "one").chmod(0o660)
    assert cache.read("one") is None
    (tmp_path / "kept" / "two").symlink_to(__file__)
    assert cache.read("two") is None
    cache.write("one", b"1")
    (tmp_path / "kept").chmod(0o770)
    assert cache.read("one") is None
    opened = len(os.listdir("/proc/self/fd"))
    cache.write("one", b"2")
    assert (tmp_path / "kept" / "one").read_bytes() == b"1" and len(os.listdir("/proc/self/fd")) == opened


def test_old_files_go_when_one_is_added_and_no_open_file_is_left(tmp_path: Path) -> None:
    cache = UserCache(str(tmp_path))
    cache.write("old", b"1")
    before = time.time() - UNUSED - 60
    os.utime(tmp_path / "old", (before, before))
    opened = len(os.listdir("/proc/self/fd"))
    cache.write("new", b"2")
    assert cache.read("new") == b"2" and os.listdir(tmp_path) == ["new"]
    assert len(os.listdir("/proc/self/fd")) == opened


def test_a_folder_that_depends_on_where_a_command_runs_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project may bring a folder of that name."""
    monkeypatch.chdir(tmp_path)
    UserCache(str(tmp_path / "~" / "kept")).write("one", b"1")
    cache = UserCache("~/kept")
    assert cache.read("one") is None
    cache.write("two", b"2")
    assert os.listdir(tmp_path / "~" / "kept") == ["one"]


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    cache = UserCache(str(tmp_path / "file" / "kept"))
    cache.write("one", b"1")
    assert cache.read("one") is None
