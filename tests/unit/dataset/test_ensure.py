# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A dataset in a store: staged, found unchanged, repaired, replaced, removed. From a folder of the host."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.arguments import DATASET
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset import stage
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.ensure import ensure_dataset, place_for
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.layout import read_manifest, read_record
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.partial import Parts
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.sources.local import Local
from ansible_collections.rankzero.slurm.plugins.module_utils.dataset.sources.select import check

FILES = {"train/a.txt": "aaaa", "train/b.txt": "bb", "readme": "hello"}
Options = dict[str, Any]


def sha(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


class Store:
    """A store, and a folder that is to be in it."""

    def __init__(self, root: Path) -> None:
        self.root, self.src = root / "store", root / "src"
        for name, content in FILES.items():
            self.write(name, content)

    def write(self, name: str, content: str) -> None:
        path = self.src / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def options(self, **changes: Any) -> Options:
        defaults = {name: option.get("default") for name, option in DATASET.items()}
        given = {"name": "texts", "source": "cluster", "src": str(self.src), "store_root": str(self.root)}
        return {**defaults, **given, **changes}

    def ensure(self, check_mode: bool = False, **changes: Any) -> dict[str, Any]:
        options = self.options(**changes)
        check(options)
        return ensure_dataset(options, check_mode=check_mode)

    @property
    def link(self) -> Path:
        return self.root / "datasets" / "by-name" / "texts"

    def left(self) -> set[str]:
        """What lies in datasets/ that is none."""
        return {path.name for path in (self.root / "datasets").iterdir() if len(path.name) != 64}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def damage(path: Path, how: Callable[[Path], object]) -> None:
    path.parent.chmod(0o755)
    if path.exists():
        path.chmod(0o644)
    how(path)


def test_a_folder_is_staged_read_only_under_its_name(store: Store) -> None:
    result = store.ensure()
    assert (result["changed"], result["ref"]["present"], result["ref"]["kind"]) == (True, True, "dataset")
    assert result["ref"]["path"] == str(store.link)
    assert {name: (store.link / name).read_text() for name in FILES} == FILES
    assert os.stat(store.link / "readme").st_mode & 0o222 == 0
    assert (result["moved"], result["dataset"]["files"], result["dataset"]["bytes"]) == (11, 3, 11)
    assert store.left() == {"by-name", "records"}
    again = store.ensure()
    assert (again["changed"], again["ref"], again["moved"]) == (False, result["ref"], 0)
    assert not store.ensure(verify=True)["changed"]


def test_check_mode_writes_nothing_and_names_the_same(store: Store) -> None:
    foretold = store.ensure(check_mode=True)
    assert not store.root.exists()
    done = store.ensure()
    assert foretold["changed"] and foretold["ref"] == {**done["ref"], "present": False}
    assert foretold["diff"] == done["diff"]
    again = store.ensure(check_mode=True)
    assert not again["changed"] and again["ref"] == done["ref"]


@pytest.mark.parametrize("kind", ["content", "size", "missing", "link"])
def test_damage_is_found_named_and_mended_alone(store: Store, kind: str) -> None:
    made = store.ensure()
    path = store.link / "train" / "a.txt"
    whole = os.stat(store.link / "readme")
    ways: dict[str, Callable[[Path], object]] = {
        "content": lambda path: path.write_text("axaa"),
        "size": lambda path: path.write_text("a"),
        "missing": lambda path: path.unlink(),
        "link": lambda path: (path.unlink(), path.symlink_to("/etc/passwd")),
    }
    damage(path, ways[kind])
    foretold = store.ensure(check_mode=True)
    assert foretold["changed"] and not foretold["ref"]["present"]
    result = store.ensure()
    words = {
        "content": "has another content",
        "size": "has 1 bytes instead of 4",
        "missing": "is missing",
        "link": "leads elsewhere",
    }
    assert result["repaired"] == {"train/a.txt": words[kind]}
    assert result["moved"] == 4
    assert path.read_text() == "aaaa" and not path.is_symlink()
    assert result["ref"] == made["ref"] and foretold["ref"] == {**made["ref"], "present": False}
    assert os.stat(store.link / "readme").st_ino == whole.st_ino
    assert not store.ensure()["changed"]


def test_damage_is_not_mended_from_a_source_that_is_another_by_now(store: Store) -> None:
    store.ensure()
    damage(store.link / "readme", lambda path: path.unlink())
    store.write("readme", "another")
    with pytest.raises(RankzeroError, match=r"readme: its source has changed .* update: true"):
        store.ensure()
    (store.src / "readme").unlink()
    with pytest.raises(RankzeroError, match="src: readme is damaged"):
        store.ensure()


def test_an_update_brings_what_is_new_and_keeps_the_old_for_its_readers(store: Store) -> None:
    first = store.ensure()
    reader = (store.link / "train").resolve()
    store.write("train/b.txt", "new!!")
    assert not store.ensure()["changed"]
    second = store.ensure(update=True)
    assert second["changed"] and second["ref"]["digest"] != first["ref"]["digest"]
    assert second["ref"]["key"] == first["ref"]["key"]
    assert second["moved"] == 5
    assert (store.link / "train" / "b.txt").read_text() == "new!!"
    assert (reader / "b.txt").read_text() == "bb"
    assert not store.ensure(update=True)["changed"]


def test_a_selection_and_its_change(store: Store) -> None:
    result = store.ensure(include=["train/*"])
    assert result["dataset"]["files"] == 2
    other = store.ensure(include=["train/*"], exclude=["*/b.txt"])
    assert (other["changed"], other["dataset"]["files"]) == (True, 1)
    assert other["ref"]["key"] != result["ref"]["key"]
    with pytest.raises(RankzeroError, match="has no file that matches include and exclude"):
        store.ensure(include=["*.parquet"])


def test_two_names_of_one_content_share_it_until_the_last_is_gone(store: Store) -> None:
    one, two = store.ensure(), store.ensure(name="same")
    assert one["ref"]["digest"] == two["ref"]["digest"]
    removed = store.ensure(state="absent")
    assert removed["changed"] and not removed["ref"]["present"] and not os.path.lexists(store.link)
    assert (store.link.parent / "same" / "readme").read_text() == "hello"
    assert not store.ensure(state="absent")["changed"]
    assert store.ensure(name="same", state="absent", check_mode=True)["changed"]
    store.ensure(name="same", state="absent")
    assert store.left() == {"by-name", "records"} == {path.name for path in (store.root / "datasets").iterdir()}


def test_a_link_and_a_copy_where_the_job_expects_them(store: Store, tmp_path: Path) -> None:
    dest = tmp_path / "data" / "texts"
    result = store.ensure(dest=str(dest))
    assert result["ref"]["path"] == str(dest) and dest.is_symlink()
    assert (dest / "readme").read_text() == "hello"
    assert not store.ensure(dest=str(dest))["changed"]
    assert store.ensure(dest=str(dest), dest_kind="copy", check_mode=True)["changed"] and dest.is_symlink()
    assert store.ensure(dest=str(dest), dest_kind="copy")["changed"]
    assert not dest.is_symlink() and (dest / "train" / "a.txt").read_text() == "aaaa"
    assert not store.ensure(dest=str(dest), dest_kind="copy")["changed"]
    (dest / "readme").unlink()
    assert store.ensure(dest=str(dest), dest_kind="copy")["changed"] and (dest / "readme").exists()
    assert store.ensure(dest=str(dest))["changed"] and dest.is_symlink()
    store.ensure(dest=str(dest), state="absent")
    assert not os.path.lexists(dest)


def test_what_is_not_ours_is_left_alone(store: Store, tmp_path: Path) -> None:
    dest = tmp_path / "mine"
    dest.mkdir()
    (dest / "thesis").write_text("x")
    for kind in ("link", "copy"):
        with pytest.raises(RankzeroError, match=r"dest: .*mine is there already, and is not what this task has made"):
            store.ensure(dest=str(dest), dest_kind=kind)
    assert (dest / "thesis").exists()


def test_a_packed_one_is_one_file(store: Store) -> None:
    result = store.ensure(pack=True)
    packed = Path(result["dataset"]["packed"])
    assert packed.read_bytes()[:4] == b"hsqs"
    facts = json.loads((packed.parent / "dataset.json").read_text())["sealed"]
    assert (facts["bytes"], facts["files"], facts["unpacked"]) == (packed.stat().st_size, 3, 11)
    assert not store.ensure(pack=True, compression="lz4")["changed"]
    packed.chmod(0o644)
    packed.write_bytes(packed.read_bytes()[:-100])
    assert store.ensure(pack=True, check_mode=True)["changed"]
    assert store.ensure(pack=True)["changed"]
    assert packed.stat().st_size == facts["bytes"] and not store.ensure(pack=True, verify=True)["changed"]


def test_sums_are_held_against_what_came(store: Store) -> None:
    store.write("SUMS", "".join(f"{sha(content)}  ./{name}\n" for name, content in FILES.items()))
    store.write("train/a.txt", "oops")
    with pytest.raises(
        RankzeroError, match=r"train/a.txt: has the sha256 .* was expected. The received file is kept as"
    ) as raised:
        store.ensure(checksums="SUMS")
    kept = Path(str(raised.value).partition("kept as ")[2].partition(";")[0])
    assert kept.read_text() == "oops" and not os.path.lexists(store.link)
    store.write("train/a.txt", "aaaa")
    result = store.ensure(checksums="SUMS")
    assert (result["dataset"]["files"], result["moved"]) == (3, 4)
    assert store.left() == {"by-name", "records"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{'a' * 64}  ../x\n", "line 1 of SUMS names '../x'"),
        (f"{'a' * 64}  /etc/passwd\n", "line 1 of SUMS names '/etc/passwd'"),
        ("abc  readme\n", "line 1 of SUMS is not a sha256sum line: 'abc"),
        (f"{'a' * 64}  readme\nSHA256 (readme) = {'b' * 64}\n", "SUMS has two sums of readme"),
        ("# nothing\n", "SUMS is empty"),
        (f"{'a' * 64}  gone.txt\n", "lacks gone.txt"),
        (f"{'a' * 64}  readme\n", "has what the list lacks, train/a.txt, train/b.txt"),
    ],
)
def test_bad_sums(store: Store, text: str, message: str) -> None:
    store.write("SUMS", text)
    with pytest.raises(RankzeroError, match=r"checksums: .*" + message.replace("(", r"\(")):
        store.ensure(checksums="SUMS")


def test_a_link_out_of_the_folder_is_refused_unless_it_is_left_out(store: Store) -> None:
    (store.src / "secret").symlink_to("/etc/passwd")
    (store.src / "inside").symlink_to("readme")
    with pytest.raises(RankzeroError, match="secret is a link to a path outside of the folder, /etc/passwd"):
        store.ensure()
    store.ensure(exclude=["secret"])
    assert (store.link / "inside").read_text() == "hello" and not (store.link / "inside").is_symlink()


def test_no_room_is_said_before_a_byte_moves(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.root.mkdir()
    real = os.statvfs(store.root)

    class Full:
        f_bavail, f_frsize, f_files, f_favail = 1, real.f_frsize, real.f_files, real.f_favail

    monkeypatch.setattr(stage.os, "statvfs", lambda _path: Full)
    with pytest.raises(RankzeroError, match=r"store_root: 11 bytes are needed below .* 67 MB are missing"):
        store.ensure()
    Full.f_bavail, Full.f_favail = 1 << 30, 2
    with pytest.raises(RankzeroError, match=r"3 files are to be made below .* room for 2: 1 are missing"):
        store.ensure()


def test_a_cut_copy_goes_on_where_it_was(store: Store) -> None:
    options = store.options()
    first = ensure_dataset(options, check_mode=True)
    parts = Parts(f"{place_for(options).partial}/parts")
    [item] = Local(options["src"]).listing(lambda name: name == "train/a.txt")
    Path(parts.growing(item)).write_text("aaa")
    result = store.ensure()
    assert result["moved"] == 11 - 3
    assert result["ref"]["digest"] == first["ref"]["digest"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "../x"}, "name: '../x' cannot name a dataset"),
        ({"src": None}, "src: is missing"),
        ({"src": "relative/path"}, "src: 'relative/path' is not an absolute path"),
        ({"src": "/nowhere/at/all"}, "src: /nowhere/at/all is not on this host"),
        ({"files": ["x"]}, "files: requires source http; source is cluster"),
        ({"revision": "main"}, "revision: requires source hub"),
        ({"sha256": "abc"}, "sha256: 'abc'"),
        ({"sha256": "a" * 64}, "sha256: is that of one file, and src has 3"),
        ({"sha256": "a" * 64, "checksums": "S"}, "give only one of them"),
        ({"dest": "relative"}, "dest: 'relative' is not an absolute path"),
        ({"store_root": "relative"}, "store_root: 'relative' is not an absolute path"),
    ],
)
def test_bad_options(store: Store, changes: Options, message: str) -> None:
    with pytest.raises(RankzeroError) as raised:
        store.ensure(**changes)
    assert message in str(raised.value)


def test_a_record_that_cannot_be_read_is_none(store: Store) -> None:
    store.ensure()
    place = place_for(store.options())
    Path(place.record).write_text("{")
    assert read_record(place) is None
    assert store.ensure()["changed"] and read_record(place) is not None
    manifest = Path(os.path.realpath(place.link)).parent / "dataset.json"
    manifest.write_text("{}")
    assert read_manifest(place, manifest.parent.name) is None
    assert store.ensure()["changed"] and read_manifest(place, manifest.parent.name) is not None
