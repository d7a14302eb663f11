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
from tests.unit.runtime.harness import ARTIFACT, Site, runtime_parts, shell, wait_for

UNTIE = "rankzero_tie; rankzero_untie $rankzero_tied $rankzero_tie"
BEGIN = f"set -u; RANKZERO_RUNTIME={RUNTIME}; . {RUNTIME}/processes.sh; . {RUNTIME}/holding.sh; "


def bash(text: str, **how: str) -> str:
    ended = subprocess.run(
        ["/bin/bash", "-c", BEGIN + text],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **how},
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_holder_ends_with_its_standard_input() -> None:
    said = bash(f"rankzero_words=(cat); {UNTIE}; rankzero_lives $rankzero_tied || echo ended")
    assert said == "ended\n"


@pytest.mark.parametrize("program", ["sleep 600", "trap '' TERM; while :; do sleep 1; done"])
def test_a_holder_that_does_not_end_is_ended(program: str) -> None:
    """One heeds TERM, the other one only KILL. Their common time is over."""
    said = bash(
        f'rankzero_words=(setsid /bin/bash -c "{program}"); rankzero_tie; rankzero_in rankzero_untied_by 0; '
        "rankzero_untie $rankzero_tied $rankzero_tie; rankzero_lives $rankzero_tied || echo ended"
    )
    assert said == "ended\n"


def test_a_holder_that_cannot_be_started_is_not_waited_for() -> None:
    assert bash(f"rankzero_words=(/no/such/program); {UNTIE} 2> /dev/null; echo over") == "over\n"


def test_a_command_has_its_seconds() -> None:
    assert bash("rankzero_within 30 /bin/bash -c 'exit 7'; echo $?; rankzero_within 0 sleep 600; echo $?") == "7\n124\n"


def test_the_exit_code_of_a_child_that_bash_does_not_know_is_127() -> None:
    assert bash("rankzero_collect 999999999; echo $rankzero_code") == "127\n"


def test_the_guard_frees_a_script_that_waits_for_what_it_has_started(tmp_path: Path) -> None:
    """Its child is killed, and the script itself goes on to its own exit code."""
    script = subprocess.Popen(["/bin/bash", "-c", "sleep 600; exit 5"])
    with runtime_parts("guard") as guard:
        born = guard.state_of(script.pid)[1]
        wait_for(lambda: guard.descendants(script.pid), script)
        guard.stand(script.pid, born, 0)
    assert script.wait(timeout=30) == 5


def test_the_guard_kills_a_script_that_stays_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    script = subprocess.Popen(["/bin/bash", "-c", "trap '' TERM; while :; do sleep 0.1; done"])
    with runtime_parts("guard") as guard:
        monkeypatch.setattr(guard, "AFTER_KILL_SECONDS", 0.5)
        guard.stand(script.pid, guard.state_of(script.pid)[1], 0)
    assert script.wait(timeout=30) == -signal.SIGKILL


def test_the_guard_leaves_with_the_script_and_touches_nobody_else() -> None:
    with runtime_parts("guard") as guard:
        # Another process that has got the number: it was born at another time.
        guard.stand(os.getpid(), guard.state_of(os.getpid())[1] + 1, 0)
        ended = subprocess.Popen([sys.executable, "-c", ""])
        wait_for(lambda: guard.state_of(ended.pid) is None, ended)
        assert guard.gone(ended.pid, 1, 60)


def test_the_verdict_is_there_while_the_job_is_still_ending(site: Site) -> None:
    """What is held does not let go, and the verdict does not wait for it."""
    hold = "rankzero_words=(setsid sleep 600); rankzero_tie; "
    hold += "rankzero_sealer=$rankzero_tied rankzero_unsealing=$rankzero_tie"
    job = site.job(
        {
            **shell("echo '{\"loss\": 1.0}' > result.json; sleep 60"),
            "artifact": {**ARTIFACT, "then": "end"},
            "setup": {"commands": [hold]},
        }
    )
    process = job.start()
    try:
        wait_for((job.run / "outcome.json").exists, process)
        assert process.poll() is None
        assert job.outcome()["ended_by"] == "artifact"
    finally:
        process.kill()
        process.wait()
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if (
                    entry.name.isdigit()
                    and (entry / "cwd").readlink() == job.run
                    and b"sleep" in (entry / "cmdline").read_bytes()
                ):
                    os.kill(int(entry.name), signal.SIGKILL)
