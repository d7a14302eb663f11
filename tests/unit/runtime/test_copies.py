# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What staging works with: an archive that is the same wherever it is made, and a node's own disk."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.runtime.harness import tree

# --- the archive


def test_the_same_content_makes_the_same_archive_wherever_it_lies(parts: dict[str, ModuleType], tmp_path: Path) -> None:
    made = []
    for number in (0, 1):
        root = tree(tmp_path / f"place{number}" / "tree", number)
        made.append(parts["pack"].pack(str(root), str(tmp_path / f"{number}.tar")))
    assert (tmp_path / "0.tar").read_bytes() == (tmp_path / "1.tar").read_bytes()
    assert made[0]["sha256"] == made[1]["sha256"] == parts["pack"].file_sha256(str(tmp_path / "0.tar"))
    assert made[0]["bytes"] == (tmp_path / "0.tar").stat().st_size


def test_what_is_unpacked_is_what_was_packed(parts: dict[str, ModuleType], tmp_path: Path) -> None:
    root, copy = tree(tmp_path / "tree"), tmp_path / "copy"
    parts["pack"].pack(str(root), str(tmp_path / "tar"))
    parts["pack"].unpack(str(tmp_path / "tar"), str(copy))
    found = {path.relative_to(copy).as_posix() for path in copy.rglob("*")}
    assert found == {path.relative_to(root).as_posix() for path in root.rglob("*")}
    assert (copy / "b/deep/file").read_text(encoding="utf-8") == (root / "b/deep/file").read_text(encoding="utf-8")
    assert os.access(copy / "run", os.X_OK) and not os.access(copy / "a", os.X_OK)
    links = {name: os.readlink(copy / name) for name in ("out", "dangling", "b/back")}
    # A link to a place in the folder itself would lead back to where the folder was.
    assert links == {"out": "/usr/bin/env", "dangling": "nowhere", "b/back": "../a"}


def test_only_an_archive_that_is_kept_and_shrinks_is_compressed(parts: dict[str, ModuleType], tmp_path: Path) -> None:
    root, noise = tree(tmp_path / "tree"), tmp_path / "noise"
    noise.mkdir()
    (noise / "noise").write_bytes(os.urandom(100_000))
    sent = parts["pack"].pack(str(root), str(tmp_path / "sent"))
    for name, folder, shrinks in (("text", root, True), ("noise", noise, False)):
        archive = tmp_path / f"kept-{name}"
        made = parts["pack"].pack(str(folder), str(archive), kept=True)
        assert (archive.read_bytes()[:2] == b"\x1f\x8b") is shrinks
        parts["pack"].unpack(str(archive), str(tmp_path / f"copy-{name}"))
        assert (made["bytes"] < sent["bytes"]) is shrinks


def test_a_kept_archive_is_made_once_and_anew_where_it_is_not_whole(
    parts: dict[str, ModuleType], tmp_path: Path
) -> None:
    root, archive = tree(tmp_path / "tree"), tmp_path / "archives" / "code-1.tar"
    old = tmp_path / "archives" / "code-1.tar.host-1.tmp"
    old.parent.mkdir()
    old.write_text("of a packer that was killed")
    os.utime(old, (0, 0))
    first = parts["pack"].keep(str(root), str(archive))
    assert sorted(path.name for path in archive.parent.iterdir()) == ["code-1.tar", "code-1.tar.json"]
    (root / "later").write_text("a snapshot never changes: nobody looks again")
    assert parts["pack"].keep(str(root), str(archive)) == first == parts["pack"].kept(str(archive))
    (root / "later").unlink()
    archive.write_bytes(archive.read_bytes()[:-1])
    assert parts["pack"].kept(str(archive)) is None
    assert parts["pack"].keep(str(root), str(archive)) == first
    assert parts["pack"].file_sha256(str(archive)) == first["sha256"]


@pytest.mark.parametrize("how", ["cut", "garbled", "dishonest"])
def test_a_damaged_archive_is_an_error(parts: dict[str, ModuleType], tmp_path: Path, how: str) -> None:
    archive = tmp_path / "tar"
    if how == "dishonest":
        with tarfile.open(archive, "w") as made:
            made.addfile(tarfile.TarInfo("../outside"), io.BytesIO())
    else:
        root = tmp_path / "tree"
        root.mkdir()
        (root / "file").write_bytes(os.urandom(50_000))
        parts["pack"].pack(str(root), str(archive))
        content = archive.read_bytes()
        archive.write_bytes(content[:20_000] if how == "cut" else b"x" * 600 + content[600:])
    with pytest.raises((parts["pack"].Damaged, OSError)):
        parts["pack"].unpack(str(archive), str(tmp_path / "copy"))
    assert not (tmp_path / "outside").exists()


# --- the node's own disk


def test_a_disk_comes_before_memory_and_memory_only_with_room_for_the_job(
    disk: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {"/mem": (5_000, 99, "tmpfs: memory"), "/disk": (1_000, 99, "ext4"), "/net": (0, 99, "nfs4")}
    monkeypatch.setattr(disk, "room", lambda path, _limit: places[path])
    assert disk.choose([*places], 1_000, 9, 0) == "/disk"
    assert disk.choose([*places], 1_001, 9, 0) == "/mem"
    with pytest.raises(disk.Trouble) as error:
        disk.choose([*places], 6_000_000_000, 9, 0)
    text = str(error.value)
    assert "6.0 GB in 9 files are needed" in text
    assert "/mem (tmpfs: memory) has 0.0 MB; /disk (ext4) has 0.0 MB; /net (nfs4) has 0.0 MB" in text
    assert "launch_cluster.local_dir" in text
    places["/disk"] = (1_000, 3, "ext4")
    with pytest.raises(disk.Trouble, match=r"/disk .ext4. has 0\.0 MB and 3 files"):
        disk.choose(["/disk"], 1, 9, 0)


def test_memory_is_at_most_half_of_the_jobs(disk: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert disk.memory_room(2) == 1 << 20
    assert 0 < disk.memory_room(0) <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    monkeypatch.setattr(disk, "file_system", lambda _path: "tmpfs")
    assert disk.room("/tmp", 2)[0] <= 1 << 20
    for kind in ("nfs4", "lustre", "fuse.sshfs"):
        monkeypatch.setattr(disk, "file_system", lambda _path, kind=kind: kind)
        assert disk.room("/tmp", 0)[0] == 0
    assert disk.room("/nowhere/at/all", 0) == (0, -1, "no folder that may be written")


def test_the_type_of_a_file_system_is_that_of_the_innermost_mount(disk: ModuleType) -> None:
    assert disk.file_system("/proc/self") == "proc"
    assert disk.file_system("/dev/shm/nowhere") in ("tmpfs", "devtmpfs")


def test_candidates_are_the_sites_own_or_the_usual_ones(disk: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_TMPDIR", raising=False)
    monkeypatch.setenv("TMPDIR", "/scratch/7/")
    assert disk.candidates("/local", "/slurm") == ["/local"]
    assert disk.candidates("", "/slurm") == ["/scratch/7", "/slurm", "/tmp", "/var/tmp"]


def test_the_last_one_takes_the_folder_with_it(disk: ModuleType, tmp_path: Path) -> None:
    first, second = (
        disk.Home(
            str(tmp_path),
        ),
        disk.Home(str(tmp_path)),
    )
    folder = Path(first.path)
    assert folder.name.startswith(f"rankzero-{os.getuid()}-7-") and folder.stat().st_mode & 0o777 == 0o700
    locked = folder / "copy" / "read-only"
    locked.mkdir(parents=True)
    (locked / "file").touch()
    locked.chmod(0o500)
    first.leave()
    assert (locked / "file").exists()
    second.leave()
    assert not folder.exists()


def test_leftovers_of_dead_jobs_are_swept_and_nothing_else(
    disk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive = disk.Home(str(tmp_path))
    dead = tmp_path / f"rankzero-{os.getuid()}-6-00000000"
    (dead / "environment.copy" / "tree").mkdir(parents=True)
    (dead / "lock").touch()
    somebody = tmp_path / f"rankzero-{os.getuid() + 1}-6-00000000"
    somebody.mkdir()
    (tmp_path / f"rankzero-{os.getuid()}-link").symlink_to(somebody)
    assert disk.sweep([str(tmp_path), "/nowhere/at/all"]) == [str(dead)]
    assert not dead.exists() and somebody.exists() and Path(alive.path).exists()
    alive.leave()
    # A requeued job finds what its own killed attempt left: nothing of that is used.
    left = Path(disk.Home(str(tmp_path)).path)
    monkeypatch.setattr(disk.fcntl, "flock", lambda *_: None)
    (left / "environment.copy").mkdir()
    assert [path.name for path in Path(disk.Home(str(tmp_path)).path).iterdir()] == ["lock"]


def test_somebody_elses_folder_is_not_used(disk: ModuleType, tmp_path: Path) -> None:
    squatted = tmp_path / disk.name()
    squatted.symlink_to("/")
    with pytest.raises(disk.Trouble, match=rf"{disk.name()} is a link of .*{os.getuid()}"):
        disk.Home(str(tmp_path))
    squatted.unlink()
    squatted.touch()
    with pytest.raises(disk.Trouble, match=rf"{disk.name()} is a file of .*{os.getuid()}"):
        disk.Home(str(tmp_path))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder for another user")
def test_another_users_folder_is_named_with_its_owner(disk: ModuleType, tmp_path: Path) -> None:
    squatted = tmp_path / disk.name()
    squatted.mkdir(mode=0o777)
    (squatted / "kept").touch()
    os.chown(squatted, 54321, 54321)
    with pytest.raises(disk.Trouble, match=rf"{disk.name()} is a folder of user 54321"):
        disk.Home(str(tmp_path))
    os.utime(squatted, (0, 0))
    assert disk.sweep([str(tmp_path)]) == [] and (squatted / "kept").exists()
    os.chown(tmp_path, 54321, 54321)
    with pytest.raises(disk.Trouble, match="belongs to user 54321, who could replace"):
        disk.Home(str(tmp_path))


def test_a_place_where_others_could_replace_a_folder_is_left_out(disk: ModuleType, tmp_path: Path) -> None:
    place = tmp_path / "open" / "below"
    place.mkdir(parents=True)
    place.parent.chmod(0o777)
    with pytest.raises(disk.Trouble, match=r"no sticky bit .mode 777"):
        disk.Home(str(place))
    assert disk.room(str(place), 0)[0] == 0
    with pytest.raises(disk.Trouble, match="no sticky bit"):
        disk.choose([str(place)], 1, 1, 0)
    (place / f"rankzero-{os.getuid()}-6-00000000").mkdir()
    assert disk.sweep([str(place)]) == []
    place.parent.chmod(0o1777)
    assert disk.room(str(place), 0)[0] > 0
    disk.Home(str(place)).leave()


def test_a_leftover_that_leads_elsewhere(disk: ModuleType, tmp_path: Path) -> None:
    """Links and second names in a leftover go, and what they lead to stays. A lock that is a link is not opened."""
    outside = tmp_path / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "file").write_text("as it was", encoding="utf-8")
    (outside / "folder").chmod(0o500)
    place = tmp_path / "place"
    left = place / f"rankzero-{os.getuid()}-6-00000000" / "tree"
    left.mkdir(parents=True)
    (left / "link").symlink_to(outside)
    os.link(outside / "file", left / "second")
    (left.parent / "lock").symlink_to(outside / "made")
    assert disk.sweep([str(place)]) == [], "its lock cannot be taken"
    (left.parent / "lock").unlink()
    assert disk.sweep([str(place)]) == [str(left.parent)]
    assert sorted(os.listdir(outside)) == ["file", "folder"] and list(place.iterdir()) == []
    assert (outside / "file").read_text(encoding="utf-8") == "as it was"
    assert (outside / "folder").stat().st_mode & 0o777 == 0o500
