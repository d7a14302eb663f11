# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import io
import os
import tarfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.store import atomic
from ansible_collections.rankzero.slurm.plugins.module_utils.store.archive import unpack
from ansible_collections.rankzero.slurm.plugins.module_utils.store.snapshot import ensure_snapshot, lacking, newest_base
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import digest, read_tree
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import pack, take_snapshot


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "lib").mkdir(parents=True)
    (root / "train.py").write_text("print(1)\n", encoding="utf-8")
    (root / "lib/ü b.py").write_text("b = 1\n", encoding="utf-8")
    (root / "run.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    (root / "run.sh").chmod(0o755)
    (root / "data").symlink_to("/scratch/data")
    return root


@pytest.fixture
def packed(project: Path, tmp_path: Path) -> tuple[str, str]:
    """(archive, digest)"""
    snapshot = take_snapshot(str(project))
    archive = tmp_path / "code.tar.gz"
    with archive.open("wb") as stream:
        pack(snapshot, stream)
    return str(archive), snapshot.digest


def names(folder: Path | str) -> list[str]:
    return sorted(os.listdir(folder))


def test_life_of_a_snapshot(packed: tuple[str, str], tmp_path: Path) -> None:
    archive, key = packed
    store = str(tmp_path / "store")
    planned = ensure_snapshot(store, key, check_mode=True)
    assert planned == ensure_snapshot(store, key)
    assert (planned["changed"], planned["ref"]["present"]) == (True, False)
    assert not os.path.exists(store)

    done = ensure_snapshot(store, key, archive)
    assert done == {"changed": True, "ref": {**planned["ref"], "present": True}}
    path = done["ref"]["path"]
    assert path == f"{store}/code/{key}"
    assert digest(read_tree(path)) == key
    assert os.readlink(f"{path}/data") == "/scratch/data"
    assert names(f"{store}/code") == [key]
    for name, mode in (("train.py", 0o444), ("run.sh", 0o555), ("lib", 0o555)):
        assert os.stat(os.path.join(path, name)).st_mode & 0o777 == mode

    assert ensure_snapshot(store, key, archive) == {**done, "changed": False}
    assert ensure_snapshot(store, key, absent=True, check_mode=True)["changed"]
    assert ensure_snapshot(store, key, absent=True) == {"changed": True, "ref": planned["ref"]}
    assert names(f"{store}/code") == []
    assert not ensure_snapshot(store, key, absent=True)["changed"]


@pytest.mark.parametrize("umask", [0o002, 0o022, 0o077])
def test_all_may_read_what_is_published_and_none_may_write_it(
    packed: tuple[str, str], tmp_path: Path, umask: int
) -> None:
    before = os.umask(umask)
    try:
        path = ensure_snapshot(str(tmp_path / "store"), packed[1], packed[0])["ref"]["path"]
    finally:
        os.umask(before)
    modes = {"train.py": 0o444, "run.sh": 0o555, "lib": 0o555, "": 0o755, "..": 0o755, "../..": 0o755}
    assert {name: os.stat(f"{path}/{name}").st_mode & 0o777 for name in modes} == modes
    assert digest(read_tree(path)) == packed[1]


def test_another_tree_than_announced_is_refused(packed: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(RankzeroError, match="digest: the archive contains the tree"):
        ensure_snapshot(str(tmp_path / "store"), "0" * 64, packed[0])
    assert names(tmp_path / "store/code") == []


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "missing"])
def test_a_damaged_archive_is_refused(packed: tuple[str, str], tmp_path: Path, damage: str) -> None:
    path = Path(packed[0])
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(
            {"cut": content[:-40], "flipped": content[:60] + bytes([content[60] ^ 255]) + content[61:], "empty": b""}[
                damage
            ]
        )
    with pytest.raises(RankzeroError):
        ensure_snapshot(str(tmp_path / "store"), packed[1], packed[0])
    assert names(tmp_path / "store/code") == []


def tar_of(path: Path, *members: tarfile.TarInfo) -> str:
    with tarfile.open(path, "w:gz") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    return str(path)


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, 1 if kind == tarfile.REGTYPE else 0
    return info


@pytest.mark.parametrize(
    "members",
    [
        [member("../out")],
        [member("a/../../out")],
        [member("/etc/out")],
        [member("a//b")],
        [member("./a")],
        [member("pipe", tarfile.FIFOTYPE)],
        [member("device", tarfile.CHRTYPE)],
        [member("hard", tarfile.LNKTYPE, "/etc/passwd")],
        [member("a"), member("a")],
        [member("a", tarfile.SYMTYPE, "/"), member("a/out")],
        [member("a/b"), member("a", tarfile.SYMTYPE, "/")],
    ],
    ids=lambda members: "+".join(one.name for one in members),
)
def test_a_dishonest_archive_writes_nothing(tmp_path: Path, members: list[tarfile.TarInfo]) -> None:
    archive = tar_of(tmp_path / "a.tar.gz", *members)
    with pytest.raises(RankzeroError):
        unpack(archive, str(tmp_path / "store" / "code" / "x"), "0" * 64)
    assert names(tmp_path / "store" / "code") == []
    assert names(tmp_path) == ["a.tar.gz", "store"]


def test_somebody_else_was_first(packed: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "store" / "code" / packed[1]

    def slow(folder: str, **_options: int) -> None:
        target.mkdir(parents=True)
        (target / "theirs").write_text("", encoding="utf-8")

    monkeypatch.setattr("ansible_collections.rankzero.slurm.plugins.module_utils.store.archive.make_read_only", slow)
    assert unpack(packed[0], str(target), packed[1]) is False
    assert names(target.parent) == [packed[1]]
    assert names(target) == ["theirs"]


def test_leftovers_of_dead_makers_are_swept_and_living_ones_stay(tmp_path: Path) -> None:
    place = atomic.process_scope()
    dead = 2**22 + 7  # beyond the largest process number
    old, new = f".b.00000000-1-1{atomic._SUFFIX}", f".c.00000000-1-1{atomic._SUFFIX}"
    gone, mine = f".a.{place}-{dead}-1{atomic._SUFFIX}", f".d.{place}-{os.getpid()}-1{atomic._SUFFIX}"
    for name in (old, new, gone, mine, "finished", ".hidden"):
        (tmp_path / name / "below").mkdir(parents=True)
        (tmp_path / name).chmod(0o500)
    past = time.time() - atomic.ABANDONED_AFTER - 60
    os.utime(tmp_path / old, (past, past))
    assert atomic.sweep(str(tmp_path)) == sorted([gone, old])
    assert names(tmp_path) == sorted([new, mine, "finished", ".hidden"])


def test_fresh_folder_is_gone_after_a_failure(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), atomic.fresh_folder(str(tmp_path / "a" / "b")) as folder:
        Path(folder, "file").write_text("", encoding="utf-8")
        raise ZeroDivisionError
    assert names(tmp_path / "a") == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_no_space(tmp_path: Path, code: int) -> None:
    said = r"[MGT]B and \d+ files free.*launch_cluster\.store_root"
    with pytest.raises(RankzeroError, match=said), atomic.fresh_folder(str(tmp_path / "a" / "b")):
        raise OSError(code, os.strerror(code))


def test_a_store_that_cannot_be_written(tmp_path: Path, packed: tuple[str, str]) -> None:
    (tmp_path / "store").write_text("a file", encoding="utf-8")
    with pytest.raises(RankzeroError, match="store_root: cannot write below"):
        ensure_snapshot(str(tmp_path / "store"), packed[1], packed[0])


def test_remove_a_read_only_tree(tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/b/c/file").write_text("", encoding="utf-8")
    (tmp_path / "a/link").symlink_to(tmp_path)
    atomic.make_read_only(str(tmp_path / "a"))
    assert atomic.remove(str(tmp_path / "a"))
    assert not atomic.remove(str(tmp_path / "a"))
    assert names(tmp_path) == []


def test_root_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("SCRATCH", "/scratch/me")
    assert atomic.root_of("~/store/") == "/home/me/store"
    assert atomic.root_of("$SCRATCH/store") == "/scratch/me/store"
    for wrong in ("store", "$NOT_SET_ANYWHERE/store", "/a/$NOT_SET_ANYWHERE", ""):
        with pytest.raises(RankzeroError, match=r"store_root: .* is not an absolute path"):
            atomic.root_of(wrong)


@pytest.mark.parametrize("key", ["", "abc", "../../etc", "G" * 64])
def test_a_digest_is_a_digest(tmp_path: Path, key: str) -> None:
    with pytest.raises(RankzeroError, match="key: "):
        ensure_snapshot(str(tmp_path), key)


def test_a_present_snapshot_is_marked_as_used(packed: tuple[str, str], tmp_path: Path) -> None:
    archive, key = packed
    store = tmp_path / "store"
    ensure_snapshot(str(store), key, archive)
    mark = store / "used" / "code" / key
    os.utime(mark, (1, 1))
    ensure_snapshot(str(store), key, check_mode=True)
    assert mark.stat().st_mtime == 1
    ensure_snapshot(str(store), key)
    assert mark.stat().st_mtime > 1


def test_only_what_an_older_snapshot_lacks_has_to_be_in_the_archive(
    packed: tuple[str, str], project: Path, tmp_path: Path
) -> None:
    archive, key = packed
    store = str(tmp_path / "store")
    older = ensure_snapshot(store, key, archive)["ref"]["path"]
    assert newest_base(store) == key
    (project / "train.py").write_text("print(2)\n")
    (project / "run.sh").rename(project / "lib" / "start.sh")
    snapshot = take_snapshot(str(project))
    tree = [(entry.kind, entry.sha256, entry.path) for entry in snapshot.files]
    numbers = lacking(store, key, tree)
    assert [snapshot.files[number].path for number in numbers] == ["train.py"]
    small = tmp_path / "small.tar.gz"
    with small.open("wb") as stream:
        pack(replace(snapshot, files=tuple(snapshot.files[number] for number in numbers)), stream)
    kept = [entry for entry in snapshot.files if entry.path != "train.py"]
    newer = ensure_snapshot(store, snapshot.digest, str(small), base=key, kept=kept)["ref"]["path"]
    assert digest(read_tree(newer)) == snapshot.digest and digest(read_tree(older)) == key
    assert os.path.samefile(f"{older}/run.sh", f"{newer}/lib/start.sh")
    # What the older one lost or has otherwise than it said is never taken over.
    os.chmod(f"{older}/run.sh", 0o755)
    Path(f"{older}/run.sh").write_text("tampered\n")
    ensure_snapshot(store, snapshot.digest, absent=True)
    with pytest.raises(RankzeroError, match=r"no longer contains the content of lib/start\.sh"):
        ensure_snapshot(store, snapshot.digest, str(small), base=key, kept=kept)
    assert lacking(store, "0" * 64, tree) == list(range(len(tree)))
