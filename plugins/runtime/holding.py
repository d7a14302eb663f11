# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a step that keeps something on a node stays: as long as the job needs it, and ranks that save themselves.

Its standard input is held open by the batch script. Standard library only; imported by stage.py and install.py.
"""

from __future__ import annotations

import os
import select
import signal
import time

POLL_SECONDS = 0.2
# After SIGTERM without a word from the batch script: how long ranks have to show up before there are none.
RANKS_SECONDS = 1.0


class Stay:
    """Listens for the end from its making on."""

    def __init__(self):
        self._ending, self._seen = [], False
        # A program may be told to save itself by any of them, and every step hears it. The end comes by TERM or INT.
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._ending.append(time.monotonic()))

    def told(self):
        """Whether somebody has asked for the end already."""
        return bool(self._ending)

    def over(self):
        """Waits a moment; whether it is time to go."""
        # The batch script has closed our standard input: its word that the job is over.
        if select.select([0], [], [], POLL_SECONDS)[0] and not os.read(0, 4096):
            return True
        if not self._ending:
            return False
        alive = ranks_alive()
        self._seen = self._seen or alive
        return not alive and (self._seen or time.monotonic() - self._ending[0] > RANKS_SECONDS)


def ranks_alive():
    """Whether a process of another step of this run is here, as this user. Other runs may be in the job, too."""
    own, job = os.environ.get("SLURM_STEP_ID"), os.environ["SLURM_JOB_ID"]
    run = os.environb.get(b"RANKZERO_RUN_DIR")
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/environ", "rb") as stream:
                found = dict(one.partition(b"=")[::2] for one in stream.read().split(b"\0"))
        except OSError:
            continue
        if found.get(b"RANKZERO_RUN_DIR", run) != run:
            continue
        if found.get(b"SLURM_JOB_ID") == job.encode() and found.get(b"SLURM_STEP_ID") not in (
            None,
            os.fsencode(own or ""),
        ):
            return True
    return False
