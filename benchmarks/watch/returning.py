# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How soon after its artifact a launch releases its nodes, and the command that waits for it returns."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable

from benchmarks.launch.ground import Ground
from benchmarks.launch.timing import Run, kill_tree, start
from benchmarks.launch.ways import Trial, Way, Ways

LINGERS = 20.0
SECONDS = 120.0


def returning(ground: Ground, ways: Ways, rounds: int, killed: bool) -> dict[str, list[float]]:
    """Seconds from the artifact's modification time until the nodes are free (`nodes`), and until the command has ended
    (`control`, if it was not killed). `killed`: the command gets SIGKILL while the program runs.
    """
    way = ways.ours()
    seconds: dict[str, list[float]] = {"nodes": [], "control": []}
    for number in range(rounds + 1):
        ground.settle()
        # To outlive its launcher, the program must run for a while before its artifact.
        trial = Trial(9000 + 100 * killed + number, lingers=LINGERS, watch=True, before=4.0 if killed else 0.0)
        run = start(way.command(trial))
        if killed:
            _until(run, lambda trial=trial: ways.record(trial).exists(), "the program did not start")
            kill_tree(run.process.pid)
        landed = _landed(run, way, trial)
        free = ground.wait_for_empty_queue()
        if not killed:
            run.finish()
        if number:  # the first one sends code and runtime
            seconds["nodes"].append(free - landed)
            if run.ended_at is not None and not killed:
                seconds["control"].append(run.ended_at - landed)
    return seconds


def _landed(run: Run, way: Way, trial: Trial) -> float:
    _until(run, lambda: bool(glob.glob(way.artifact(trial))), "no artifact appeared")
    return os.stat(glob.glob(way.artifact(trial))[0]).st_mtime


def _until(run: Run, there: Callable[[], bool], otherwise: str) -> None:
    until = time.time() + SECONDS
    while not there():
        if time.time() > until:
            kill_tree(run.process.pid)
            raise RuntimeError(f"{otherwise} within {SECONDS:g} s:\n{run.text}")
        time.sleep(0.05)
