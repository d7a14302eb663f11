# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check of an artifact takes a bounded part of the job's memory."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.test_outcome import OWNER, PROGRAM, contract, judged
from tests.writers import Run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory whose attempt has begun."""
    made = Run.below(tmp_path).numbered().path
    (made / "work").mkdir()
    return made


@pytest.mark.parametrize("kind", ["json", "yaml", "csv"])
def test_an_artifact_that_is_too_large_to_be_checked_takes_no_memory(run: Path, kind: str) -> None:
    """The ranks' memory is the job's: a document takes a multiple of its size. Sparse, so the file costs no disk."""
    contract(run, format=kind)
    with (run / "work" / "result.json").open("wb") as stream:
        stream.truncate(300 << 20)

    (error,) = finish_in_little_memory(run, 0)["artifact"]["errors"]
    assert str(300 << 20) in error and str(8 << 20) in error


def test_a_log_of_the_job_of_any_size_takes_no_memory(run: Path) -> None:
    """Whatever prints into the batch script's log. The task that ended first is found: srun says it at the end."""
    contract(run)
    with (run / "logs" / "job.7.log").open("wb") as stream:
        stream.write(b"[rankzero] job 7 attempt 0 begins\n")
        stream.truncate(5_000_000_000)
        stream.seek(0, 2)
        stream.write(b"\nsrun: error: node02: task 1: Exited with exit code 5\n")
    outcome = finish_in_little_memory(run, 143)
    assert outcome["exit_code"] == 5 and "task 1 on node02" in outcome["message"]


def finish_in_little_memory(run: Path, exit_code: int) -> Any:
    """The outcome, decided in 200 MiB of address space."""

    def little() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20))

    ended = subprocess.run(
        [
            *(sys.executable, "-I", str(PROGRAM), "finish", str(run), "--job-id", "7", "--attempt", "0", *OWNER),
            *("--started", "1", "--ended-by", "program", "--exit-code", str(exit_code), "--message", ""),
        ],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=little,
    )
    assert "Traceback" not in ended.stderr
    return json.loads((run / "outcome.json").read_text())


def test_a_number_of_many_digits_is_no_value(run: Path) -> None:
    (error,) = judged(run, '{"loss": ' + "9" * 5000 + "}")
    assert "5000 digits" in error
