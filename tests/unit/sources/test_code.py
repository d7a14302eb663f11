# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import io
import os
import socket
import subprocess
import tarfile
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import digest, read_tree
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import (
    Chosen,
    Snapshot,
    matcher,
    pack,
    take_snapshot,
)

ODD = "a b/ü 'q' \"d\" $(x)\n.py"


def git(folder: Path, *arguments: str) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "T",
        "GIT_AUTHOR_EMAIL": "t@example.org",
        "GIT_COMMITTER_NAME": "T",
        "GIT_COMMITTER_EMAIL": "t@example.org",
    }
    command = ["git", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout


def put(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def paths(snapshot: Snapshot) -> list[str]:
    return [entry.path for entry in snapshot.files]


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    root = tmp_path / "plain"
    put(root, "train.py", "print(1)\n")
    put(root, "lib/a.py", "a = 1\n")
    put(root, ODD, "odd\n")
    (root / "run.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    (root / "run.sh").chmod(0o755)
    (root / "latest").symlink_to("lib/a.py")
    return root


@pytest.fixture
def repository(plain: Path) -> Path:
    git(plain, "init", "-q")
    put(plain, ".gitignore", "*.log\n/secret/\n")
    git(plain, "add", ".")
    git(plain, "commit", "-q", "-m", "first")
    return plain


def test_golden_digest(tmp_path: Path) -> None:
    # The digest is part of launch keys: an upgrade of the collection must not change it.
    put(tmp_path, "train.py", "print(1)\n")
    put(tmp_path, "lib/a.py", "a = 1\n")
    (tmp_path / "train.py").chmod(0o755)
    (tmp_path / "link").symlink_to("lib/a.py")
    assert take_snapshot(str(tmp_path)).digest == "4660fb173bb89b3a3387f6b5cb28415293712b7ac8caf77141aa9af0cec50730"


def test_files_of_a_plain_folder(plain: Path) -> None:
    snapshot = take_snapshot(str(plain))
    assert paths(snapshot) == sorted(["train.py", "lib/a.py", ODD, "run.sh", "latest"])
    assert {entry.path: entry.kind for entry in snapshot.files}["run.sh"] == "x"
    assert {entry.path: entry.kind for entry in snapshot.files}["latest"] == "l"
    assert (snapshot.commit, snapshot.branch, snapshot.dirty, snapshot.diff_digest) == (None, None, False, None)
    assert snapshot.size == sum(entry.size for entry in snapshot.files)


def test_digest_ignores_times_umask_place_and_empty_folders(plain: Path, tmp_path: Path) -> None:
    before = take_snapshot(str(plain)).digest
    os.utime(plain / "train.py", (1, 1))
    (plain / "train.py").chmod(0o600)
    (plain / "empty").mkdir()
    moved = tmp_path / "elsewhere"
    plain.rename(moved)
    assert take_snapshot(str(moved)).digest == before


@pytest.mark.parametrize("change", ["content", "name", "mode", "target", "kind", "added", "removed"])
def test_digest_sees_every_change(plain: Path, change: str) -> None:
    before = take_snapshot(str(plain)).digest
    if change == "content":
        put(plain, "lib/a.py", "a = 2\n")
    elif change == "name":
        (plain / "lib/a.py").rename(plain / "lib/b.py")
    elif change == "mode":
        (plain / "train.py").chmod(0o755)
    elif change == "target":
        (plain / "latest").unlink()
        (plain / "latest").symlink_to("train.py")
    elif change == "kind":
        (plain / "latest").unlink()
        put(plain, "latest", "lib/a.py")
    elif change == "added":
        put(plain, "new.py", "")
    else:
        (plain / "run.sh").unlink()
    assert take_snapshot(str(plain)).digest != before


def test_debris_of_runs_and_tools_changes_nothing(plain: Path) -> None:
    before = take_snapshot(str(plain)).digest
    for name in ("runs/a/rank-0.log", ".ansible/x", "train.retry", "lib/__pycache__/a.pyc", ".venv/bin/python"):
        put(plain, name, "debris")
    assert take_snapshot(str(plain)).digest == before
    put(plain, "lib/runs/code.py", "kept")
    assert "lib/runs/code.py" in paths(take_snapshot(str(plain)))


def test_a_socket_is_no_code(tmp_path: Path) -> None:
    put(tmp_path, "a.py", "")
    listener = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    try:
        os.chdir(tmp_path)  # the name of a socket is short by nature
        listener.bind("s")
    finally:
        os.chdir(here)
        listener.close()
    assert paths(take_snapshot(str(tmp_path))) == ["a.py"]


def test_git_and_plain_agree_on_the_digest(repository: Path, tmp_path: Path) -> None:
    inside = take_snapshot(str(repository))
    exported = tmp_path / "export"
    exported.mkdir()
    git(repository, "archive", "-o", str(tmp_path / "a.tar"), "HEAD")
    with tarfile.open(tmp_path / "a.tar") as archive:
        archive.extractall(exported)
    assert take_snapshot(str(exported)).digest == inside.digest


def test_clean_repository(repository: Path) -> None:
    put(repository, "x.log", "ignored by git")
    snapshot = take_snapshot(str(repository))
    assert snapshot.commit == git(repository, "rev-parse", "HEAD").strip()
    assert snapshot.branch == "main"
    assert not snapshot.dirty
    assert "x.log" not in paths(snapshot)
    assert set(snapshot.facts()) == {
        "src", "digest", "files", "bytes", "commit", "branch", "dirty", "changed", "diff_digest"
    }  # fmt: skip


def test_uncommitted_changes_are_shipped_and_recorded(repository: Path) -> None:
    clean = take_snapshot(str(repository))
    put(repository, "lib/a.py", "a = 2\n")
    put(repository, "new file.py", "new\n")
    put(repository, "staged.py", "staged\n")
    git(repository, "add", "staged.py")
    (repository / "run.sh").unlink()
    put(repository, "secret/token", "git ignores this")
    dirty = take_snapshot(str(repository))
    assert dirty.changed == ("lib/a.py", "new file.py", "run.sh", "staged.py")
    assert dirty.commit == clean.commit
    assert dirty.digest != clean.digest
    assert "run.sh" not in paths(dirty)
    assert {"new file.py", "staged.py"} <= set(paths(dirty))
    first = dirty.diff_digest
    assert first is not None
    put(repository, "lib/a.py", "a = 3\n")
    assert take_snapshot(str(repository)).diff_digest not in (first, None)


def test_debris_does_not_make_a_repository_dirty(repository: Path) -> None:
    before = take_snapshot(str(repository))
    put(repository, "runs/x.log2", "fetched")
    put(repository, ".venv/bin/python", "x")
    assert take_snapshot(str(repository)) == before


def test_tracked_debris_is_code(repository: Path) -> None:
    put(repository, "runs/keep.py", "tracked\n")
    git(repository, "add", "-f", "runs/keep.py")
    assert "runs/keep.py" in paths(take_snapshot(str(repository)))
    assert "runs/keep.py" not in paths(take_snapshot(str(repository), Chosen(("/runs/",))))


def test_subfolder_of_a_repository(repository: Path) -> None:
    put(repository, "train.py", "changed outside\n")
    snapshot = take_snapshot(str(repository / "lib"))
    assert paths(snapshot) == ["a.py"]
    assert snapshot.commit
    assert not snapshot.dirty
    put(repository, "lib/a.py", "changed inside\n")
    assert take_snapshot(str(repository / "lib")).changed == ("a.py",)


def test_folder_that_git_ignores_is_plain(repository: Path) -> None:
    put(repository, "secret/a.py", "x")
    snapshot = take_snapshot(str(repository / "secret"))
    assert (paths(snapshot), snapshot.commit) == (["a.py"], None)


def test_repository_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    put(tmp_path, "a.py", "")
    snapshot = take_snapshot(str(tmp_path))
    assert (paths(snapshot), snapshot.commit, snapshot.dirty) == (["a.py"], None, True)


def add_submodule(repository: Path, tmp_path: Path) -> Path:
    """Another repository, committed as the submodule third/dep."""
    other = tmp_path / "other"
    put(other, "dep.py", "d\n")
    git(other, "init", "-q")
    git(other, "add", ".")
    git(other, "commit", "-q", "-m", "dep")
    git(repository, "submodule", "--quiet", "add", str(other), "third/dep")
    git(repository, "commit", "-q", "-m", "sub")
    return other


def test_submodule_and_nested_repository(repository: Path, tmp_path: Path) -> None:
    other = add_submodule(repository, tmp_path)
    assert "third/dep/dep.py" in paths(take_snapshot(str(repository)))
    assert not take_snapshot(str(repository)).dirty
    put(repository, "third/dep/dep.py", "changed\n")
    assert "third/dep/dep.py" in take_snapshot(str(repository)).changed
    git(repository, "clone", "-q", str(other), "nested")
    assert "nested/dep.py" in paths(take_snapshot(str(repository)))


def test_submodule_that_was_not_initialised(repository: Path, tmp_path: Path) -> None:
    add_submodule(repository, tmp_path)
    git(tmp_path, "clone", "-q", str(repository), "clone")
    assert "third/dep/dep.py" not in paths(take_snapshot(str(tmp_path / "clone")))


def test_git_variables_of_a_hook_do_not_mislead(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = take_snapshot(str(repository))
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nonexistent")
    assert take_snapshot(str(repository)) == before


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("*.log", ["a.log", "x/y/a.log", "a.log/inside"], ["a.logs", "log"]),
        ("data", ["data", "data/x", "a/data/x"], ["datum", "xdata"]),
        ("data/", ["data/x", "a/data/x"], ["data"]),
        ("/data/", ["data/x"], ["a/data/x"]),
        ("/jobs", ["jobs", "jobs/a.yml"], ["x/jobs"]),
        ("docs/*.md", ["docs/a.md"], ["docs/x/a.md", "a/docs/a.md"]),
        ("docs/**/*.md", ["docs/a.md", "docs/x/y/a.md"], ["a.md"]),
        ("**/big", ["big", "a/b/big"], ["bigger"]),
        ("out/**", ["out/a", "out/a/b"], ["out"]),
        ("a?c", ["abc"], ["a/c", "ac"]),
        ("[ab].py", ["a.py"], ["c.py"]),
        ("[!ab].py", ["c.py"], ["a.py"]),
        ("a+b(1).py", ["a+b(1).py"], ["aab1.py"]),
    ],
)
def test_patterns(pattern: str, matching: list[str], other: list[str]) -> None:
    test = matcher([pattern])
    assert [path for path in matching if not test(path)] == []
    assert [path for path in other if test(path)] == []


@pytest.mark.parametrize("pattern", ["", " ", "/", "!keep.py"])
def test_unusable_patterns(pattern: str, tmp_path: Path) -> None:
    put(tmp_path, "a", "")
    with pytest.raises(RankzeroError, match=r"code\.exclude"):
        take_snapshot(str(tmp_path), Chosen((pattern,)))


def test_exclude(plain: Path, repository: Path) -> None:
    put(repository, "lib/a.py", "changed\n")
    snapshot = take_snapshot(str(repository), Chosen(("lib/", "*.sh")))
    assert paths(snapshot) == sorted([".gitignore", "latest", ODD, "train.py"])
    assert not snapshot.dirty


@pytest.mark.parametrize("src", ["missing", "file"])
def test_source_must_be_a_folder(tmp_path: Path, src: str) -> None:
    put(tmp_path, "file", "")
    with pytest.raises(RankzeroError, match=r"code\.src: .* is not a folder on the controller"):
        take_snapshot(str(tmp_path / src))


def test_nothing_left_to_ship(plain: Path) -> None:
    with pytest.raises(RankzeroError, match="contains no file to send"):
        take_snapshot(str(plain), Chosen(("*",)))


def test_pack_is_deterministic_and_complete(plain: Path, tmp_path: Path) -> None:
    first, second = io.BytesIO(), io.BytesIO()
    pack(take_snapshot(str(plain)), first)
    os.utime(plain / "train.py", (1, 1))
    (plain / "train.py").chmod(0o640)
    moved = tmp_path / "moved"
    plain.rename(moved)
    pack(take_snapshot(str(moved)), second)
    assert first.getvalue() == second.getvalue()
    first.seek(0)
    out = tmp_path / "out"
    with tarfile.open(fileobj=first, mode="r:gz") as archive:
        assert {member.mtime for member in archive} == {0}
        archive.extractall(out)
    assert digest(read_tree(str(out))) == take_snapshot(str(moved)).digest


@pytest.mark.parametrize("text", ["print(0)\n", "print(1)\n# and more\n", ""])
def test_a_file_that_changed_meanwhile_is_named(plain: Path, text: str) -> None:
    put(plain, "train.py", "print(1)\n")
    snapshot = take_snapshot(str(plain))
    put(plain, "train.py", text)
    with pytest.raises(RankzeroError, match=r"/train\.py changed while it was packed"):
        pack(snapshot, io.BytesIO())
