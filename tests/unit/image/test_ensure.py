# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images in a store: built once, known by key, shared by content. The tools that write squashfs are real."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.image import files

Ensure = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.skipif(
    not shutil.which("tar2sqfs"), reason="tar2sqfs is not installed (package squashfs-tools-ng)"
)


def listing(image: str) -> str:
    return subprocess.run(["unsquashfs", "-ll", image], capture_output=True, text=True, check=True).stdout


def test_a_folder_and_its_tar_file_are_the_same_image(ensure: Ensure, rootfs: Path, tmp_path: Path) -> None:
    first = ensure(rootfs=str(rootfs), env={"A": "b"})
    assert first["changed"] and first["ref"]["present"]
    folder = Path(first["ref"]["path"])
    assert folder == tmp_path / "store" / "images" / first["ref"]["key"]
    assert first["files"] == {"sqsh": str(folder / "image.sqsh")}
    assert json.loads((folder / "image.json").read_text()) == first["image"]
    assert first["image"]["environment"] == {"A": "b"} and first["image"]["files"] == 7
    assert "drwxrwxrwt root/root" in listing(first["files"]["sqsh"])
    archive = tmp_path / "root.tar"
    with tarfile.open(archive, "w") as out:
        out.add(rootfs, ".")
    second = ensure(rootfs=str(archive), env={"A": "b"})
    assert second["ref"]["key"] != first["ref"]["key"] and second["ref"]["digest"] == first["ref"]["digest"]
    # One content is one file.
    known = tmp_path / "store" / "images" / "sha256" / f"{first['ref']['digest']}.sqsh"
    assert os.path.samefile(known, first["files"]["sqsh"]) and os.path.samefile(known, second["files"]["sqsh"])
    assert not (tmp_path / f"rankzero-images-{os.geteuid()}").exists()


def test_the_same_again_starts_nothing(
    ensure: Ensure, rootfs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ensure(rootfs=str(rootfs))

    def nothing(*_words: object, **_options: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", nothing)
    again = ensure(rootfs=str(rootfs))
    assert not again["changed"] and again["image"] == first["image"] and again["changes"] == []
    assert ensure(rootfs=str(rootfs), check_mode=True)["ref"] == first["ref"]


def test_check_mode_needs_only_the_key_and_says_what_changed(ensure: Ensure, rootfs: Path, tmp_path: Path) -> None:
    planned = ensure(check_mode=True, rootfs=str(rootfs), name="torch")
    assert planned["changed"] and not planned["ref"]["present"] and planned["changes"] == []
    assert planned["way"]["squash"].endswith("tar2sqfs")
    assert not (tmp_path / "store").exists()
    made = ensure(rootfs=str(rootfs), name="torch")
    assert {**made["ref"], "digest": None, "present": False} == planned["ref"]
    (rootfs / "data").write_text("2\n")
    changed = ensure(check_mode=True, rootfs=str(rootfs), name="torch", env={"A": "b"})
    assert changed["changes"] == ["env.A: added", "rootfs: changed"]
    assert "rootfs " in changed["diff"]["before"] and "env.A b" in changed["diff"]["after"]
    assert ensure(check_mode=True, rootfs=str(rootfs), name="other")["changes"] == []
    # Back to what was: known, and the last of this name from now on.
    (rootfs / "data").write_text("1\n")
    assert not ensure(rootfs=str(rootfs), name="torch")["changed"]


def test_what_was_asked_for_later_is_made_of_what_is_there(ensure: Ensure, rootfs: Path) -> None:
    first = ensure(rootfs=str(rootfs), env={"A": "b"})
    more = ensure(rootfs=str(rootfs), env={"A": "b"}, formats=["sqsh", "sif", "oci"])
    assert more["changed"] and more["image"] == first["image"] and set(more["files"]) == {"sqsh", "sif", "oci"}
    bundle = Path(more["files"]["oci"])
    config = json.loads((bundle / "config.json").read_text())
    assert config["process"]["env"] == ["A=b"] and config["root"]["path"] == "rootfs"
    assert (bundle / "rootfs" / "data").read_text() == "1\n" and (bundle / "rootfs" / "bin").readlink() == Path(
        "usr/bin"
    )
    sif, squashfs = Path(more["files"]["sif"]).read_bytes(), Path(more["files"]["sqsh"]).read_bytes()
    assert sif[32:41] == b"SIF_MAGIC" and sif.endswith(squashfs) and sif[files.SIF_DATA_AT :][:4] == b"hsqs"
    assert not ensure(rootfs=str(rootfs), env={"A": "b"}, formats=["oci"])["changed"]
    assert ensure(state="absent", key=first["ref"]["key"])["changed"]
    assert not Path(first["ref"]["path"]).exists()


def test_two_tools_each_write_the_same_every_time(
    ensure: Ensure, rootfs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shutil.which("mksquashfs"):
        pytest.skip("mksquashfs is not installed (package squashfs-tools)")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "mksquashfs").symlink_to(shutil.which("mksquashfs") or "")
    monkeypatch.setattr(
        "ansible_collections.rankzero.slurm.plugins.module_utils.image.host.search_path", lambda: str(tools)
    )
    digests = {ensure(rootfs=str(rootfs), store_root=str(tmp_path / name))["ref"]["digest"] for name in ("a", "b")}
    assert len(digests) == 1
    sidecar = ensure(rootfs=str(rootfs), store_root=str(tmp_path / "a"))["image"]
    assert sidecar["way"]["squash"].endswith("/mksquashfs") and "unpacked first" in sidecar["way"]["reasons"][0]


@pytest.mark.parametrize("compression", ["lz4", "gzip"])
def test_other_compressions(ensure: Ensure, rootfs: Path, compression: str) -> None:
    made = ensure(rootfs=str(rootfs), compression=compression)
    shown = subprocess.run(["unsquashfs", "-s", made["files"]["sqsh"]], capture_output=True, text=True, check=True)
    assert f"Compression {compression}" in shown.stdout
    assert "squashfs-root/data" in listing(made["files"]["sqsh"])


def test_an_image_that_was_damaged_is_made_anew(ensure: Ensure, rootfs: Path) -> None:
    first = ensure(rootfs=str(rootfs))
    image = Path(first["files"]["sqsh"])
    image.chmod(0o600)
    os.truncate(image, 100)
    again = ensure(rootfs=str(rootfs))
    assert again["changed"] and again["ref"]["digest"] == first["ref"]["digest"]
    assert image.stat().st_size == first["image"]["bytes"]


def test_an_image_is_removed_by_recipe_or_key_and_its_content_with_the_last(
    ensure: Ensure, rootfs: Path, tmp_path: Path
) -> None:
    one, two = ensure(rootfs=str(rootfs)), ensure(rootfs=str(rootfs), squashfs=None, packages=[])
    assert one["ref"] == two["ref"]
    adopted = ensure(squashfs=one["files"]["sqsh"])
    contents = tmp_path / "store" / "images" / "sha256"
    assert ensure(check_mode=True, state="absent", rootfs=str(rootfs))["changed"]
    assert ensure(state="absent", rootfs=str(rootfs))["changed"]
    assert len(list(contents.iterdir())) == 1 and adopted["ref"]["digest"] == one["ref"]["digest"]
    gone = ensure(state="absent", key=adopted["ref"]["key"])
    assert gone["changed"] and not gone["ref"]["present"] and not list(contents.iterdir())
    assert not ensure(state="absent", key=adopted["ref"]["key"])["changed"]
    with pytest.raises(RankzeroError, match=r"key: '..' is not a key of kind image"):
        ensure(state="absent", key="..")


def test_a_file_is_taken_over_as_it_is_or_refused(ensure: Ensure, rootfs: Path, tmp_path: Path) -> None:
    made = Path(ensure(rootfs=str(rootfs))["files"]["sqsh"])
    own = tmp_path / "own.sqsh"
    shutil.copy(made, own)
    taken = ensure(squashfs=str(own), name="own")
    assert taken["image"]["adopted"] == str(own) and taken["ref"]["digest"] == taken["image"]["inputs"]["squashfs"]
    os.chmod(own, 0o600)
    os.truncate(own, 200)
    with pytest.raises(RankzeroError, match=r"squashfs: .* is truncated: 200 bytes of"):
        ensure(squashfs=str(own))
    own.write_text("text")
    with pytest.raises(RankzeroError, match="is not a squashfs file"):
        ensure(squashfs=str(own))
    with pytest.raises(RankzeroError, match=r"squashfs: .*gone.sqsh cannot be read: No such file"):
        ensure(squashfs=str(tmp_path / "gone.sqsh"))
    with pytest.raises(RankzeroError, match=r"has neither index.json nor manifest.json"):
        ensure(reference=f"oci:{rootfs}")


def test_a_work_folder_that_is_no_good_is_named(ensure: Ensure, rootfs: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RankzeroError, match=r"work_dir: \S+/file/rankzero-images-\d+ cannot be written"):
        ensure(rootfs=str(rootfs), work_dir=str(tmp_path / "file"))


def test_it_is_marked_as_used(ensure: Ensure, rootfs: Path, tmp_path: Path) -> None:
    key = ensure(rootfs=str(rootfs))["ref"]["key"]
    mark = tmp_path / "store" / "used" / "images" / key
    os.utime(mark, (0, 0))
    ensure(rootfs=str(rootfs))
    assert mark.stat().st_mtime > 0
