# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A launch that follows others: what sbatch is told, and a job that waits for something that is over."""

from __future__ import annotations

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from tests.unit.submit.bench import Bench


def options(bench: Bench) -> list[str]:
    """What the newest sbatch was given besides the script."""
    (*_before, words) = (words for words in bench.cluster.asked if words[0] == "sbatch")
    return [word for word in words if word.startswith(("--dep", "--kill"))]


def test_the_scripts_own_dependency_goes_on_beside_what_it_follows(bench: Bench) -> None:
    bench.launch(waits_for=["afterok:7:8"], dependency="singleton")
    assert options(bench) == ["--dependency=afterok:7:8,singleton", "--kill-on-invalid-dep=yes"]


def test_without_anything_to_follow_the_script_says_all(bench: Bench) -> None:
    bench.launch(dependency="singleton")
    assert options(bench) == []


def test_any_one_of_several_cannot_be_combined(bench: Bench) -> None:
    with pytest.raises(RankzeroError, match=r"resources\.dependency: afterok:1\?afterok:2 waits for any one"):
        bench.launch(waits_for=["afterok:7"], dependency="afterok:1?afterok:2")
    assert not bench.cluster.jobs


def test_a_job_that_waits_for_something_that_is_over_makes_way(bench: Bench) -> None:
    bench.launch(waits_for=["afterok:7"])
    assert bench.launch(check_mode=True, waits_for=["afterok:9"], supersedes=True)["submission"] == "planned"
    assert bench.cluster.jobs["101"]["state"] == "PENDING"
    kept = bench.launch(waits_for=["afterok:9"], supersedes=True, relaunch="never")
    assert (kept["submission"], kept["job_id"]) == ("adopted", "101")
    found = bench.launch(waits_for=["afterok:9"], supersedes=True)
    assert (found["submission"], found["generation"], found["job_id"]) == ("submitted", 2, "102")
    assert bench.cluster.jobs["101"]["state"] == "CANCELLED"


def test_one_that_runs_is_adopted(bench: Bench) -> None:
    bench.launch(waits_for=["afterok:7"])
    bench.leaves("RUNNING")
    found = bench.launch(waits_for=["afterok:9"], supersedes=True)
    assert (found["submission"], found["job_id"]) == ("adopted", "101")
