# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a job ends: signals, a watcher that ends it, and the exit code that remains."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.unit.runtime.harness import ARTIFACT, Site, shell, wait_for

# --- ends


def test_then_end_ends_a_program_that_ignores_term(site: Site) -> None:
    line = "trap '' TERM; echo '{\"loss\": 1.0}' > result.json; while :; do sleep 0.1; done"
    job = site.job({**shell(line), "artifact": {**ARTIFACT, "then": "end"}})
    # Slurm ends what a killed srun leaves behind; here the ranks' process group is that.
    process = job.start()
    try:
        assert process.wait(timeout=60) == 0, job.log()
    finally:
        _kill_those_in(job.run / "work")
    outcome = job.outcome()
    assert (outcome["success"], outcome["ended_by"], outcome["exit_code"]) == (True, "artifact", 137)
    assert "the artifact has landed: ending the step" in job.log()


def test_then_end_lets_a_program_that_heeds_term_finish(site: Site) -> None:
    line = (
        "trap 'touch \"$RANKZERO_RUN_DIR/saved\"; exit 0' TERM; echo '{\"loss\": 1.0}' > result.json; "
        "while :; do sleep 0.1; done"
    )
    job = site.job({**shell(line), "artifact": {**ARTIFACT, "then": "end"}})
    assert job.finish() == 0, job.log()
    assert (job.outcome()["ended_by"], job.outcome()["exit_code"]) == ("artifact", 0)
    assert (job.run / "saved").exists()


def test_then_end_waits_for_a_valid_artifact(site: Site) -> None:
    line = (
        "echo '{\"loss\": 9.0}' > result.json; sleep 0.6; echo '{\"loss\"' > result.json; sleep 0.6; "
        'echo \'{"loss": 1.0, "steps": 3}\' > result.json; exec sleep 60'
    )
    job = site.job({**shell(line), "artifact": {**ARTIFACT, "then": "end"}})
    assert job.finish() == 0, job.log()
    assert job.outcome()["artifact"]["scalars"] == {"loss": 1.0, "steps": 3}


def test_a_program_that_ends_by_itself_beside_the_watcher_keeps_its_exit_code(site: Site) -> None:
    """The watcher's signal and the end of the step may come in any order, at any moment."""
    for number in range(6):
        line = f"echo '{{\"loss\": 1.0}}' > result.json; sleep 0.{number}; exit 0"
        job = site.job({"name": f"n{number}", **shell(line), "artifact": {**ARTIFACT, "then": "end"}})
        assert job.finish() == 0, job.log()
        outcome = job.outcome()
        expected = {"program": (0,), "artifact": (143, 0)}[outcome["ended_by"]]
        assert outcome["exit_code"] in expected


def test_a_failing_program_is_not_waited_for_by_the_watcher(site: Site) -> None:
    job = site.job({**shell("exit 4"), "artifact": {**ARTIFACT, "then": "end"}})
    assert job.finish() == 4
    assert job.outcome()["ended_by"] == "program"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_goes_on_to_the_ranks(site: Site, number: signal.Signals) -> None:
    line = "trap 'echo saved; exit 5' TERM; touch \"$RANKZERO_RUN_DIR/begun\"; while :; do sleep 0.1; done"
    job = site.job({**shell(line), "artifact": {**ARTIFACT, "then": "end"}})
    process = job.start()
    wait_for((job.run / "begun").exists, process)
    process.send_signal(number)
    assert process.wait(timeout=60) == 5
    outcome = job.outcome()
    assert (outcome["ended_by"], outcome["exit_code"], outcome["success"]) == ("signal", 5, False)
    assert "saved" in (job.run / "logs/0/rank-0000.log").read_text(encoding="utf-8")


def test_a_signal_that_comes_after_the_ranks_have_ended_of_it_is_a_cancellation(site: Site) -> None:
    """Slurm signals the ranks and the batch script one after the other."""
    # The parent of srun, which has ended by then.
    conductor = "conductor=$(ps -o ppid= -p $PPID)"
    job = site.job(shell(f"{conductor}; (sleep 0.4; kill -TERM $conductor) & kill -TERM $$"))
    assert job.finish() == 143, job.log()
    assert job.outcome()["ended_by"] == "signal"


def test_ranks_that_end_of_a_signal_alone_have_failed(site: Site) -> None:
    job = site.job(shell("kill -TERM $$"))
    assert job.finish() == 143, job.log()
    assert job.outcome()["ended_by"] == "program"


def test_a_signal_after_the_artifact_takes_nothing_back(site: Site) -> None:
    line = (
        "trap 'touch \"$RANKZERO_RUN_DIR/told\"' TERM; echo '{\"loss\": 1.0}' > result.json; "
        'until [ -e "$RANKZERO_RUN_DIR/go" ]; do sleep 0.1; done'
    )
    job = site.job({**shell(line), "artifact": {**ARTIFACT, "then": "end"}})
    process = job.start()
    wait_for((job.run / "told").exists, process)
    process.send_signal(signal.SIGTERM)
    (job.run / "go").touch()
    assert process.wait(timeout=60) == 0, job.log()
    assert job.outcome()["ended_by"] == "artifact"


def _kill_those_in(folder: Path) -> None:
    """End the processes whose working directory is this one: they are ours."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.readlink(entry / "cwd") == str(folder):
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                continue
