# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exactly one admitted job: a launch that is fresh, adopted, kept or begun anew, and what refuses it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError, SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import Ref
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.needs import ContainerNeeds
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.needs import ResourceNeeds, StorageNeeds
from tests.unit.submit.bench import NOW, TOKEN, Bench, Cluster, tree
from tests.writers import Run

# --- fresh, adopted, kept, anew


def test_a_fresh_launch(bench: Bench) -> None:
    result = bench.launch()
    run = bench.run()
    assert result == {
        "name": "job",
        "key": bench.request.key,
        "generation": 1,
        "run_dir": run.path,
        "changed": True,
        "excluded": [],
        "submission": "submitted",
        "standing": "waiting",
        "message": "",
        "job_id": "101",
        "missing": [],
        "allocation": None,
        # The controller compares the first generation of a key with the newest other launch of the name.
        "diff": [],
        "predecessor": None,
    }
    assert bench.cluster.commands == ["sinfo", "scontrol", "scontrol", "sbatch"]
    assert bench.cluster.asked[-1][1:] == [
        "--parsable",
        run.file("job.sbatch"),
        "--submission",
        bench.request.submitter,
    ]
    assert bench.events() == ["intent", "submitted"]
    # The generation stands where its token stood, everywhere.
    assert TOKEN not in Path(run.file("job.sbatch")).read_text(encoding="utf-8")
    assert os.path.isdir(run.file("logs"))
    assert [path.name for path in bench.runs.iterdir()] == ["1"]


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED", "PREEMPTED"])
@pytest.mark.parametrize("relaunch", ["on_failure", "always", "never"])
def test_an_active_job_is_adopted_under_every_policy(bench: Bench, state: str, relaunch: str) -> None:
    bench.launch()
    bench.leaves(state)
    bench.cluster.jobs["101"]["submit"] = int(time.time())
    if state == "PREEMPTED":
        # Not the end: Slurm may requeue it. It was preempted just now.
        bench.cluster._row = lambda number, job: Cluster._row(number, job).replace(
            str(int(NOW) - 900), str(int(time.time()))
        )  # type: ignore[method-assign]
    launcher = bench.launcher(relaunch=relaunch)
    result = launcher.launch().result()
    assert (result["submission"], result["changed"], result["job_id"]) == ("adopted", False, "101")
    assert bench.cluster.commands.count("sbatch") == 1
    assert bool(launcher.slurm.notes) is (relaunch == "always")


def test_a_launch_that_succeeded_is_left_alone_without_asking_slurm(bench: Bench) -> None:
    bench.launch()
    bench.ends(True)
    bench.cluster.asked.clear()
    bench.cluster.down = True
    result = bench.launch()
    assert (result["submission"], result["standing"], result["changed"]) == ("unchanged", "succeeded", False)
    assert (result["message"], result["job_id"], result["diff"]) == ("the program ended with exit code 0", "101", [])
    assert bench.cluster.asked == []


@pytest.mark.parametrize(
    ("relaunch", "success", "state"),
    [
        ("always", True, "submitted"),
        ("always", False, "submitted"),
        ("on_failure", False, "submitted"),
        ("never", False, "unchanged"),
        ("never", True, "unchanged"),
        ("on_failure", True, "unchanged"),
    ],
)
def test_policy_decides_about_a_launch_that_has_ended(bench: Bench, relaunch: str, success: bool, state: str) -> None:
    bench.launch()
    bench.ends(success)
    bench.leaves("COMPLETED" if success else "FAILED")
    result = bench.launch(relaunch=relaunch)
    assert result["submission"] == state
    assert result["generation"] == (2 if state == "submitted" else 1)
    if state == "submitted":
        assert bench.cluster.jobs["102"]["name"] == bench.name(2)
        assert {entry["before_header"] for entry in result["diff"]} == {
            bench.run(1).file(n) for n in bench.request.files
        }
        assert "# 1\n" in result["diff"][0]["before"]
        assert "# 2\n" in result["diff"][0]["after"]


def test_no_later_generation_than_the_planned_one_is_submitted(bench: Bench) -> None:
    """A call that comes late, or again, finds the launch as it has ended."""
    assert bench.launch(last=1)["submission"] == "submitted"
    bench.ends(False)
    bench.leaves("FAILED")
    for relaunch in ("on_failure", "always"):
        late = bench.launch(last=1, relaunch=relaunch)
        assert (late["submission"], late["generation"], late["standing"]) == ("unchanged", 1, "failed")
    assert bench.launch(last=2)["generation"] == 2
    assert bench.launch(last=1)["job_id"] == "102" and bench.cluster.commands.count("sbatch") == 2


def test_a_planned_submission_that_was_lost_is_made_up_for(bench: Bench) -> None:
    bench.intent("elsewhere:1")
    assert bench.launch(last=1)["submission"] == "submitted"
    assert bench.events().count("submitted") == 1


def test_a_job_that_left_no_verdict_has_failed_in_slurms_words(bench: Bench) -> None:
    bench.launch()
    bench.leaves("NODE_FAIL")
    result = bench.launch(relaunch="never")
    assert (result["submission"], result["standing"]) == ("unchanged", "failed")
    assert "node" in result["message"].lower()
    assert bench.launch()["generation"] == 2


def test_a_job_that_no_source_knows_any_more_has_failed(bench: Bench) -> None:
    bench.launch()
    bench.cluster.jobs.clear()
    result = bench.launch(relaunch="never")
    assert (result["standing"], result["message"]) == ("failed", "the job is gone from Slurm and left no verdict")


def test_a_verdict_that_was_written_between_two_looks_counts(bench: Bench) -> None:
    bench.launch()
    bench.leaves("COMPLETED")
    bench.cluster.before["squeue"] = lambda: bench.ends(True)
    result = bench.launch()
    assert (result["submission"], result["standing"]) == ("unchanged", "succeeded")


def test_a_verdict_by_signal_is_the_end_only_when_slurm_agrees(bench: Bench) -> None:
    bench.launch()
    bench.ends(False, ended_by="signal")
    bench.leaves("REQUEUED")
    assert bench.launch()["submission"] == "adopted"
    bench.leaves("TIMEOUT")
    assert bench.launch()["generation"] == 2


def test_a_job_requeued_after_its_verdict_is_adopted(bench: Bench) -> None:
    """Else two generations of one launch would be in the queue."""
    bench.launch()
    bench.ends(False)
    bench.leaves("PENDING")
    assert bench.launch()["submission"] == "adopted"


def test_a_job_that_is_just_clearing_up_after_its_verdict_is_over(bench: Bench) -> None:
    bench.launch()
    bench.ends(False)
    bench.leaves("COMPLETING")
    assert bench.launch()["generation"] == 2


def test_a_new_attempt_makes_an_old_failure_void_and_no_old_proof(bench: Bench) -> None:
    bench.launch()
    bench.ends(False, attempt=0)
    Run(Path(bench.run().path), "101").started(1)
    bench.leaves("RUNNING")
    assert bench.launch()["submission"] == "adopted"
    # A node that Slurm has lost sight of proves the attempt before, while the next one runs elsewhere or has ended.
    bench.ends(True, attempt=0)
    assert bench.launch()["submission"] == "unchanged"
    bench.leaves("COMPLETED")
    assert bench.launch()["submission"] == "unchanged"


def test_the_claim_decides_which_job_is_followed(bench: Bench) -> None:
    bench.launch()
    other = bench.cluster.add(bench.name(), "RUNNING")
    Path(bench.run().file("claim")).write_text(f"1 lab {other}\n", encoding="utf-8")
    assert bench.launch()["job_id"] == other


def test_generations_are_numbers_and_not_words(bench: Bench) -> None:
    bench.launch()
    for generation in range(1, 11):
        bench.ends(False, generation)
        bench.leaves("FAILED", generation)
        bench.launch()
    assert bench.launch()["generation"] == 11


# --- races, silence, what is missing


def test_of_two_submitters_one_makes_the_generation_and_the_other_adopts(bench: Bench) -> None:
    bench.cluster.before["sinfo"] = lambda: bench.launch(submitter="elsewhere:1") and None
    result = bench.launch()
    assert (result["submission"], result["generation"], result["job_id"]) == ("adopted", 1, "101")
    assert len(bench.cluster.jobs) == 1
    assert [path.name for path in bench.runs.iterdir()] == ["1"]


@pytest.mark.parametrize("prepared", ["nothing", "active", "failed", "intent"])
def test_while_slurm_is_silent_nothing_is_submitted(bench: Bench, prepared: str) -> None:
    if prepared == "intent":
        bench.intent("elsewhere:1")
    elif prepared != "nothing":
        bench.launch()
        if prepared == "failed":
            bench.ends(False)
    before = tree(bench.runs)
    bench.cluster.asked.clear()
    bench.cluster.down = True
    with pytest.raises(SlurmUnavailable):
        bench.launch()
    assert "sbatch" not in bench.cluster.commands
    assert tree(bench.runs) == before


def test_an_end_that_only_silent_accounting_could_tell_is_not_guessed(bench: Bench) -> None:
    bench.launch()
    bench.cluster.jobs["101"]["squeue"] = False
    bench.cluster.accounting = False
    with pytest.raises(SlurmUnavailable, match="accounting is silent: its end is unknown") as caught:
        bench.launch()
    assert caught.value.partial["job_id"] == "101"
    assert bench.cluster.commands.count("sbatch") == 1


def test_what_is_missing_is_named_and_nothing_is_written_or_asked(bench: Bench) -> None:
    refs = [*bench.request.refs, Ref("code", "e", str(bench.store / "nowhere"))]
    result = bench.launch(refs=refs)
    assert (result["submission"], result["changed"], result["generation"]) == ("missing", False, 1)
    assert result["missing"] == [refs[1].record()]
    assert bench.cluster.asked == []
    assert not bench.runs.exists()


@pytest.mark.parametrize(("kind", "refused"), [("runtime", False), ("environment", True)])
def test_a_store_of_others_will_do_where_only_the_runtime_is_missing(
    bench: Bench, tmp_path: Path, kind: str, refused: bool
) -> None:
    """The runtime is kept under state_root."""
    (tmp_path / "a-file").touch()
    roots = {"state_root": str(tmp_path), "store_root": str(tmp_path / "a-file" / "store")}
    refs = [*bench.request.refs, Ref(kind, "e", str(tmp_path / "nowhere"))]
    given = {"refs": refs, "places": StorageNeeds(roots=roots)}
    if refused:
        with pytest.raises(RankzeroError, match="store_root: "):
            bench.launch(**given)
    else:
        assert bench.launch(**given)["submission"] == "missing"


def test_no_environment_is_built_for_a_job_that_is_refused_then(bench: Bench) -> None:
    refs = [*bench.request.refs, Ref("environment", "e", str(bench.store / "nowhere"))]
    assert bench.launch(refs=refs)["submission"] == "missing"
    assert bench.cluster.commands == ["sinfo", "scontrol", "scontrol"]
    with pytest.raises(RankzeroError, match=r"resources.nodes: 9 asked"):
        bench.launch(refs=refs, limits=ResourceNeeds(nodes=9, time_minutes=60.0))
    assert not bench.runs.exists()


def test_a_job_that_can_never_run_is_refused_before_anything_is_written(bench: Bench) -> None:
    with pytest.raises(RankzeroError, match=r"the cluster cannot run this job:\n  - resources.nodes"):
        bench.launch(limits=ResourceNeeds(nodes=9, time_minutes=60.0))
    assert not bench.runs.exists()
    assert bench.cluster.commands == ["sinfo", "scontrol", "scontrol"]


def test_a_container_that_the_cluster_cannot_run_is_refused_before_anything_is_written(bench: Bench) -> None:
    wanted = {"runtime": "pyxis", "own_setup": False}
    with pytest.raises(RankzeroError, match=r"the cluster cannot run this job:\n  - container.runtime: pyxis is not"):
        bench.launch(containers=[ContainerNeeds(**wanted)])
    assert not bench.runs.exists()
    assert bench.cluster.commands == ["sinfo", "scontrol", "scontrol", "srun"]
    bench.cluster.help = "  --container-image=PATH\n"
    assert bench.launch(containers=[ContainerNeeds(**wanted)])["submission"] == "submitted"


@pytest.mark.parametrize("prepared", ["nothing", "active", "succeeded", "failed", "intent", "lost", "missing"])
def test_check_mode_writes_nothing_at_all(bench: Bench, prepared: str) -> None:
    refs = list(bench.request.refs)
    if prepared in ("intent", "lost"):
        bench.intent("elsewhere:1")
        if prepared == "lost":
            bench.cluster.add(bench.name(), "RUNNING")
    elif prepared == "missing":
        refs.append(Ref("environment", "e", "/nowhere"))
    elif prepared != "nothing":
        secret = bench.store / "secret"
        secret.write_bytes(b"A=eA==\n")
        bench.launch(secrets_file=str(secret))
        if prepared != "active":
            bench.ends(prepared == "succeeded")
            bench.leaves("FAILED")
    before = tree(bench.runs.parents[3])
    begun = bench.time
    result = bench.launch(check_mode=True, refs=refs)
    expected = {"active": "adopted", "lost": "adopted", "succeeded": "unchanged"}.get(prepared, "planned")
    assert result["submission"] == expected
    assert result["changed"] is (expected == "planned")
    assert result["generation"] == (2 if prepared == "failed" else 1)
    assert bool(result["missing"]) is (prepared == "missing")
    assert tree(bench.runs.parents[3]) == before
    assert bench.time == begun
    if prepared == "nothing":
        assert not bench.runs.parents[2].exists()


def test_a_state_root_that_cannot_be_written_is_named(bench: Bench) -> None:
    blocked = bench.runs.parents[3] / "file"
    blocked.write_text("", encoding="utf-8")
    with pytest.raises(RankzeroError, match=r"state_root: cannot write .*Not a directory.*launch_cluster.state_root"):
        bench.launch(runs_dir=str(blocked / "runs"))
    assert "sbatch" not in bench.cluster.commands


def test_a_launch_that_notifies_somebody_is_listed_for_a_timer_and_no_other_is(bench: Bench) -> None:
    state_root = Path(bench.request.state_root)
    bench.launch()
    assert not (state_root / "notify").exists()
    bench.ends(success=True)
    bench.launch(relaunch="always", files={**bench.request.files, "notify.json": '{"receivers": []}\n'})
    assert [path.name for path in (state_root / "notify").iterdir()] == ["job.0123456789abcdef.2"]
    assert os.path.isfile(bench.run(2).file("notify.json")) and not os.path.exists(bench.run(1).file("notify.json"))
