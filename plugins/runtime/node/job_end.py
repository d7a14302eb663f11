# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a step that holds something on a node for the ranks has to let go of it. Standard library only.

The batch script holds the step's standard input open: its end is the word that the job is over. Where the script itself
was ended, the ranks may still be saving themselves: what they use stays until they are gone.
"""

from __future__ import annotations

import os
import select
import signal
import time

from core import files

# After SIGTERM without a word from the batch script: how long ranks have to show up before there are none.
RANKS_SECONDS = 1.0


class End:
    """Listens from its making on. `word`: what the batch script has said last, and nobody has taken."""

    def __init__(self) -> None:
        self.signals: list[float] = []
        self.seen = False
        self.word = b""
        # A program may be told to save itself by any of them, and every step hears it. The end comes by TERM or INT.
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.signals.append(time.monotonic()))

    def reached(self, seconds: float) -> bool:
        """Waits so long for a word; whether it is over."""
        if select.select([0], [], [], seconds)[0]:
            word = os.read(0, 4096)
            if not word:
                return True
            self.word = word
        if not self.signals:
            return False
        alive = ranks_alive()
        self.seen = self.seen or alive
        return not alive and (self.seen or time.monotonic() - self.signals[0] > RANKS_SECONDS)


def ranks_alive() -> bool:
    """Whether a process of another step of this run is here, as this user. Other runs may be in the job, too."""
    own, job = os.environ.get("SLURM_STEP_ID"), os.environ["SLURM_JOB_ID"]
    run = os.environb.get(b"RANKZERO_RUN_DIR")
    for number in filter(str.isdigit, os.listdir("/proc")):
        # Root may read the variables of others, who write what they like into them.
        if not files.own_process(number):
            continue
        try:
            with open(f"/proc/{number}/environ", "rb") as stream:
                environment = dict(entry.partition(b"=")[::2] for entry in stream.read().split(b"\0"))
        except OSError:
            continue
        # One that holds something, as we do, is no rank: two of them would wait for each other.
        if environment.get(b"RANKZERO_RUN_DIR", run) != run or b"RANKZERO_HOLDS" in environment:
            continue
        if environment.get(b"SLURM_JOB_ID") == job.encode() and environment.get(b"SLURM_STEP_ID") not in (
            None,
            os.fsencode(own or ""),
        ):
            return True
    return False
