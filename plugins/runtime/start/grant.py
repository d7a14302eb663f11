# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The grant of a launch that several clusters were asked to run (module_utils/run/grants.py). Standard library only."""

from __future__ import annotations

import contextlib
import os
import time

from artifact import verdict
from core import files, processes
from core.log import first_line, log_line, publish
from core.state import Job
from start import claim

FIRST, ASKS, GRANT = "first.json", "asks", "grant"
GRANTED, WITHDRAWN = "granted", "withdrawn"
WITHIN = 600
POLL_SECONDS = 1.0
# The exit code of a job that nobody has let run (EX_TEMPFAIL).
REFUSED = 75


def await_grant(job: Job) -> None:
    """Say that this job has its nodes, and wait until somebody lets it run. Ends the script if nobody does in time: by
    its own word, which is made once as a grant is, so that none can follow.
    """
    begun = time.monotonic()
    within = _within(job)
    publish(job.path(ASKS), f"{job.id} {job.attempt}\n")
    line = _given(job)
    if not line:
        log_line(f"{len(job.nodes)} nodes are fit and wait for the grant (--first), for {within} s at most")
    until = processes.after(within)
    while not line and not processes.due(until):
        processes.pause(POLL_SECONDS)
        line = _given(job)
    waited = time.monotonic() - begun
    cost = f"{len(job.nodes) * waited / 60:.1f} node-minutes"
    if not line:
        line = claim.linked(job, GRANT, f"{WITHDRAWN} no grant came within {within} s; {cost} were lost")
    if line.partition(" ")[0] != GRANTED:
        reason = line.partition(" ")[2] or f"{job.path(GRANT)} can be neither made nor read; {cost} were lost"
        verdict.refuse(job, REFUSED, f"{WITHDRAWN}: {reason}")
    log_line(f"granted after {waited:.0f} s: this cluster runs the launch")


def _within(job: Job) -> int:
    asked = files.load(job.path(FIRST))
    seconds = asked.get("grant_within") if isinstance(asked, dict) else None
    return seconds if isinstance(seconds, int) and seconds > 0 else WITHIN


def _given(job: Job) -> str:
    """The line of the grant; empty while there is none. Listed first: a node remembers that a file was missing."""
    with contextlib.suppress(OSError):
        if GRANT in os.listdir(job.run_dir):
            return first_line(job.path(GRANT))
    return ""
