# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What module job_cancel does: one active job, by name, key, job id or folder; several only where all are meant."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.run import rank_looks
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.cancel import cancel
from tests.unit.submit.bench import Bench
from tests.unit.submit.grid import Grid


@pytest.fixture
def grid(tmp_path: Path) -> Grid:
    return Grid(tmp_path)


def asked(bench: Bench, check_mode: bool = False, **options: Any) -> dict[str, Any]:
    slurm = Slurm(bench.cluster, environment={"PATH": "/bin"}, which=lambda name, _path: f"/usr/bin/{name}")
    given = {"state_root": str(bench.runs.parents[2]), **options}
    return cancel(slurm, given, check_mode=check_mode, clock=lambda: bench.time)


@pytest.mark.parametrize("by", ["name", "key", "generation", "job_id", "run_dir"])
def test_active_launch_is_cancelled_by_any_of_its_names(bench: Bench, by: str) -> None:
    bench.launch()
    names: dict[str, dict[str, Any]] = {
        "name": {"name": "job"},
        "key": {"name": "job", "key": "01234567"},
        "generation": {"name": "job", "generation": 1},
        "job_id": {"job_id": "101"},
        "run_dir": {"run_dir": bench.run().path},
    }
    options = names[by]
    planned = asked(bench, check_mode=True, **options)
    assert bench.cluster.jobs["101"]["state"] == "PENDING"
    done = asked(bench, **options)
    assert (planned["changed"], planned["cancelled"]) == (done["changed"], done["cancelled"])
    assert [row["job_id"] for row in done["cancelled"]] == ["101"]
    assert bench.cluster.jobs["101"]["state"] == "CANCELLED"
    assert bench.events() == ["intent", "submitted", "cancelled"]
    again = asked(bench, **options)
    assert not again["changed"] and [row["standing"] for row in again["unchanged"]] == ["failed"]
    assert again["lines"] == ["job/0123456789abcdef/1: was cancelled, nothing to cancel"]


def test_job_that_is_still_ending_is_not_cancelled_again(bench: Bench) -> None:
    bench.launch()
    asked(bench, name="job")
    bench.leaves("COMPLETING")
    bench.time = bench.run().events()[-1]["time"] + 90
    bench.cluster.asked.clear()
    again = asked(bench, name="job")
    assert not again["changed"] and [row["job_id"] for row in again["unchanged"]] == ["101"]
    (line,) = again["lines"]
    assert line == "job/0123456789abcdef/1: job 101 was cancelled 1 min 30 s ago and is still ending"
    assert "scancel" not in bench.cluster.commands and bench.events().count("cancelled") == 1
    absent = bench.launcher().cancel().result()
    assert (absent["changed"], absent["job_id"]) == (False, "101") and "scancel" not in bench.cluster.commands


@pytest.mark.parametrize("state", ["RUNNING", "PENDING"])
def test_job_that_slurm_started_again_is_cancelled_again(bench: Bench, state: str) -> None:
    bench.launch()
    asked(bench, name="job")
    bench.leaves(state)
    again = asked(bench, name="job")
    assert again["changed"] and bench.cluster.jobs["101"]["state"] == "CANCELLED"


def test_job_that_closes_a_later_attempt_is_cancelled_again(bench: Bench) -> None:
    """Slurm shows a job that it has requeued as COMPLETING, too."""
    bench.launch()
    asked(bench, name="job")
    bench.leaves("COMPLETING", start=int(bench.run().events()[-1]["time"]) + 60)
    assert asked(bench, name="job")["changed"]


def test_job_that_ends_by_itself_is_cancelled(bench: Bench) -> None:
    bench.launch()
    bench.leaves("COMPLETING")
    assert asked(bench, name="job")["changed"]


def test_launch_that_has_ended_is_left(bench: Bench) -> None:
    bench.launch()
    bench.leaves("COMPLETED")
    bench.ends(success=True)
    done = asked(bench, name="job")
    assert not done["changed"] and [row["standing"] for row in done["unchanged"]] == ["succeeded"]
    assert "scancel" not in bench.cluster.commands
    assert len(done["lines"]) == 1 and done["lines"][0].startswith("job/0123456789abcdef/1: succeeded")


@pytest.mark.parametrize("options", [{"name": "other"}, {"job_id": "999"}, {}])
def test_launch_that_is_not_recorded_is_an_error(bench: Bench, options: dict[str, str]) -> None:
    bench.launch()
    bench.cluster.asked.clear()
    with pytest.raises(RankzeroError) as raised:
        asked(bench, **options)
    assert "job" in raised.value.message and not bench.cluster.asked


def test_several_jobs_of_a_name_need_a_word_more(bench: Bench) -> None:
    bench.launch()
    first = bench.request
    key = "fedcba9876543210"
    bench.request = replace(
        first,
        key=key + "0" * 48,
        runs_dir=str(bench.runs.parent / key),
        job_name=f"job.{key}.{first.token}",
        files={**first.files, "job.sbatch": first.files["job.sbatch"].replace("0123456789abcdef", key)},
    )
    bench.launch()
    with pytest.raises(RankzeroError) as raised:
        asked(bench, name="job")
    assert "101" in raised.value.message and "102" in raised.value.message
    assert [row["job_id"] for row in asked(bench, name="job", key=key)["cancelled"]] == ["102"]
    bench.launch()
    done = asked(bench, name="job", all=True)
    assert {row["job_id"] for row in done["cancelled"]} == {"101", "103"}
    assert len(done["lines"]) == 2
    (line,) = asked(bench, name="job")["lines"]
    assert line.startswith("2 launches: 2 failed"), "ended launches are counted, not listed"


def test_elements_that_are_still_ending_are_left(grid: Grid) -> None:
    grid.launch()
    first = grid.launcher().cancel().result()
    assert first["submission"] == "cancelled"
    for job in grid.cluster.jobs.values():
        job["state"] = "COMPLETING"
    again = grid.launcher().cancel().result()
    assert not again["changed"] and {row["why"] for row in again["elements"]} == {"cancelled before, still ending"}


def test_elements_of_a_sweep_are_one_job(grid: Grid) -> None:
    grid.launch()
    done = cancel(grid.slurm(), {"state_root": str(grid.runs.parents[1]), "name": "job"}, clock=lambda: grid.bench.time)
    assert sorted(row["job_id"].partition("_")[2] for row in done["cancelled"]) == ["0", "1", "2"]
    assert {job["state"] for job in grid.cluster.jobs.values()} == {"CANCELLED"}


def test_a_job_that_seems_to_hang_is_looked_at_before_it_ends(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.launch()
    looked: list[str] = []

    def look(run: RunDirectory, now: float, sleep: object) -> bool:
        looked.append(run.path)
        assert bench.cluster.jobs["101"]["state"] == "PENDING", "not cancelled yet"
        raise OSError("no such folder")

    monkeypatch.setattr(rank_looks, "before_the_end", look)
    asked(bench, check_mode=True, name="job")
    assert not looked
    asked(bench, name="job")
    assert looked == [bench.run().path] and bench.cluster.jobs["101"]["state"] == "CANCELLED"
