# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A sweep on a cluster that answers as it is told: what is submitted, what is left alone, what a kill leaves behind."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import (
    RankzeroError,
    SlurmError,
    SlurmUnavailable,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.run.answers import ask_slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.sweep import substituted
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.checks import Checked
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.launch import LaunchSubmission
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.result import SweepResult
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.sweep_elements import Element
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.sweep_request import Manifests
from tests.unit.submit.bench import SILENT, Cluster
from tests.unit.submit.grid import Grid


@pytest.fixture
def grid(tmp_path: Path) -> Grid:
    return Grid(tmp_path)


def test_a_fresh_sweep_is_one_sbatch_with_a_parameter_file_that_nobody_may_write(grid: Grid) -> None:
    result = grid.launch()
    assert grid.cluster.commands.count("sbatch") == 1
    assert (result["submission"], result["changed"], result["counts"]) == ("submitted", True, {"submitted": 3})
    assert [row["job_id"] for row in result["elements"]] == ["101_0", "101_1", "101_2"]
    assert result["arrays"] == [{"job_id": "101", "run_dir": grid.array().path, "tasks": "0-2", "elements": 3}]
    parameters = Path(grid.array().file("elements"))
    assert stat.S_IMODE(parameters.stat().st_mode) == 0o444
    lines = parameters.read_text(encoding="utf-8").splitlines()
    run = grid.run(1)
    assert lines[1] == f"export RANKZERO_KEY={'01' * 32} RANKZERO_GENERATION=1 RANKZERO_RUN_DIR={run.path}; export LR=1"
    assert "--array=0-2\n" in Path(grid.array().file("job.sbatch")).read_text(encoding="utf-8")
    # The element's own folder is that of an ordinary launch, and says which job it is without a file of its own for it.
    assert sorted(os.listdir(run.path)) == ["contract.json", "journal.jsonl", "launch.json", "logs"]
    assert [event["event"] for event in run.own_events()] == ["intent"]
    assert [event["event"] for event in run.events()] == ["intent", "submitted"]
    assert run.job_id() == "101_1"
    manifest = json.loads(Path(run.file("launch.json")).read_text(encoding="utf-8"))
    assert manifest["spec"] == {"name": "job", "command": ["train.py", "1"]}
    assert manifest["sweep"]["parameters"] == {"lr": "1"}


def test_the_same_sweep_again_asks_slurm_once_and_submits_what_failed(grid: Grid) -> None:
    grid.launch()
    grid.cluster.asked.clear()
    assert grid.states(grid.launch()) == ["adopted"] * 3
    assert grid.cluster.commands == ["squeue"]
    grid.ends(0, True)
    grid.ends(1, False)
    assert grid.states(grid.launch(check_mode=True)) == ["unchanged", "planned", "adopted"]
    result = grid.launch()
    assert grid.states(result) == ["unchanged", "submitted", "adopted"]
    assert [row["job_id"] for row in result["elements"]] == ["101_0", "102_0", "101_2"]
    assert (
        result["elements"][1]["why"] == "failed: the program ended with exit code 1; so it ended"
        and result["elements"][1]["generation"] == 2
    )
    assert SweepResult.of(result).active_ids() == ["102", "101_2"]
    grid.ends(1, True, generation=2)
    grid.ends(2, True)
    grid.cluster.asked.clear()
    assert grid.states(grid.launch()) == ["unchanged"] * 3
    assert grid.cluster.commands == []
    assert grid.states(grid.launch(relaunch="always")) == ["submitted"] * 3


def test_a_grid_that_has_grown_submits_what_is_new(grid: Grid) -> None:
    grid.launch()
    for number in grid.wanted:
        grid.ends(number, True)
    grid.wanted, grid.key = [7, 0, 1, 2, 8], "6" * 16
    before = grid.launch(check_mode=True)
    assert not (grid.runs / f".sweep-{grid.key}").exists()
    assert before["diff"]["before"] == "1  lr=0: succeeded\n2  lr=1: succeeded\n3  lr=2: succeeded\n"
    assert "0  lr=7: planned (new)\n1  lr=0: succeeded\n" in before["diff"]["after"]
    result = grid.launch()
    assert grid.states(result) == ["submitted", "unchanged", "unchanged", "unchanged", "submitted"]
    assert [row["job_id"] for row in result["elements"]] == ["102_0", "101_0", "101_1", "101_2", "102_1"]


def test_a_sweep_over_max_array_size_becomes_several_arrays_one_after_the_other_with_parallel(grid: Grid) -> None:
    grid.cluster.size, grid.wanted = 2, [0, 1, 2, 3, 4]
    assert [one["tasks"] for one in grid.launch()["arrays"]] == ["0-1", "0-1", "0-0"]
    assert not any("--dependency" in word for options in grid.cluster.options for word in options)
    grid.cluster.size, grid.cluster.more_config = 1001, "SchedulerParameters     = bf_interval=2,max_array_tasks=3\n"
    grid.wanted, grid.key, grid.parallel = [5, 6, 7, 8], "6" * 16, 2
    assert [one["tasks"] for one in grid.launch(dependency="singleton")["arrays"]] == ["0-2%2", "0-0%2"]
    assert "--dependency=afterany:104,singleton" in grid.cluster.options[-1]
    grid.wanted, grid.key = [9, 10, 11, 12], "7" * 16
    grid.cluster.size = 0
    with pytest.raises(RankzeroError, match="this cluster has no job arrays"):
        grid.launch()
    grid.cluster.size = 3
    with pytest.raises(RankzeroError, match=r"one after the other, and resources\.dependency a\?b cannot"):
        grid.launch(dependency="a?b")


def test_two_submitters_at_once_share_the_elements(grid: Grid) -> None:
    """The other one takes an element while this one is about to."""
    launcher = grid.launcher()
    take = launcher._take

    def slower(row: Any, place: str, task: int) -> bool:
        if row.element.number == 1:
            grid.wanted = [1]
            other = grid.launch()
            assert other["arrays"][0]["run_dir"] == grid.array(2).path
        return take(row, place, task)

    launcher._take = slower  # type: ignore[method-assign]
    result = launcher.launch().result()
    assert grid.states(result) == ["submitted", "adopted", "submitted"]
    assert sorted(grid.cluster.jobs) == ["101_0", "102_0", "102_1"]
    # What follows this sweep waits for the other's task, too.
    assert result["elements"][1]["job_id"] == "101_0" and SweepResult.of(result).active_ids() == ["102", "101_0"]
    result["elements"][1]["job_id"] = None
    with pytest.raises(RankzeroError, match="elements 1 were taken by another submitter, who has not submitted them"):
        SweepResult.of(result).active_ids()
    assert len({job_id for number in (0, 1, 2) for job_id in [grid.run(number).job_id()]}) == 3


def test_a_submitter_killed_before_sbatch_leaves_elements_that_the_next_one_submits(grid: Grid) -> None:
    def killed(argv: Sequence[str]) -> tuple[int, str, str]:
        raise KeyboardInterrupt

    grid.cluster.sbatch = killed
    with pytest.raises(KeyboardInterrupt):
        grid.launch(submitter="elsewhere:1")
    grid.cluster.sbatch = grid.cluster.submit
    grid.bench.time += 3600
    result = grid.launch()
    assert [row["why"] for row in result["elements"]] == ["its submission was lost"] * 3
    assert [row["generation"] for row in result["elements"]] == [1, 1, 1]
    assert [row["job_id"] for row in result["elements"]] == ["101_0", "101_1", "101_2"]
    assert grid.run(2).job_id() == "101_2" and result["arrays"][0]["run_dir"] == grid.array(2).path


def test_a_state_root_that_is_full_says_so_and_the_next_launch_goes_on(
    grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = grid.launcher(submitter="elsewhere:1")

    def full(*_what: object) -> None:
        raise OSError(28, "No space left on device")

    launcher._write = full  # type: ignore[method-assign]
    with pytest.raises(
        RankzeroError, match=r"cannot write .*: No space left on device\..* launch the same sweep again"
    ):
        launcher.launch().result()
    assert not grid.cluster.jobs
    grid.bench.time += 3600
    assert grid.states(grid.launch()) == ["submitted"] * 3
    assert grid.run(0).generation == 1 and grid.run(0).job_id() == "101_0"


def submit_and_die(grid: Grid) -> None:
    """sbatch takes the array, and whoever submitted it is killed before the answer is recorded."""

    def killed(argv: Sequence[str]) -> tuple[int, str, str]:
        grid.cluster.submit(argv)
        raise KeyboardInterrupt

    grid.cluster.sbatch = killed
    with pytest.raises(KeyboardInterrupt):
        grid.launch(submitter="elsewhere:1")


def test_an_array_whose_number_was_never_recorded_is_found_by_its_name(grid: Grid) -> None:
    submit_and_die(grid)
    assert grid.run(0).job_id() is None
    assert grid.states(grid.launch(check_mode=True)) == ["adopted"] * 3
    looking = ask_slurm(grid.slurm(), [grid.run(1)]).status(grid.run(1))
    assert (looking.job_id, looking.standing) == ("101_1", "waiting")
    assert [event["event"] for event in grid.array().own_events()] == ["intent"], "who looks writes nothing"
    result = grid.launch()
    assert grid.states(result) == ["adopted"] * 3
    assert [row["job_id"] for row in result["elements"]] == ["101_0", "101_1", "101_2"]
    assert [event["event"] for event in grid.array().own_events()] == ["intent", "adopted"]
    # An ordinary launch of the same values by hand finds it, too.
    assert grid.run(1).job_id() == "101_1"


def test_an_ordinary_launch_of_an_elements_values_finds_the_element_even_by_its_arrays_name(grid: Grid) -> None:
    submit_and_die(grid)
    grid.bench.request = replace(grid.bench.request, key="01" * 32, runs_dir=str(grid.runs / ("01" * 8)))
    found = grid.bench.launch()
    assert (found["submission"], found["job_id"]) == ("adopted", "101_1")
    assert grid.bench.launcher().cancel().result()["changed"]
    assert [job["state"] for job in grid.cluster.jobs.values()] == ["PENDING", "CANCELLED", "PENDING"]


def test_an_element_that_was_launched_by_hand_before_is_not_run_again(grid: Grid) -> None:
    grid.cluster.sbatch = lambda argv: Cluster.submit(grid.cluster, argv)
    name = "job." + "01" * 8 + ".1"
    files = {**grid.bench.request.files, "job.sbatch": f"#SBATCH --job-name={name}\n"}
    where = {"key": "01" * 32, "runs_dir": str(grid.runs / ("01" * 8)), "job_name": name}
    grid.bench.request = replace(grid.bench.request, files=files, **where)
    assert grid.bench.launch()["job_id"] == "101"
    grid.cluster.sbatch, grid.cluster.numbers = grid.cluster.submit, 101
    result = grid.launch()
    assert grid.states(result) == ["submitted", "adopted", "submitted"]
    assert [row["job_id"] for row in result["elements"]] == ["102_0", "101", "102_1"]


def test_sbatch_that_refuses_leaves_failed_elements_and_that_times_out_is_looked_up(grid: Grid) -> None:
    grid.cluster.sbatch = lambda argv: (1, "", "sbatch: error: Invalid account\n")
    with pytest.raises(SlurmError, match="Invalid account"):
        grid.launch()

    def late(argv: Sequence[str]) -> tuple[int, str, str]:
        grid.cluster.submit(argv)
        return 1, "", SILENT

    grid.cluster.sbatch = late
    result = grid.launch()
    assert [row["why"] for row in result["elements"]] == [
        "failed: Slurm refused it: sbatch: error: Invalid account"
    ] * 3
    assert [row["job_id"] for row in result["elements"]] == ["101_0", "101_1", "101_2"]
    assert grid.array(2).job_id() == "101"


def test_while_slurm_is_silent_nothing_is_submitted_and_results_are_what_the_elements_wrote(grid: Grid) -> None:
    grid.launch()
    grid.ends(0, True, loss=2.0)
    grid.ends(1, False)
    grid.cluster.down = True
    with pytest.raises(SlurmUnavailable):
        grid.launch()
    found = grid.results()
    assert [row["standing"] for row in found["elements"]] == ["succeeded", "failed", "unknown"]
    assert not found["completed"] and "Slurm does not answer" in found["silent"]


def test_cancelling_one_element_or_all(grid: Grid) -> None:
    grid.launch()
    grid.ends(0, True)
    assert grid.states(grid.launcher(only=["1"]).cancel().result()) == ["absent", "cancelled", "absent"]
    assert grid.states(grid.launcher(only=["020202"]).cancel().result()) == ["absent", "absent", "cancelled"]
    with pytest.raises(RankzeroError, match=r"elements: 9 is not .* \(0 to 2\)"):
        grid.launcher(only=["9"]).cancel().result()
    assert grid.launcher().cancel().result()["changed"] is False
    assert [job["state"] for job in grid.cluster.jobs.values()] == ["COMPLETED", "CANCELLED", "CANCELLED"]


def test_an_array_that_was_cancelled_while_all_of_it_waited_is_one_job_to_slurm(grid: Grid) -> None:
    grid.launch()
    row = {**grid.cluster.jobs.pop("101_0"), "state": "CANCELLED"}
    del grid.cluster.jobs["101_1"], grid.cluster.jobs["101_2"]
    grid.cluster.jobs["101"] = row
    again = grid.launch(relaunch="never")
    assert {one["standing"] for one in again["elements"]} == {"failed"}
    assert "CANCELLED" in again["elements"][2]["why"] and again["elements"][2]["job_id"] == "101_2"
    assert grid.states(grid.launch()) == ["submitted"] * 3


def test_only_the_elements_that_are_named_are_submitted(grid: Grid) -> None:
    first = grid.launch(only=["1", "020202"])
    assert grid.states(first) == ["absent", "submitted", "submitted"]
    assert [row["why"] for row in first["elements"]] == ["not requested", "new", "new"]
    grid.ends(1, False)
    grid.ends(2, False)
    again = grid.launch(only=["0" * 16, "02" * 8])
    assert grid.states(again) == ["submitted", "unchanged", "submitted"]
    assert [row["generation"] for row in again["elements"]] == [1, 1, 2]
    with pytest.raises(RankzeroError, match="elements: 03030 is not"):
        grid.launch(only=["03030"])


def test_what_waits_for_something_that_is_over_is_submitted_anew(grid: Grid) -> None:
    grid.launch(waits_for=["afterok:7"])
    assert grid.cluster.options[-1][1:] == ["--dependency=afterok:7", "--kill-on-invalid-dep=yes", "--submission"]
    grid.cluster.jobs["101_1"]["state"] = "RUNNING"
    result = grid.launch(waits_for=["afterok:9"], supersedes=True)
    assert grid.states(result) == ["submitted", "adopted", "submitted"]
    assert [job["state"] for job in grid.cluster.jobs.values()] == [
        "CANCELLED",
        "RUNNING",
        "CANCELLED",
        "PENDING",
        "PENDING",
    ]


def test_missing_code_submits_nothing(grid: Grid) -> None:
    refs = [Ref("code", "k", "/not/there")]
    result = grid.launch(refs=refs)
    assert (grid.states(result), result["missing"], result["changed"]) == (["missing"] * 3, [refs[0].record()], False)
    assert not grid.runs.exists() and "sbatch" not in grid.cluster.commands


@pytest.mark.parametrize(
    ("missing", "check_mode", "expected"),
    [
        ([], False, [False]),
        (["code"], False, []),  # the next call checks: sending code takes seconds
        (["runtime"], False, [False]),  # is not in the store
        (["code", "environment"], False, [True]),  # a build takes minutes
        (["code"], True, [True]),
        ([], True, [False]),
    ],
)
def test_a_sweep_is_checked_before_what_takes_long_is_built(
    grid: Grid, monkeypatch: pytest.MonkeyPatch, missing: list[str], check_mode: bool, expected: list[bool]
) -> None:
    """`building` asks whether the store can be written."""
    building: list[bool] = []

    def check(_self: LaunchSubmission, _generation: int, for_a_build: bool) -> Checked:
        building.append(for_a_build)
        return Checked()

    monkeypatch.setattr(LaunchSubmission, "check", check)
    grid.launch(check_mode, refs=[Ref(kind, "k", f"/not/there/{kind}") for kind in missing])
    assert building == expected


@pytest.mark.parametrize("point", [{"lr": "1e-3"}, {"lr": 'a "b"\n\u2028\\', "seed": "7", "gbs": "64"}, {}])
def test_the_manifest_of_an_element_is_what_json_writes(point: dict[str, str]) -> None:
    """Its parts are converted one by one, most of them once for all elements."""
    spec: dict[str, Any] = {
        "name": "job",
        "command": ["train.py", "--lr={lr}", 3],
        "env": {"LR": "{lr}", "NONE": "", "NESTED": {}},
        "checkpoint": {"dir": "/scratch/{lr}", "fresh": False},
        "resources": {"nodes": 2, "gres": [], "sbatch": {}, "time": "1\n2"},
        "sweep": {"parameters": {"lr": ["1"]}},
    }
    shared = {"refs": [{"kind": "code", "path": "/s/\u00e9"}], "world_size": 4, "code": None, "origins": {}}
    element = Element(3, "ab" * 32, point)
    whole = {
        **shared,
        "key": element.key,
        "spec": substituted(spec, point),
        "sweep": {"key": "5" * 64, "number": 3, "parameters": point},
    }
    assert Manifests("5" * 64, spec, shared).text(element) == json.dumps(whole, indent=1, sort_keys=True) + "\n"


def test_each_element_of_a_sweep_that_notifies_somebody_is_listed(grid: Grid) -> None:
    launcher = grid.launcher()
    array = launcher.request.array
    launcher.request = replace(
        launcher.request, array=replace(array, files={**array.files, "notify.json": '{"receivers": []}\n'})
    )
    launcher.launch()
    assert os.path.isfile(grid.run(1).file("notify.json"))
    listed = os.listdir(os.path.join(grid.bench.request.state_root, "notify"))
    assert len(listed) == 3 and all(name.startswith("job.") and name.endswith(".1") for name in listed), listed
