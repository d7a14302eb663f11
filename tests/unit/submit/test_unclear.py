# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exactly one admitted job: submissions of which nobody knows whether Slurm has taken them."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import (
    RankzeroError,
    SlurmError,
    SlurmUnavailable,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from tests.unit.submit.bench import NOW, SILENT, Bench, dead_pid

# --- intents without an id


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
def test_a_job_whose_id_was_never_recorded_is_found_by_its_name(bench: Bench, state: str) -> None:
    bench.intent("elsewhere:1")
    job_id = bench.cluster.add(bench.name(), state)
    result = bench.launch()
    assert (result["submission"], result["job_id"]) == ("adopted", job_id)
    assert bench.events() == ["intent", "adopted"]
    assert "sbatch" not in bench.cluster.commands


def test_a_lost_job_that_has_ended_is_an_end_and_not_lost(bench: Bench) -> None:
    bench.intent("elsewhere:1")
    bench.cluster.add(bench.name(), "CANCELLED", squeue=False)
    result = bench.launch()
    assert (result["generation"], result["submission"]) == (2, "submitted")


def test_a_job_of_the_same_launch_under_another_state_root_is_another_job(bench: Bench) -> None:
    bench.intent(f"{socket.gethostname()}:{dead_pid()}")
    bench.cluster.add(bench.name(), "RUNNING", work_dir=f"/elsewhere/runs/job/{bench.runs.name}/1")
    result = bench.launch()
    assert (result["submission"], result["job_id"]) == ("submitted", "102")


def test_the_run_directory_by_another_path_is_the_same(bench: Bench, tmp_path: Path) -> None:
    bench.intent("elsewhere:1")
    (tmp_path / "link").symlink_to(tmp_path / "state")
    job_id = bench.cluster.add(bench.name(), "RUNNING", work_dir=f"{tmp_path}/link/runs/job/{bench.runs.name}/1")
    assert bench.launch()["job_id"] == job_id


def test_a_lost_submission_is_repeated_under_the_same_generation(bench: Bench) -> None:
    bench.intent(f"{socket.gethostname()}:{dead_pid()}")
    result = bench.launch()
    assert (result["generation"], result["submission"], result["job_id"]) == (1, "submitted", "101")
    assert bench.cluster.jobs["101"]["name"] == bench.name(1)
    # A third submitter must see that this one was at work just now.
    assert bench.events() == ["intent", "intent", "submitted"]


def test_a_repeated_submission_takes_what_is_new_outside_of_the_key(bench: Bench) -> None:
    bench.intent("elsewhere:1", age=600)
    script = bench.request.files["job.sbatch"] + "#SBATCH --partition=other\n"
    secret = Path(bench.store / "secret")
    secret.write_bytes(b"TOKEN=eA==\n")
    bench.launch(files={**bench.request.files, "job.sbatch": script}, secrets_file=str(secret))
    assert "--partition=other" in Path(bench.run().file("job.sbatch")).read_text(encoding="utf-8")
    assert Path(bench.run().file("secrets.env")).read_bytes() == b"TOKEN=eA==\n"
    assert stat.S_IMODE(os.stat(bench.run().file("secrets.env")).st_mode) == 0o600
    assert [path.name for path in bench.runs.iterdir()] == ["1"]


def test_a_repeated_submission_needs_what_any_submission_needs(bench: Bench) -> None:
    bench.intent("elsewhere:1", age=600)
    bench.store.rmdir()
    result = bench.launch()
    assert (result["submission"], result["generation"]) == ("missing", 1)
    assert "sbatch" not in bench.cluster.commands


def test_another_submitter_that_may_be_at_work_is_waited_for(bench: Bench) -> None:
    bench.intent("elsewhere:1", age=3)

    def recorded() -> None:
        bench.cluster.add("something-else", "RUNNING")
        bench.run().record("submitted", job_id=bench.cluster.add(bench.name(), "RUNNING"))

    # Its job shows up in the journal while we wait, between two looks at the queue.
    bench.cluster.before["sacct"] = recorded
    result = bench.launch()
    assert (result["submission"], result["job_id"]) == ("adopted", "102")


def test_another_submitter_that_never_says_is_given_up(bench: Bench) -> None:
    bench.intent("elsewhere:1")
    result = bench.launch()
    assert (result["submission"], result["generation"]) == ("submitted", 1)
    # Not before it had the time that sbatch itself has.
    assert bench.time - NOW > 60


@pytest.mark.parametrize("ahead", [7200.0, 86_400.0])
def test_a_submitter_whose_clock_is_ahead_is_given_up_as_soon_as_any_other(bench: Bench, ahead: float) -> None:
    """Its intent seems to be of tomorrow: the next launch waited until then."""
    bench.intent("elsewhere:1", age=-ahead)
    assert bench.launch()["submission"] == "submitted"
    assert 60 < bench.time - NOW < 600


def test_an_outcome_is_not_waited_for_longer_because_slurms_clock_is_ahead(bench: Bench) -> None:
    bench.launch()
    begun = bench.time
    bench.leaves("COMPLETED", start=int(begun), end=int(begun) + 7200)
    bench.launcher(relaunch="never").launch()
    assert bench.time - begun < 600


def test_a_living_submitter_of_this_host_is_waited_for_and_a_dead_one_is_not(bench: Bench) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        bench.intent(f"{socket.gethostname()}:{process.pid}")
        begun = bench.time
        bench.launcher().status(bench.run())
        assert bench.time > begun
        process.kill()
        process.wait()
        bench.intent(f"{socket.gethostname()}:{process.pid}")
        begun = bench.time
        bench.launcher().status(bench.run())
        assert bench.time == begun


def test_another_submitter_that_was_refused_is_a_refusal(bench: Bench) -> None:
    bench.intent("elsewhere:1")
    bench.cluster.before["sacct"] = lambda: bench.run().record("rejected", message="Invalid account")
    result = bench.launch()
    assert result["generation"] == 2


# --- what sbatch says


def test_a_refusal_is_journalled_and_raised(bench: Bench) -> None:
    secret = bench.store / "secret"
    secret.write_bytes(b"TOKEN=eA==\n")
    bench.cluster.sbatch = lambda argv: (1, "", "sbatch: error: invalid partition specified: nope\n")
    with pytest.raises(SlurmError, match="invalid partition specified: nope") as caught:
        bench.launch(secrets_file=str(secret))
    assert caught.value.partial["generation"] == 1
    assert bench.events() == ["intent", "rejected"]
    assert not os.path.exists(bench.run().file("secrets.env"))
    kept = bench.launch(relaunch="never")
    assert (kept["submission"], kept["standing"]) == ("unchanged", "failed")
    assert kept["message"] == "Slurm refused it: sbatch: error: invalid partition specified: nope"
    bench.cluster.sbatch = bench.cluster.submit
    assert bench.launch()["generation"] == 2


@pytest.mark.parametrize(
    "answer", [("timeout", "", ""), (1, "", SILENT), (0, "Welcome to the cluster\n", ""), (1, "7\n", SILENT)]
)
def test_an_unclear_answer_of_sbatch_is_looked_up(bench: Bench, answer: tuple[Any, str, str]) -> None:
    def enqueues(argv: Sequence[str]) -> tuple[Any, str, str]:
        bench.cluster.submit(argv)
        return answer

    bench.cluster.sbatch = enqueues
    result = bench.launch()
    assert (result["submission"], result["job_id"]) == ("submitted", "101")
    assert bench.events() == ["intent", "submitted"]


@pytest.mark.parametrize("answer", [("timeout", "", ""), (1, "", SILENT), (0, "", "")])
def test_an_unclear_submission_that_is_not_found_is_raised_and_repeated_later(bench: Bench, answer: Any) -> None:
    bench.cluster.sbatch = lambda argv: answer
    with pytest.raises(SlurmUnavailable, match="did not say whether it submitted the job") as caught:
        bench.launch()
    assert caught.value.partial["run_dir"] == bench.run().path
    assert bench.events() == ["intent"]
    bench.cluster.sbatch = bench.cluster.submit
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    assert bench.launch(submitter="x:1")["generation"] == 1
    assert len(bench.cluster.jobs) == 1


def test_a_queue_that_falls_silent_after_sbatch_is_asked_again(bench: Bench) -> None:
    def enqueues(argv: Sequence[str]) -> tuple[Any, str, str]:
        bench.cluster.submit(argv)
        bench.cluster.down = True
        bench.cluster.before["squeue"] = lambda: bench.cluster.before.update(squeue=up)
        return "timeout", "", ""

    def up() -> None:
        bench.cluster.down = False

    bench.cluster.sbatch = enqueues
    assert bench.launch()["job_id"] == "101"


def test_banners_and_the_long_sentence_are_understood(bench: Bench) -> None:
    bench.cluster.sbatch = lambda argv: (0, "Welcome\nSubmitted batch job 4711 on cluster lab\n", "")
    result = bench.launch()
    assert result["job_id"] == "4711"
    assert bench.run().events()[-1]["cluster"] == "lab"


def test_a_job_id_that_cannot_be_written_down_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    record = RunDirectory.record

    def full(run: RunDirectory, event: str, **details: object) -> None:
        if event == "submitted":
            raise OSError(28, "No space left on device")
        record(run, event, **details)

    monkeypatch.setattr(RunDirectory, "record", full)
    with pytest.raises(RankzeroError, match=r"job 101 was submitted, but .* No space left on device") as caught:
        bench.launch()
    assert caught.value.partial["job_id"] == "101"
    monkeypatch.undo()
    assert bench.launch()["submission"] == "adopted"


# --- what is not this launch's, or is so without its folder


def test_a_job_that_has_got_the_number_meanwhile_is_not_this_launchs(bench: Bench) -> None:
    """Job ids are reused over months; a slurmctld that crashed may do so at once."""
    bench.launch()
    bench.cluster.jobs["101"].update(name="another", state="RUNNING")
    kept = bench.launch(relaunch="never")
    assert (kept["standing"], kept["message"]) == ("failed", "the job is gone from Slurm and left no verdict")
    anew = bench.launch()
    assert (anew["submission"], anew["generation"], anew["job_id"]) == ("submitted", 2, "102")


@pytest.mark.parametrize(
    "shown", [{"name": "job.0123456789abcdef.7"}, {"name": "mine", "work_dir": "/x/runs/job/0123456789abcdef/1"}]
)
def test_a_script_that_was_submitted_by_hand_is_known_by_its_name_or_its_folder(
    bench: Bench, shown: Mapping[str, str]
) -> None:
    bench.launch()
    bench.cluster.jobs["101"].update(state="RUNNING", **shown)
    assert bench.launch()["submission"] == "adopted"


def test_a_job_that_waits_is_the_launch_also_when_its_run_directory_was_removed(bench: Bench) -> None:
    bench.launch()
    shutil.rmtree(bench.run().path)
    result = bench.launch()
    assert (result["submission"], result["job_id"], result["generation"]) == ("adopted", "101", 1)
    assert bench.events() == ["intent", "adopted"]
    assert bench.cluster.commands.count("sbatch") == 1


def test_beside_a_job_whose_run_directory_was_removed_nothing_is_submitted(bench: Bench) -> None:
    bench.launch()
    bench.leaves("RUNNING")
    shutil.rmtree(bench.run().path)
    with pytest.raises(
        RankzeroError, match=r"job 101 of this launch is RUNNING, but its run directory .*/1 was removed"
    ):
        bench.launch()
    assert not os.path.isdir(bench.run().path) and bench.cluster.commands.count("sbatch") == 1
    bench.cluster.jobs["101"].update(state="CANCELLED")
    assert bench.launch()["submission"] == "submitted"


def test_a_folder_that_another_submitter_puts_in_place_meanwhile_is_no_fault(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the listing, and gone when one looks at its age."""
    real = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path=".": real(path) + ([".new-gone"] if "runs" in str(path) else []))
    assert bench.launch()["submission"] == "submitted"


def test_a_journal_that_is_not_seen_yet_is_not_a_dead_submitter(bench: Bench) -> None:
    """A network file system shows the generation's folder before what is in it: nothing may be submitted again."""
    bench.intent("elsewhere:1")
    journal = Path(bench.run().file("journal.jsonl"))
    kept = journal.read_text(encoding="utf-8")
    journal.unlink()
    began = bench.time

    def appears() -> None:
        if bench.time > began + 3:
            journal.write_text(
                kept.replace("intent", "submitted").replace("{", '{"job_id": "101", ', 1), encoding="utf-8"
            )
            bench.cluster.jobs.setdefault(
                "101",
                {
                    **bench.cluster.jobs.get("101", {}),
                    "name": bench.name(),
                    "state": "RUNNING",
                    "squeue": True,
                    "exit": 0,
                    "submit": int(time.time()),
                },
            )
        else:
            bench.cluster.before["squeue"] = appears

    bench.cluster.before["squeue"] = appears
    result = bench.launch()
    assert (result["submission"], result["job_id"]) == ("adopted", "101")
    assert "sbatch" not in bench.cluster.commands


def test_an_adoption_that_cannot_be_written_down_is_one_all_the_same(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.intent("elsewhere:1")
    job_id = bench.cluster.add(bench.name(), "RUNNING")

    def fails(*_arguments: object, **_details: object) -> None:
        raise OSError(2, "No such file or directory")

    monkeypatch.setattr(RunDirectory, "record", fails)
    launcher = bench.launcher()
    assert launcher.launch().result()["job_id"] == job_id
    assert "was adopted cannot be recorded there" in launcher.slurm.notes[0]


def test_a_verdict_that_is_not_seen_yet_is_waited_for(bench: Bench) -> None:
    """The script ended with 0, so there is one; a network file system may hide it for a while."""
    bench.launch()
    bench.leaves("COMPLETED")
    bench.time = NOW - 895  # the job ended at NOW - 900
    launcher = bench.launcher()
    slept = launcher.sleep

    def sleep(seconds: float) -> None:
        slept(seconds)
        if bench.time > NOW - 880:
            bench.ends(True)

    launcher.sleep = sleep
    result = launcher.launch().result()
    assert (result["submission"], result["standing"]) == ("unchanged", "succeeded")
    assert bench.cluster.commands.count("sbatch") == 1
