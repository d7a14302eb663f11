# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A second launch that names the same folder of checkpoints: refused while the first one's job is active."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError, SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.checks import Checked
from tests.unit.submit.test_launch import Bench


class Two:
    """Two launches that share a Slurm and a folder."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "checkpoints"
        (root / "1").mkdir()
        (root / "2").mkdir()
        self.first, self.second = Bench(root / "1"), Bench(root / "2")
        self.second.cluster = self.first.cluster

    def launch(self, bench: Bench, **how: Any) -> dict[str, Any]:
        return bench.launch(checkpoint_dir=str(self.folder), **how)

    def left(self) -> list[str]:
        return sorted(os.listdir(self.folder / ".rankzero"))


@pytest.fixture
def two(tmp_path: Path) -> Two:
    return Two(tmp_path)


def test_while_the_first_waits_in_the_queue_the_second_is_refused_with_its_job(two: Two) -> None:
    assert two.launch(two.first)["submission"] == "submitted"
    for check_mode in (True, False):
        with pytest.raises(RankzeroError) as refused:
            two.launch(two.second, check_mode=check_mode)
        said = str(refused.value)
        assert said.startswith(f"checkpoint.dir: {two.folder} belongs to job 101 of ")
        assert "(job, generation 1 of key 0123456789abcdef; waiting), which is still active." in said
        assert said.endswith("Wait for its end, cancel it (scancel 101), or name another folder.")
    assert not two.second.runs.exists() or not os.listdir(two.second.runs)
    # The first itself is adopted, as ever.
    assert two.launch(two.first)["submission"] == "adopted"


def test_once_the_first_has_ended_the_second_goes_and_its_word_is_removed(two: Two) -> None:
    two.launch(two.first)
    two.first.ends(success=True)
    two.first.leaves("COMPLETED")
    before = two.left()
    assert two.launch(two.second)["submission"] == "submitted"
    assert len(before) == len(two.left()) == 1 and before != two.left()


def test_a_look_at_what_would_be_done_and_the_jobs_own_word_leave_the_folder_alone(two: Two) -> None:
    two.launch(two.first)
    two.first.ends(success=True)
    two.first.leaves("COMPLETED")
    (word,) = two.left()
    two.launch(two.second, check_mode=True)
    assert two.left() == [word]
    # What the job has written when it took the folder is the job's to remove.
    os.rename(two.folder / ".rankzero" / word, two.folder / ".rankzero" / "owner.3")
    assert two.launch(two.second)["submission"] == "submitted"
    assert "owner.3" in two.left()


def test_a_new_generation_of_the_same_launch_is_no_stranger(two: Two) -> None:
    two.launch(two.first)
    two.first.ends(success=False)
    two.first.leaves("FAILED")
    assert two.launch(two.first)["generation"] == 2


def test_an_owner_that_was_submitted_by_hand_counts_too(two: Two) -> None:
    two.launch(two.first)
    (word,) = two.left()
    os.rename(two.folder / ".rankzero" / word, two.folder / ".rankzero" / "owner.3")
    with pytest.raises(RankzeroError, match="belongs to job 101"):
        two.launch(two.second)


def test_while_slurm_is_silent_nothing_is_concluded(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    two.launch(two.first)
    launcher = two.second.launcher(checkpoint_dir=str(two.folder))
    two.first.cluster.down = True
    monkeypatch.setattr(launcher, "check", lambda generation, building: Checked())
    with pytest.raises(SlurmUnavailable, match=r"was given to job 101 .* Nothing is submitted; try again later"):
        launcher.launch().result()


def test_a_folder_that_this_host_cannot_write_is_the_jobs_own_matter(two: Two) -> None:
    two.folder.write_text("a file", encoding="utf-8")
    launcher = two.first.launcher(checkpoint_dir=str(two.folder))
    assert launcher.launch().result()["submission"] == "submitted"
    assert "cannot be written on this host" in launcher.slurm.notes[0]


def test_what_is_no_word_of_a_launch_is_passed_over(two: Two) -> None:
    place = two.folder / ".rankzero"
    place.mkdir(parents=True)
    for number, text in enumerate(["", "[]", json.dumps({"run_dir": "/x"}), json.dumps({})]):
        (place / f"submitted.{number}").write_text(text, encoding="utf-8")
    assert two.launch(two.first)["submission"] == "submitted"
