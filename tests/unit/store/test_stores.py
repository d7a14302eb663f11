# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One's own store and those of trusted owners. tests/cluster/test_attacks_stores.py tries it with two users."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core import ownership
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import CODE, IMAGE
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv import interpreter
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv import tool
from ansible_collections.rankzero.slurm.plugins.module_utils.store import stores, verified
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import make_read_only
from ansible_collections.rankzero.slurm.plugins.module_utils.store.hardlinks import share
from ansible_collections.rankzero.slurm.plugins.module_utils.store.stores import Store, locate, stores_of
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import digest, read_tree
from ansible_collections.rankzero.slurm.plugins.module_utils.store.verified import Memory

OTHER = os.geteuid() + 4711


@pytest.fixture(autouse=True)
def closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)


def own(path: Path, *, shared: bool = False) -> Store:
    [found] = stores_of({"store_root": str(path), "store_group_writable": shared})
    return found


def trusted(path: Path, uid: int | None = None) -> Store:
    return stores_of(
        {
            "store_root": "/nowhere",
            "stores": [{"path": str(path), "owners": [str(os.geteuid() if uid is None else uid)]}],
        }
    )[0]


def code(store: Path, text: str = "print()\n") -> Path:
    """A code tree as it is published."""
    fresh = store / "code" / "fresh"
    (fresh / "lib").mkdir(parents=True)
    (fresh / "train.py").write_text(text, encoding="utf-8")
    (fresh / "lib" / "a.py").write_text("", encoding="utf-8")
    path = fresh.rename(store / "code" / digest(read_tree(str(fresh))))
    for folder in (store, store / "code", path):
        folder.chmod(0o755)
    make_read_only(str(path))
    return path


def found(store: Store, path: Path, memory: Memory | None = None) -> str | None:
    place = locate([store], CODE, path.name, os.path.isdir, memory=memory)
    return place and place[1]


def test_a_store_that_was_made_under_umask_002_is_closed(tmp_path: Path) -> None:
    store = tmp_path / "store"
    path = code(store)
    for folder in (store, store / "code", path):
        folder.chmod(0o2775)
    with pytest.raises(ownership.Untrusted, match=r"store can be written by the group"):
        found(own(store), path)
    stores.keep_own(own(store), check_mode=True)
    assert store.stat().st_mode & 0o7777 == 0o2775
    stores.keep_own(own(store))
    assert {folder.stat().st_mode & 0o777 for folder in (store, store / "code", path)} == {0o755}
    assert found(own(store), path) == str(path)


def test_what_is_closed_is_not_what_links_lead_to(tmp_path: Path) -> None:
    store, away = tmp_path / "store", tmp_path / "away"
    for folder in (store, away):
        folder.mkdir()
        folder.chmod(0o775)
    (store / "code").symlink_to(away)
    stores.keep_own(own(store))
    assert store.stat().st_mode & 0o777 == 0o755
    assert away.stat().st_mode & 0o777 == 0o775
    with pytest.raises(ownership.Untrusted, match="code can be written by the group"):
        (away / ("0" * 64)).mkdir()
        found(own(store), Path("0" * 64))


def test_a_store_of_another_is_refused_with_three_ways_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "store").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: OTHER)
    with pytest.raises(ownership.Untrusted) as error:
        stores.keep_own(own(tmp_path / "store"))
    said = error.value.message
    assert f"{tmp_path}/store is not yours (owner user " in said
    for way in ("a folder of your own", "launch_cluster.stores: [{path:", "launch_cluster.store_group_writable: true"):
        assert way in said


def test_a_folder_above_that_all_may_write_is_refused(tmp_path: Path) -> None:
    path = code(tmp_path / "open" / "store")
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(ownership.Untrusted, match=rf"everybody may write {tmp_path}/open .*chmod \+t {tmp_path}/open"):
        stores.keep_own(own(tmp_path / "open" / "store"))
    said: list[str] = []
    store = trusted(tmp_path / "open" / "store")
    assert locate([store], CODE, path.name, os.path.isdir, note=said.append) is None
    assert "everybody may write" in said[0]


def test_a_store_that_a_group_shares_is_asked_for_and_opened_by_hand(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir(mode=0o755)
    with pytest.raises(RankzeroError, match="chmod 2775"):
        stores.keep_own(own(store, shared=True))
    store.chmod(0o2775)
    stores.keep_own(own(store, shared=True))
    assert (store / "code").stat().st_mode & 0o7777 == 0o2775
    path = code(store)
    (store / "code").chmod(0o2775)
    store.chmod(0o2775)
    assert found(own(store, shared=True), path) == str(path)
    path.chmod(0o777)
    with pytest.raises(ownership.Untrusted, match="can be written by everybody"):
        found(own(store, shared=True), path)


def _edited(path: Path) -> None:
    (path / "train.py").chmod(0o644)
    (path / "train.py").write_text("print('planted')\n", encoding="utf-8")


def _added(path: Path) -> None:
    (path / "sitecustomize.py").write_text("", encoding="utf-8")


def _hard_linked(path: Path) -> None:
    """An older file of the user's own in the place of another: owner and mode are right."""
    other = path.parent / "other.py"
    other.write_text("print('old')\n", encoding="utf-8")
    other.chmod(0o444)
    (path / "train.py").unlink()
    os.link(other, path / "train.py")


def _writable(path: Path) -> None:
    (path / "train.py").chmod(0o664)


def _writable_folder(path: Path) -> None:
    (path / "lib").chmod(0o775)


@pytest.mark.parametrize("harm", [_edited, _added, _hard_linked, _writable, _writable_folder])
def test_a_code_tree_is_what_its_name_says_or_is_not_used(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    path = code(tmp_path / "store")
    memory = Memory(str(tmp_path / "state" / "cache"))
    assert found(own(tmp_path / "store"), path, memory) == str(path)
    harm(path)
    with pytest.raises(ownership.Untrusted, match=r"is not used\. .*rm -rf"):
        found(own(tmp_path / "store"), path, memory)
    said: list[str] = []
    assert locate([trusted(tmp_path / "store")], CODE, path.name, os.path.isdir, note=said.append) is None
    assert len(said) == 1


def test_a_link_in_the_place_of_a_thing_is_refused(tmp_path: Path) -> None:
    path = code(tmp_path / "elsewhere")
    store = tmp_path / "store"
    (store / "code").mkdir(parents=True)
    (store / "code" / path.name).symlink_to(path)
    with pytest.raises(ownership.Untrusted, match="is a link, to"):
        found(own(store), path)


def test_nothing_of_an_owner_who_is_not_trusted_counts(tmp_path: Path) -> None:
    path = code(tmp_path / "store")
    said: list[str] = []
    if os.geteuid() != 0:  # what root owns counts everywhere
        store = trusted(tmp_path / "store", OTHER)
        assert locate([store], CODE, path.name, os.path.isdir, note=said.append) is None
        assert "belongs to" in said[0]
    assert found(trusted(tmp_path / "store"), path) == str(path)


def test_trusted_stores_come_before_ones_own(tmp_path: Path) -> None:
    theirs, mine = code(tmp_path / "platform"), code(tmp_path / "mine")
    both = stores_of(
        {
            "store_root": str(tmp_path / "mine"),
            "stores": [
                {"path": str(tmp_path / "none"), "owners": ["root"]},
                {"path": f"{tmp_path}/platform/", "owners": ["root", str(os.geteuid())]},
            ],
        }
    )
    assert [store.own for store in both] == [False, False, True]
    assert locate(both, CODE, mine.name, os.path.isdir) == (both[1], str(theirs))
    assert locate(both, CODE, mine.name, lambda path: path == str(mine)) == (both[2], str(mine))
    assert locate(both, IMAGE, "0" * 32, os.path.isdir) is None


def test_an_owner_whom_the_host_does_not_know_is_an_error() -> None:
    with pytest.raises(RankzeroError, match="stores: /p names the owner 'nobody-at-all'"):
        stores_of({"store_root": "/s", "stores": [{"path": "/p", "owners": ["nobody-at-all"]}]})


# --- what was looked at once


def test_a_tree_that_was_read_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = code(tmp_path / "store")
    memory = Memory(str(tmp_path / "state" / "cache" / "stores"))
    now = time.time()
    read: list[str] = []
    monkeypatch.setattr(stores, "read_tree", lambda root: (read.append(root), read_tree(root))[1])
    assert found(own(tmp_path / "store"), path, memory)
    assert found(own(tmp_path / "store"), path, memory)
    assert len(read) == 2  # it is too young to be told from one that is changed in this moment
    monkeypatch.setattr(verified.time, "time", lambda: now + verified.SETTLED_SECONDS + 5)
    for _turn in range(3):
        assert found(own(tmp_path / "store"), path, memory)
    assert len(read) == 3
    _edited(path)
    monkeypatch.setattr(verified.time, "time", lambda: now + 60)
    with pytest.raises(ownership.Untrusted, match="other content than its name states"):
        found(own(tmp_path / "store"), path, memory)
    assert len(read) == 4


def test_a_memory_that_others_can_write_is_none(tmp_path: Path) -> None:
    memory = Memory(str(tmp_path / "cache"))
    memory.learn("/thing", "0" * 64)
    assert memory.knows("/thing", "0" * 64)
    assert not memory.knows("/thing", "1" * 64)
    [file] = (tmp_path / "cache").iterdir()
    file.chmod(0o664)
    assert not memory.knows("/thing", "0" * 64)
    file.rename(tmp_path / "away")
    (tmp_path / "away").chmod(0o644)
    file.symlink_to(tmp_path / "away")
    assert not memory.knows("/thing", "0" * 64)
    assert not Memory(None).knows("/thing", "")


# --- what a build takes from a store that others could once write


def test_tools_and_locks_that_another_could_write_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "store"
    for name in ("tools/uv-9.9.9/uv", "tools/python/cpython-3.11/bin/python3"):
        (store / name).parent.mkdir(parents=True)
        (store / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (store / name).chmod(0o755)
    monkeypatch.setattr(tool.uv, "find", lambda places, _settings: [one for one in places if str(store) in one])
    monkeypatch.setattr(tool.uv, "usual_places", lambda _settings: [])
    environ = {"HOME": str(tmp_path), "UV_PYTHON_INSTALL_DIR": str(tmp_path / "none")}
    assert tool.find_uv(str(store), None, None, {}) == [str(store / "tools/uv-9.9.9/uv")]
    assert interpreter.managed(str(store), environ) == [str(store / "tools/python/cpython-3.11/bin/python3")]
    (store / "tools").chmod(0o775)
    assert tool.find_uv(str(store), None, None, {}) == []
    assert interpreter.managed(str(store), environ) == []
    stores.keep_own(own(store))
    assert tool.find_uv(str(store), None, None, {}) == [str(store / "tools/uv-9.9.9/uv")]


def test_one_content_is_shared_only_with_a_file_that_nobody_else_can_write(tmp_path: Path) -> None:
    known, target = tmp_path / "sha256" / "digest", tmp_path / "image"
    known.parent.mkdir()
    known.write_bytes(b"evil")
    known.chmod(0o664)
    target.write_bytes(b"good")
    share(str(target), str(known))
    assert target.read_bytes() == b"good"
    known.unlink()
    share(str(target), str(known))
    assert known.stat().st_ino == target.stat().st_ino
