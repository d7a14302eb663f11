# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names, links, pipes and owners in a work tree and its repository that lead where they should not."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import provenance
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import take_snapshot
from tests.unit.sources.trap import FILES, Trap, git


def _renamed_in_index(folder: Path, old: bytes, new: bytes) -> None:
    """Give a file of the index a name that git itself would not take."""
    path = folder / ".git/index"
    body = path.read_bytes()[:-20].replace(old, new)
    path.write_bytes(body + hashlib.sha1(body, usedforsecurity=False).digest())


@pytest.mark.parametrize("name", [b"../other", b".git/abc", b"./../../"])
def test_a_name_in_the_index_leads_nowhere_else(name: bytes, trap: Trap) -> None:
    (trap.place / "other").write_text("secret\n")
    folder = trap.repository(trap.top)
    (folder / "xxxxxxxx").write_text("secret\n")
    git(folder, "add", "xxxxxxxx")
    (folder / "xxxxxxxx").unlink()
    _renamed_in_index(folder, b"xxxxxxxx", name)
    snapshot = take_snapshot(str(folder))
    assert [entry.path for entry in snapshot.files] == sorted(FILES)
    assert "secret" not in provenance.diff(snapshot)


def test_a_tracked_folder_that_became_a_link_is_not_followed(trap: Trap) -> None:
    (trap.place / "outside").mkdir()
    (trap.place / "outside/c.txt").write_text("secret\n")
    folder = trap.repository(trap.top)
    (folder / "dir/c.txt").unlink()
    (folder / "dir").rmdir()
    (folder / "dir").symlink_to(trap.place / "outside")
    snapshot = take_snapshot(str(folder))
    assert {entry.path: entry.kind for entry in snapshot.files}["dir"] == "l"
    assert "dir/c.txt" not in {entry.path for entry in snapshot.files}
    assert "dir/c.txt" in snapshot.changed
    assert "secret" not in provenance.diff(snapshot)


def test_a_submodule_that_became_a_link_is_not_followed(trap: Trap) -> None:
    folder = trap.repository(trap.top)
    other = trap.repository(trap.place / "other")
    git(folder, "submodule", "--quiet", "add", str(other), "third")
    git(folder, "commit", "-q", "-m", "second")
    (folder / "third").rename(trap.place / "moved")
    (folder / "third").symlink_to(other)
    assert "third/b.txt" not in {entry.path for entry in take_snapshot(str(folder)).files}


@pytest.mark.parametrize("src", [".git", ".git/refs"])
def test_git_s_own_folder_is_no_code(src: str, trap: Trap) -> None:
    """What a CI system writes into it may hold its token."""
    folder = trap.repository(trap.top)
    with pytest.raises(RankzeroError, match="a folder of git's own"):
        take_snapshot(str(folder / src))


@pytest.mark.parametrize("name", ["index", "packed-refs", "sharedindex.x"])
def test_a_pipe_in_a_repository_is_not_waited_for(name: str, trap: Trap) -> None:
    folder = trap.repository(trap.top)
    path = folder / ".git" / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    trap.look(folder)
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.parametrize("name", ["HEAD", "config", "info/exclude"])
def test_a_pipe_in_place_of_a_small_file_is_refused(name: str, trap: Trap) -> None:
    folder = trap.repository(trap.top)
    path = folder / ".git" / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with pytest.raises(RankzeroError, match=f"{name} cannot be read: is not a regular file"):
        take_snapshot(str(folder))


def test_a_repository_of_somebody_else_is_refused(trap: Trap, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a planted /tmp/.git would be: whoever owns it could leave out or add files."""
    (trap.place / ".git").mkdir()
    git(trap.place, "init", "-q")
    (trap.place / "mine").mkdir()
    (trap.place / "mine/a.py").write_text("")
    real = os.lstat

    def lstat(path: str) -> os.stat_result:
        status = real(path)
        values = list(status)
        values[stat.ST_UID] = 4711
        return os.stat_result(values) if str(path) == str(trap.place / ".git") else status

    monkeypatch.setattr("ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.git.os.lstat", lstat)
    with pytest.raises(RankzeroError, match=r"git repository of another user .* belongs to uid 4711"):
        take_snapshot(str(trap.place / "mine"))


def test_a_git_file_that_names_nothing_is_refused(trap: Trap) -> None:
    trap.top.mkdir()
    (trap.top / "a.py").write_text("")
    (trap.top / ".git").write_text("gitdir: /nowhere\n")
    with pytest.raises(RankzeroError, match="does not lead to a git repository"):
        take_snapshot(str(trap.top))


def _lfs(folder: Path) -> None:
    digest = hashlib.sha256(b"large\n").hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize 6\n"
    (folder / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n*.bat text eol=crlf\n")
    (folder / "x.bin").write_text(pointer)
    (folder / "x.bat").write_bytes(b"one\r\ntwo\r\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "pointer")
    (folder / "x.bin").write_text("large\n")


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        (None, ()),
        (lambda folder: (folder / "x.bin").write_text("other\n"), ("x.bin",)),
        (lambda folder: (folder / "x.bat").write_bytes(b"one\r\n2\r\n"), ("x.bat",)),
    ],
    ids=["as committed", "large file", "text"],
)
def test_files_that_git_stores_converted_are_compared_without_a_filter(
    change: Callable[[Path], object] | None, changed: tuple[str, ...], trap: Trap
) -> None:
    folder = trap.top
    folder.mkdir()
    git(folder, "init", "-q")
    _lfs(folder)
    trap.configure(folder, {"filter.lfs.clean": trap.payload("clean"), "filter.lfs.process": trap.payload("process")})
    os.utime(folder / "x.bat", (1, 1))
    if change:
        change(folder)
    assert take_snapshot(str(folder)).changed == changed
    assert trap.sprung() == []


@pytest.mark.parametrize("claim", ["--assume-unchanged", "--skip-worktree"])
def test_what_the_index_claims_to_be_unchanged_is_compared(claim: str, trap: Trap) -> None:
    folder = trap.repository(trap.top)
    git(folder, "update-index", claim, "a.txt", "dir/c.txt")
    assert set(take_snapshot(str(folder)).changed) == set(FILES)
    # A file of a sparse checkout that is not there is no change.
    if claim == "--skip-worktree":
        (folder / "a.txt").unlink()
        assert set(take_snapshot(str(folder)).changed) == set(FILES) - {"a.txt"}


def _git_s_own_files(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes())
        for path in (folder / ".git").rglob("*")
        if path.is_file()
    }


def test_nothing_is_written_into_a_repository(trap: Trap) -> None:
    folder = trap.repository(trap.top)
    git(folder, "update-index", "--assume-unchanged", "b.txt")
    (folder / "a.txt").write_text("one\n")
    os.utime(folder / "a.txt", (1, 1))
    before = _git_s_own_files(folder)
    assert "+changed" in provenance.diff(take_snapshot(str(folder)))
    (folder / "new.txt").write_text("new\n")
    assert "+new" in provenance.diff(take_snapshot(str(folder)))
    assert _git_s_own_files(folder) == before


def test_attributes_choose_no_driver_for_the_diff(trap: Trap) -> None:
    folder = trap.repository(trap.top)
    (folder / ".gitattributes").write_text("* diff=cpp\n*.txt binary\n")
    assert "+changed" in provenance.diff(take_snapshot(str(folder)))
