# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which launches belong to a folder of specs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile import register

SET = "https://git.example.org/ml/jobs.git:jobs"


def test_an_entry_is_found_again_and_by_its_own_set_alone(tmp_path: Path) -> None:
    root = str(tmp_path)
    assert register.entries(root, SET) == {}
    register.keep(root, SET, "gpt", "0123", {"commit": "abc", "file": "gpt.yml"})
    register.keep(root, SET, "gpt", "0123", {"commit": "def", "file": "gpt.yml"})
    register.keep(root, "another", "gpt", "0123", {"file": "gpt.yml"})
    assert list(register.entries(root, SET)) == [("gpt", "0123")]
    assert register.entries(root, SET)["gpt", "0123"]["commit"] == "def"
    (place,) = tmp_path.glob("sets/https-git.example.org-ml-jobs.git-jobs-*")
    assert not list(place.glob("**/*.tmp")) and place.parent.name == register.PLACE
    assert len(register.entries(root, "another")) == 1


def test_a_torn_entry_is_none(tmp_path: Path) -> None:
    root = str(tmp_path)
    register.keep(root, SET, "gpt", "0123", {})
    place = Path(register.folder(root, SET)) / "gpt"
    (place / "4567.json").write_text('{"set": ')
    (place / "notes.txt").write_text("")
    assert list(register.entries(root, SET)) == [("gpt", "0123")]


def test_sets_whose_names_differ_in_signs_only_have_folders_of_their_own(tmp_path: Path) -> None:
    assert register.folder("/s", "a/b") != register.folder("/s", "a-b")
    assert register.folder("/s", "../..").startswith("/s/sets/"), "no name leads out of the state root"
    assert len(Path(register.folder("/s", "x" * 500)).name) < 100


def test_a_state_root_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "sets").write_text("a file")
    with pytest.raises(RankzeroError, match="state_root: cannot write"):
        register.keep(str(tmp_path), SET, "gpt", "0123", {})
