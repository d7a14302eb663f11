# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which signals the batch script handles, and when. A handler only records what came. Standard library only."""

from __future__ import annotations

import signal
from types import FrameType

from core import processes
from core.log import log_line
from core.state import PROGRAM, Job

# What a user's own batch script may be sent by `scancel --batch --signal`, and decides itself.
_OF_A_SCRIPT = (signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2)
_ALL = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGURG)


def from_the_start(job: Job) -> None:
    """An untrapped early signal would end the script. One that comes before the ranks is kept for them."""
    processes.listen()
    # As in any script, not as in a Python program.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    def early(_number: int, _frame: FrameType | None) -> None:
        if job.step.ended_by not in ("", PROGRAM):
            return
        job.signals.early = True
        job.signals.early_due = bool(job.step.ended_by)
        log_line(
            f"{job.get('RANKZERO_EARLY_SECONDS')} s or a little more before the time limit: the ranks get "
            f"{job.get('RANKZERO_EARLY_SIGNAL')}"
        )

    def cancelled(_number: int, _frame: FrameType | None) -> None:
        job.signals.cancelled = True

    if job.get("RANKZERO_EARLY_SECONDS"):
        signal.signal(signal.SIGUSR2, early)
    if job.attached:
        # Every process of the step gets it, and all but this script ignore it. TERM would have srun kill the ranks.
        signal.signal(signal.SIGURG, cancelled)


def during_the_step(job: Job) -> None:
    """A signal to the batch script (scancel, the time limit, preemption) is passed on to the ranks; the watcher's says
    that the artifact is valid.
    """

    def terminated(_number: int, _frame: FrameType | None) -> None:
        job.signals.terminated = True

    def landed(_number: int, _frame: FrameType | None) -> None:
        job.signals.landed = True

    def passed(number: int, _frame: FrameType | None) -> None:
        job.signals.passed.append(number)

    signal.signal(signal.SIGTERM, terminated)
    signal.signal(signal.SIGINT, terminated)
    signal.signal(signal.SIGUSR1, landed)
    ours = {
        signal.SIGUSR1: job.get("RANKZERO_ARTIFACT_THEN") == "end",
        signal.SIGUSR2: bool(job.get("RANKZERO_EARLY_SECONDS")),
    }
    for number in _OF_A_SCRIPT if job.is_script else ():
        if not ours.get(number):
            signal.signal(number, passed)


def no_artifact() -> None:
    """An artifact that lands from here on is judged with the verdict."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def no_more() -> None:
    """From here on Slurm may end this script and what it starts by a signal: both have something to finish first."""
    for number in _ALL:
        signal.signal(number, signal.SIG_IGN)
