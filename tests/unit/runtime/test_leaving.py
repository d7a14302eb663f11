# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""After the verdict: everything that a job still waits for ends within its seconds, or is ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import RUNTIME
from tests.unit.runtime.harness import runtime_parts, wait_for
from tests.writers import Run


def test_the_guard_frees_a_script_that_waits_for_what_it_has_started(tmp_path: Path) -> None:
    """Its child is killed, and the script itself goes on to its own exit code."""
    script = subprocess.Popen(["/bin/bash", "-c", "sleep 600; exit 5"])
    with runtime_parts("artifact.guard") as guard:
        born = guard.state_of(script.pid)[1]
        wait_for(lambda: guard.descendants(script.pid), script)
        guard.stand(script.pid, born, 0)
    assert script.wait(timeout=30) == 5


def test_the_guard_kills_a_script_that_stays_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    script = subprocess.Popen(["/bin/bash", "-c", "trap '' TERM; while :; do sleep 0.1; done"])
    with runtime_parts("artifact.guard") as guard:
        monkeypatch.setattr(guard, "AFTER_KILL_SECONDS", 0.5)
        guard.stand(script.pid, guard.state_of(script.pid)[1], 0)
    assert script.wait(timeout=30) == -signal.SIGKILL


def test_the_guard_leaves_with_the_script_and_touches_nobody_else() -> None:
    with runtime_parts("artifact.guard") as guard:
        # Another process that has got the number: it was born at another time.
        guard.stand(os.getpid(), guard.state_of(os.getpid())[1] + 1, 0)
        ended = subprocess.Popen([sys.executable, "-c", ""])
        wait_for(lambda: guard.state_of(ended.pid) is None, ended)
        assert guard.gone(ended.pid, 1, 60)


#: The end of a job whose ranks have ended, while something is held that does not let go.
ENDING = """\
import os, sys
runtime, folder = sys.argv[1:]
sys.path.insert(0, runtime)
sys.dont_write_bytecode = True
from core import held_steps, traps
from core.state import Ended, Job
from end import finish
names = {"RUN_DIR": folder, "ATTEMPT": "0", "GENERATION": "1", "KEY": "k"}
env = {**os.environ, **{f"RANKZERO_{name}": value for name, value in names.items()}, "RANKZERO_ATTACHED": "1.0"}
job = Job(env=env, runtime=runtime, python=sys.executable)
traps.from_the_start(job)
held_steps.tie(job, ["sleep", "600"])
job.step.ended_by = "program"
try:
    finish.end(job)
except Ended as end:
    sys.exit(end.code)
"""


def test_the_verdict_is_there_while_the_job_is_still_ending(tmp_path: Path) -> None:
    """What is held does not let go, and the verdict does not wait for it."""
    run = Run.below(tmp_path).contract().path
    words = [sys.executable, "-I", "-S", "-c", ENDING, RUNTIME, str(run)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        wait_for((run / "outcome.json").exists, process)
        assert process.poll() is None
    finally:
        with runtime_parts("artifact.guard") as guard:
            started = guard.descendants(process.pid)
        process.kill()
        process.wait()
        for child in started:
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
