# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Uncommitted changes: refused with their names, or kept as a diff."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources import provenance
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.code import Chosen, take_snapshot
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.kept_snapshots import Snapshots


def git(folder: Path, *arguments: str) -> None:
    identity = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    names = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *names, *arguments], cwd=folder, check=True, env={**os.environ, **identity})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    inner = tmp_path / "inner"
    root = tmp_path / "project"
    for folder in (inner, root):
        folder.mkdir()
        git(folder, "init", "--quiet")
        (folder / "a.py").write_text("a = 1\n")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", "first")
    git(root, "submodule", "--quiet", "add", str(inner), "third")
    (root / "secret.txt").write_text("old\n")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "second")
    return root


def change(root: Path) -> None:
    (root / "a.py").write_text("a = 2\n")
    (root / "third" / "a.py").write_text("a = 3\n")
    (root / "new [file].py").write_text("new\n")
    (root / "secret.txt").write_text("token\n")


def test_a_clean_tree_is_taken_and_has_no_diff(repository: Path) -> None:
    snapshot = take_snapshot(str(repository))
    provenance.refuse_changes(snapshot)
    assert provenance.diff(snapshot) == ""


def test_the_diff_shows_changes_new_files_and_submodules_but_nothing_excluded(repository: Path) -> None:
    change(repository)
    shown = provenance.diff(take_snapshot(str(repository), Chosen(("secret.txt",))))
    for text in ("--- a/a.py\n+++ b/a.py", "+a = 2", "+++ b/third/a.py", "+a = 3", "+++ b/new [file].py", "+new"):
        assert text in shown, shown
    assert "token" not in shown and "secret" not in shown


def test_a_subfolder_shows_its_own_changes(repository: Path) -> None:
    (repository / "sub").mkdir()
    (repository / "sub" / "b.py").write_text("b = 1\n")
    git(repository, "add", "sub")
    change(repository)
    shown = provenance.diff(take_snapshot(str(repository / "sub")))
    assert "+++ b/b.py" in shown and "a = 2" not in shown


def test_a_large_diff_is_cut(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "MOST_BYTES", 100)
    (repository / "a.py").write_text("x\n" * 1000)
    assert provenance.diff(take_snapshot(str(repository))).endswith("(cut here: the snapshot holds the files)\n")


def test_refused_changes_are_named(repository: Path, tmp_path: Path) -> None:
    change(repository)
    with pytest.raises(SpecError) as caught:
        provenance.refuse_changes(take_snapshot(str(repository), Chosen(("secret.txt",))))
    for text in ("code.dirty: refuse", "a.py", "new [file].py", "third/a.py", "code.exclude"):
        assert text in caught.value.message
    assert "secret" not in caught.value.message
    for number in range(30):
        (repository / f"n{number}").write_text("")
    with pytest.raises(SpecError, match=r"and 1\d more"):
        provenance.refuse_changes(take_snapshot(str(repository)))
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "a.py").write_text("")
    with pytest.raises(SpecError, match="at no commit"):
        provenance.refuse_changes(take_snapshot(str(plain)))


def test_every_kind_of_change_is_shown(repository: Path) -> None:
    (repository / "gone.py").write_text("gone = 1\n")
    (repository / "staged.py").write_text("staged = 1\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "third")
    (repository / "gone.py").unlink()
    (repository / "staged.py").write_text("staged = 2\n")
    git(repository, "add", "staged.py")
    (repository / "staged.py").write_text("staged = 3\n")
    (repository / "run.sh").write_text("#!/bin/sh\n")
    (repository / "run.sh").chmod(0o755)
    (repository / "link").symlink_to("a.py")
    (repository / "large.txt").write_text("x\n" * 1_000_000)
    fresh = repository / "fresh"
    fresh.mkdir()
    git(fresh, "init", "--quiet")
    (fresh / "b.py").write_text("b = 1\n")
    snapshot = take_snapshot(str(repository))
    assert snapshot.changed == ("fresh/b.py", "gone.py", "large.txt", "link", "run.sh", "staged.py")
    shown = provenance.diff(snapshot)
    for text in (
        "-gone = 1",
        "-staged = 1\n+staged = 3",
        "new file mode 100755",
        "new file mode 120000",
        "+++ b/fresh/b.py",
    ):
        assert text in shown, shown
    assert "/dev/null and b/large.txt differ" in shown and "+x" not in shown


def test_a_launch_opens_the_repository_once(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit, address and differences are facts of one look, also for a later task of the same command."""
    program, log = tmp_path / "bin" / "git", tmp_path / "asked"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho \"$*\" >> '{log}'\nexec '{shutil.which('git')}' \"$@\"\n")
    program.chmod(0o755)
    git(repository, "rm", "-r", "--quiet", "--cached", "third", ".gitmodules")
    git(repository, "commit", "--quiet", "-m", "without the submodule")
    for name in ("third", ".gitmodules"):
        (repository / name).rename(tmp_path / name)
    git(repository, "remote", "add", "origin", "https://user:secret@host/x?y")
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        for changed, most in ((False, 4), (True, 7)):
            if changed:
                (repository / "a.py").write_text("a = 2\n")
                (repository / "new.py").write_text("new\n")
            log.write_text("")
            first = Snapshots()
            known = first.known(first.snapshot_of(str(repository)))
            kept = Snapshots(first.save(str(tmp_path)))
            assert kept.known(kept.snapshot_of(str(repository))) == known
            asked = log.read_text().splitlines()
            assert 0 < len(asked) <= most, asked
            assert known[0] == "https://host/x" and ("+a = 2" in known[1]) == changed
