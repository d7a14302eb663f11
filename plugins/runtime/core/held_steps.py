# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps that hold something on the nodes as long as the job lives: copies, environments, mounts. They end when their
standard input does, however the job ends; job_end.py is their half. Standard library only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from core import lost, processes
from core.log import log_line, publish_json
from core.state import Held, Job

# All of them share it; then TERM, and KILL.
RELEASE_SECONDS = 120
# After so long, and then after twice as long each time, it is asked whether silent nodes are lost: each may also be
# busy.
LOOK_SECONDS = 30
#: What a program that waits says before the names of the nodes that it still waits for.
SILENT = "silent "


def tie(job: Job, words: Sequence[str], log: str | None = None, seconds: float = RELEASE_SECONDS) -> Held:
    """Start a step with a standard input that we hold open. Raises OSError. No other child inherits our end."""
    reader, writer = os.pipe()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644) if log else None
    try:
        # In a session of its own: a terminal's Ctrl-C is not for it.
        child = processes.start(words, job.env, stdin=reader, stdout=output, stderr=output, session=True)
        made = Held(child, writer, seconds)
    finally:
        os.close(reader)
        if output is not None:
            os.close(output)
    job.held.append(made)
    return made


def heard(job: Job, folder: str, seconds: float, words: Sequence[str]) -> list[str]:
    """The lines of a program that waits until every node with a step that holds something has left its word, NODE.json
    in a folder. A node that is lost leaves none, and need not be waited for.
    """
    began, look = time.monotonic(), job.number("RANKZERO_LOOK_SECONDS", LOOK_SECONDS)
    while True:
        more = ["--look", str(look), "--spent", str(int(time.monotonic() - began))]
        lines = processes.output_of(seconds, [*words, *more], job.env)[1].splitlines()
        if not lines or not lines[0].startswith(SILENT):
            return lines
        for node in lost.among(job, lines[0][len(SILENT) :].split(","), held=True):
            log_line(f"{node} is lost: it is not waited for")
            publish_json(os.path.join(folder, f"{node}.json"), {"problem": "it failed before the ranks started"})
        look *= 2


def untie(job: Job, step: Held) -> None:
    """Tell a step that the job is over, and wait: its seconds, and no longer than the moment that all of them share."""
    os.close(step.pipe)
    job.held.remove(step)
    left = RELEASE_SECONDS if job.release_deadline is None else job.release_deadline - time.monotonic()
    processes.wait_or_kill(step.process, min(step.seconds, max(1.0, left)))


def release(job: Job) -> None:
    """At the end of the job, or before the ranks start again on other nodes: the nodes let go of what they hold, and
    the working directory leads to the snapshot again.
    """
    if not (job.held or job.before_release):
        return
    job.release_deadline = processes.after(RELEASE_SECONDS)
    for undo in reversed(job.before_release):
        undo(job)
    job.before_release.clear()
    for step in reversed(list(job.held)):
        untie(job, step)
    job.release_deadline = None
