# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who still works on a thing that has no name yet."""

from __future__ import annotations

import os
import subprocess
import time

from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import (
    fresh_folder,
    lives,
    process_scope,
    sweep,
)


def test_a_process_that_has_ended_lives_no_more_although_nobody_has_heard_of_it(tmp_path: object) -> None:
    """In a container without an init nobody ever does."""
    assert lives(os.getpid())
    process = subprocess.Popen(["sleep", "60"])
    assert lives(process.pid)
    left = f"{tmp_path}/.key.{process_scope()}-{process.pid}-1.tmp"
    os.mkdir(left)
    assert sweep(str(tmp_path)) == []
    process.kill()
    deadline = time.monotonic() + 30
    while lives(process.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert os.path.exists(f"/proc/{process.pid}") and not lives(process.pid)
    with fresh_folder(f"{tmp_path}/key"):
        assert not os.path.exists(left)
    process.wait()
    assert not lives(process.pid)
