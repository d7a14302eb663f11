# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A repository in the cache: staged, found unchanged, repaired, replaced, removed. From a folder on the host."""

from __future__ import annotations

import hashlib
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.ensure import ensure_cache
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.layout import repository
from ansible_collections.rankzero.slurm.plugins.module_utils.hub.manifest import current, read

FILES = {"config.json": "{}", "tokenizer.json": "tokens", "sub/vocab.txt": "a b c", ".cache/huggingface/x": "theirs"}


class Cache:
    """HF_HOME of a cluster, and a folder that is to be in it."""

    def __init__(self, root: Path) -> None:
        self.home, self.src = root / "home", root / "src"
        for name, content in FILES.items():
            self.write(name, content)

    def write(self, name: str, content: str) -> None:
        path = self.src / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def options(self, **changes: Any) -> dict[str, Any]:
        return {
            "repo": "org/small",
            "repo_type": "model",
            "revision": "main",
            "path": str(self.home),
            "src": str(self.src),
            "remote_src": True,
            "include": [],
            "exclude": [],
            "require": [],
            "download": "head",
            "python": None,
            "token_file": None,
            "verify": False,
            "update": False,
            "state": "present",
            **changes,
        }

    def ensure(self, check_mode: bool = False, **changes: Any) -> dict[str, Any]:
        return ensure_cache(self.options(**changes), {}, check_mode=check_mode)

    @property
    def folder(self) -> Path:
        return self.home / "hub" / "models--org--small"

    def blob(self, name: str) -> Path:
        commit = (self.folder / "refs" / "main").read_text()
        return (self.folder / "snapshots" / commit / name).resolve()


def sha(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path)


def test_a_folder_is_staged_in_the_hubs_own_layout(cache: Cache) -> None:
    result = cache.ensure()
    assert (result["changed"], result["ref"]["present"]) == (True, True)
    commit = (cache.folder / "refs" / "main").read_text()
    assert len(commit) == 40 and result["ref"]["path"] == str(cache.folder / "snapshots" / commit)
    assert result["snapshot"]["files"] == ["config.json", "sub/vocab.txt", "tokenizer.json"]
    assert (cache.folder / "snapshots" / commit / "sub" / "vocab.txt").read_text() == "a b c"
    link = os.readlink(cache.folder / "snapshots" / commit / "sub" / "vocab.txt")
    assert link.startswith("../../../blobs/")
    again = cache.ensure()
    assert (again["changed"], again["ref"]) == (False, result["ref"])
    assert sorted(path.name for path in cache.folder.iterdir()) == ["blobs", "refs", "snapshots"]


def test_check_mode_writes_nothing_and_names_the_same(cache: Cache) -> None:
    foretold = cache.ensure(check_mode=True)
    assert not cache.home.exists()
    done = cache.ensure()
    assert foretold["changed"] and foretold["ref"] == {**done["ref"], "present": False}
    assert foretold["diff"] == done["diff"]
    assert not cache.ensure(check_mode=True)["changed"]


@pytest.mark.parametrize("damage", ["content", "size", "missing", "link"])
def test_damage_is_found_named_and_mended(cache: Cache, damage: str) -> None:
    cache.ensure()
    blob = cache.blob("tokenizer.json")
    if damage == "content":
        blob.chmod(0o644)
        blob.write_text("tokenz")
    elif damage == "size":
        blob.write_text("token")
    elif damage == "missing":
        blob.unlink()
    else:
        [snapshot] = (cache.folder / "snapshots").iterdir()
        (snapshot / "tokenizer.json").unlink()
        (snapshot / "tokenizer.json").symlink_to("../../blobs/" + cache.blob("config.json").name)
    foretold = cache.ensure(check_mode=True)
    assert foretold["changed"] and not foretold["ref"]["present"]
    result = cache.ensure()
    words = {"content": "has another content", "size": "has 5 bytes instead of 6", "missing": "is missing"}
    assert result["repaired"] == {"tokenizer.json": words.get(damage, "leads elsewhere")}
    assert cache.blob("tokenizer.json").read_text() == "tokens"
    assert not cache.ensure()["changed"]


def test_damage_that_kept_its_time_is_found_when_asked_to_look(cache: Cache) -> None:
    cache.ensure()
    blob = cache.blob("tokenizer.json")
    before = blob.stat()
    blob.write_text("tokenz")
    os.utime(blob, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not cache.ensure()["changed"]
    assert cache.ensure(verify=True)["repaired"] == {"tokenizer.json": "has another content"}


def test_another_content_is_another_commit_and_the_old_one_stays(cache: Cache) -> None:
    old = cache.ensure()["ref"]["path"]
    cache.write("tokenizer.json", "more tokens")
    new = cache.ensure()["ref"]["path"]
    assert old != new and os.path.isdir(old)
    assert (cache.folder / "refs" / "main").read_text() == os.path.basename(new)
    assert len(list((cache.folder / "blobs").iterdir())) == 4


def test_a_second_revision_of_the_same_files(cache: Cache) -> None:
    first = cache.ensure()
    second = cache.ensure(revision="v1")
    assert second["changed"] and second["ref"]["path"] == first["ref"]["path"]
    assert not cache.ensure(revision="v1")["changed"]


def test_a_selection(cache: Cache) -> None:
    result = cache.ensure(include=["*.json", "*.txt"], exclude=["tokenizer*"])
    assert result["snapshot"]["files"] == ["config.json", "sub/vocab.txt"]
    assert cache.ensure()["changed"], "all of it is more than the selection"


def test_absent_removes_what_no_other_snapshot_has(cache: Cache) -> None:
    cache.ensure(revision="old")
    cache.write("tokenizer.json", "more tokens")
    cache.ensure()
    assert cache.ensure(state="absent", check_mode=True)["changed"]
    gone = cache.ensure(state="absent")
    assert (gone["changed"], gone["ref"]["present"]) == (True, False)
    assert sorted(path.read_text() for path in (cache.folder / "blobs").iterdir()) == ["a b c", "tokens", "{}"]
    assert os.listdir(cache.folder / "refs") == ["old"]
    assert not cache.ensure(state="absent")["changed"]


def test_absent_leaves_what_the_hubs_library_has_put_there(cache: Cache) -> None:
    cache.ensure()
    theirs = cache.folder / "snapshots" / ("f" * 40)
    theirs.mkdir()
    (theirs / "config.json").symlink_to("../../blobs/" + cache.blob("config.json").name)
    cache.ensure(state="absent")
    assert (theirs / "config.json").read_text() == "{}"


def test_what_was_cut_off_is_not_found_by_its_name(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before the last step: the files are there, and no revision stands for them."""
    from ansible_collections.rankzero.slurm.plugins.module_utils.hub import install

    def killed(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(install, "write_manifest", killed)
        with pytest.raises(KeyboardInterrupt):
            cache.ensure()
    where = repository(str(cache.home), "org/small", "model", "main")
    assert current(where) is None
    assert cache.ensure()["changed"]
    assert read(where, current(where) or "") is not None


def test_the_controller_sends_what_the_host_lacks(cache: Cache, tmp_path: Path) -> None:
    cache.ensure(include=["config.json"])
    files = [["config.json", sha("{}"), 2]]
    cache.write("more.json", "[1]")
    files.append(["more.json", sha("[1]"), 3])
    request = {"files": files, "said": "/laptop/tokenizer", "commit": None}
    options = cache.options(src=None, remote_src=False)
    assert ensure_cache(options, request) == {"changed": False, "lacking": ["more.json"], "repaired": {}}
    archive = tmp_path / "files.tar"
    with tarfile.open(archive, "w") as packed:
        packed.add(cache.src / "more.json", arcname="more.json")
    result = ensure_cache(options, {**request, "archive": str(archive)})
    assert (result["changed"], result["snapshot"]["source"]) == (True, "/laptop/tokenizer")
    assert result["snapshot"]["files"] == ["config.json", "more.json"]


def test_an_archive_with_another_content_than_announced_is_refused(cache: Cache, tmp_path: Path) -> None:
    archive = tmp_path / "files.tar"
    with tarfile.open(archive, "w") as packed:
        packed.add(cache.src / "config.json", arcname="config.json")
    request = {"files": [["config.json", sha("[]"), 2]], "said": "x", "commit": None, "archive": str(archive)}
    with pytest.raises(RankzeroError, match=r"src: config.json changed while it was copied, or was damaged"):
        ensure_cache(cache.options(src=None, remote_src=False), request)
    assert list((cache.folder / "blobs").iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"repo": "org/na me"}, "repo: 'org/na me' is not"),
        ({"repo": "a/b/c"}, "repo: 'a/b/c' is not"),
        ({"repo": "../x"}, "repo: '../x' is not"),
        ({"revision": "a/../b"}, "revision: 'a/../b' is not"),
        ({"revision": "f" * 40}, "revision: ffffffff"),
        ({"path": "relative"}, "path: 'relative' is not an absolute path on the cluster"),
        ({"path": "$NOT_SET_ANYWHERE/x"}, "path: '$NOT_SET_ANYWHERE/x' is not an absolute path"),
        ({"src": "/nowhere"}, "src: /nowhere is not a folder"),
        (
            {"require": ["config.json", "model.bin|model.safetensors"]},
            "lacks model.bin or model.safetensors. It has",
        ),
    ],
)
def test_bad_input(cache: Cache, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RankzeroError) as caught:
        cache.ensure(**changes)
    assert message in caught.value.message
    assert not cache.home.exists()


def test_no_space_is_said_before_anything_is_copied(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs

    def full(path: Any) -> Any:
        found = list(real(path))
        found[4] = 0  # f_bavail
        return os.statvfs_result(found)

    monkeypatch.setattr(os, "statvfs", full)
    with pytest.raises(RankzeroError, match=r"path: \d+ bytes are needed in .*, which has 0 bytes and"):
        cache.ensure()
    assert list((cache.folder / "blobs").iterdir()) == []
