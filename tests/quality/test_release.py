# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make release` in a checkout of its own: all of it, or nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.repository import BIN

ADDRESS = "https://code.example/rankzero/slurm"
CHECK = ("tests/quality/test_publication.py", "-k", "address")


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
    return subprocess.run(("git", *who, *words), cwd=folder, capture_output=True, text=True, check=True).stdout


def release(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    names = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
    return subprocess.run(
        ("scripts/release", *words),
        cwd=folder,
        env={**os.environ, **dict.fromkeys(names, "nobody")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def checkout(exported_collection: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit, whose environment is that of these tests."""
    folder = tmp_path_factory.mktemp("release") / "checkout"
    shutil.copytree(exported_collection, folder)
    (folder / "scripts/bootstrap").write_text("#!/bin/sh\n", encoding="utf-8")
    (folder / ".venv").symlink_to(BIN.parent)
    link = folder / ".cache/collections/ansible_collections/rankzero/slurm"
    link.parent.mkdir(parents=True)
    link.symlink_to(folder)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "all")
    return folder


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("1.0",), "VERSION=1.0 is no version"),
        (("1.0.0-next",), "VERSION=1.0.0-next is no version"),
        (("1.0.0", "code.example"), "REPOSITORY=code.example is no https://"),
        (("1.0.0",), "no public address yet: REPOSITORY="),
    ],
)
def test_a_wrong_wish_changes_nothing(checkout: Path, words: tuple[str, ...], message: str) -> None:
    done = release(checkout, *words)
    assert done.returncode == 2 and message in done.stderr
    assert not git(checkout, "status", "--porcelain")


def test_changes_are_not_taken_along(checkout: Path) -> None:
    note = checkout / "note.txt"
    note.write_text("mine\n", encoding="utf-8")
    done = release(checkout, "1.0.0", ADDRESS)
    note.unlink()
    assert done.returncode == 2 and "the checkout has changes" in done.stderr


@pytest.mark.more
def test_a_check_that_fails_leaves_the_checkout_as_it_was(checkout: Path) -> None:
    before = git(checkout, "rev-parse", "HEAD")
    done = release(checkout, "1.0.0", ADDRESS, CHECK[0], "-k", "no test has this name")
    assert done.returncode == 2 and "the checkout is as before" in done.stderr, done.stdout + done.stderr
    assert not git(checkout, "status", "--porcelain") and git(checkout, "rev-parse", "HEAD") == before
    assert not git(checkout, "tag")


@pytest.mark.more
def test_a_release_has_version_address_changelog_artefacts_and_tag(checkout: Path) -> None:
    done = release(checkout, "1.0.0-rc.1", ADDRESS, *CHECK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert git(checkout, "tag").split() == ["v1.0.0-rc.1"] and not git(checkout, "status", "--porcelain")
    galaxy = yaml.safe_load((checkout / "galaxy.yml").read_text(encoding="utf-8"))
    assert (galaxy["version"], galaxy["repository"]) == ("1.0.0-rc.1", ADDRESS)
    placeholder = subprocess.run(["git", "grep", "-l", "https://rankzero[.]invalid"], cwd=checkout, check=False)
    assert placeholder.returncode == 1, "a file has the placeholder still"
    changes = yaml.safe_load((checkout / "changelogs/changelog.yaml").read_text(encoding="utf-8"))
    assert list(changes["releases"]) == ["1.0.0-rc.1"] and not list(checkout.glob("changelogs/fragments/*"))
    assert "v1.0.0-rc.1" in (checkout / "CHANGELOG.rst").read_text(encoding="utf-8")
    built = sorted(path.name for path in (checkout / "build").glob("rankzero-*"))
    assert built == ["rankzero-1.0.0rc1-py3-none-any.whl", "rankzero-slurm-1.0.0-rc.1.tar.gz"]
