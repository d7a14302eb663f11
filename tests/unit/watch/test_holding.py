# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A poll that waits on the host for something to read."""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.watch import remote_poll
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.poll import Target
from tests.unit.watch.test_poll import Login, fake_squeue, host, login, row, run_dir
from tests.writers import Run

__all__ = ["host", "login", "run_dir"]


@pytest.mark.parametrize("name", ["claim", "started.json", "outcome.json"])
def test_a_poll_waits_until_the_job_writes_something(login: Login, run_dir: Path, name: str) -> None:
    before = login.poll(Target(str(run_dir), "7"))
    assert before.held == 0
    target = Target(str(run_dir), "7", state=before.views[0].state)
    unchanged = login.poll(target, hold=0.2)
    assert unchanged.held >= 0.2 and unchanged.views[0].state == before.views[0].state
    with ThreadPoolExecutor(1) as beside:
        waiting = beside.submit(login.poll, target, hold=60.0)
        (run_dir / f".{name}").write_text("1 lab 8\n" if name == "claim" else '{"attempt": 0}')
        (run_dir / f".{name}").rename(run_dir / name)
        found = waiting.result()
    assert found.held < 60 and found.views[0].state != before.views[0].state
    view = found.views[0]
    assert [view.claim, view.started, view.outcome].count(None) == 2


def test_a_poll_that_waits_opens_one_folder_at_a_time_and_no_file(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Run(run_dir).ended()
    state = remote_poll.state_of(str(run_dir), "work/out")
    target = Target(str(run_dir), "7", artifact="work/out", state=state)
    opened: list[str] = []
    now = [0.0]
    open_ = os.open
    monkeypatch.setattr(os, "open", lambda path, flags: opened.append(path) or open_(path, flags))
    monkeypatch.setattr(remote_poll.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(remote_poll.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    assert remote_poll._await_change([target], 5.0) == 5.0
    assert set(opened) == {str(run_dir)} and len(opened) <= 5.0 / remote_poll.PAUSE + 1
    (run_dir / "work").mkdir()
    (run_dir / "work" / "out").write_text("1")
    assert remote_poll._await_change([target], 5.0) == 0.0


def test_a_poll_ends_when_nobody_reads_it_any_more(login: Login, run_dir: Path) -> None:
    login.poll(Target(str(run_dir), "7", state="another"), hold=600.0)
    command, request = login.sent
    state = remote_poll.state_of(str(run_dir), "")
    streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    waiting = subprocess.Popen(["/bin/sh", "-c", command], env=login.environment, **streams)
    assert waiting.stdin and waiting.stdout
    waiting.stdin.write(request.replace(b'"another"', json.dumps(state).encode()))
    waiting.stdin.close()
    waiting.stdout.close()
    assert waiting.wait(60) != 0


def test_the_queue_is_asked_after_a_wait_in_which_nothing_has_changed(
    login: Login, tmp_path: Path, run_dir: Path
) -> None:
    """What has changed may be the end of the job, which is shown without a question to Slurm before it."""
    fake_squeue(tmp_path, row("7"))
    changed = login.poll(Target(str(run_dir), "7"), jobs=("7",), hold=60.0)
    assert (changed.held < 60, changed.asked, changed.queue) == (True, False, {})
    target = Target(str(run_dir), "7", state=changed.views[0].state)
    unchanged = login.poll(target, jobs=("7",), hold=0.1)
    assert (unchanged.held >= 0.1, unchanged.asked, list(unchanged.queue)) == (True, True, ["7"])
