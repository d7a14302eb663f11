# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collectors beside the ranks (collector.py): one step, with a task on each node. They run on many nodes, where
files for each rank and each sample would be too many for the shared storage, and where ranks share a log. They also
hear from here what the nodes are asked (stacks.py): each of them would have to look at the shared storage all the time.
Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field

from core import held_steps, processes
from core.log import log_line
from core.state import Held, Job
from node import node_steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rank.stacks import Asked

# Until the nodes have made their folders; until they have brought everything, and without a word from any of them.
READY_SECONDS, BRING_SECONDS, QUIET_SECONDS = 20, 60, 6
# Bytes of a line that are read at a time.
LONGEST = 64 << 10
LOOK_SECONDS = 0.05
# Between two looks at what the nodes are asked.
LOOK_EVERY = 2.0


@dataclass(eq=False)
class Collectors:
    """The step, and the file that takes what its tasks print."""

    held: Held
    path: str
    nodes: int
    asked: Asked
    last: str = ""
    next: float = field(default_factory=time.monotonic)

    def pass_requests_on(self, job: Job) -> None:
        """Say to all nodes what they are asked, where that has changed. srun gives each task all that it is given."""
        if not processes.due(self.next) or self.held not in job.held:
            return
        self.next, word = processes.after(LOOK_EVERY), self.asked.word()
        if word != self.last:
            self.last = word
            # Never more than the pipe takes: a step that does not read would hold the conductor.
            with contextlib.suppress(OSError):
                os.write(self.held.pipe, f"{word}\n".encode())


def begin(job: Job) -> Collectors | None:
    """Start them, and wait until each node has a folder for its ranks. A node without one has ranks that write their
    own logs.
    """
    job.drop("RANKZERO_SPOOL")
    if not job.get("RANKZERO_LOG_PER"):
        return None
    from rank import stacks

    path = job.collected
    job.export("RANKZERO_SPOOL", node_steps.view(job, f"ranks.{job.attempt}"))
    words = node_steps.words(job, job.get("RANKZERO_NODELIST"), "1", path, ["rank/collector.py"], bind=False)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        asked = stacks.Asked(job.env)
        made = Collectors(held_steps.tie(job, words), path, len(job.nodes), asked, asked.word())
    except OSError:
        return None
    os.set_blocking(made.held.pipe, False)
    job.looks.append(made.pass_requests_on)
    until = processes.after(READY_SECONDS)
    while processes.runs(made.held.process) and not processes.due(until):
        # The ranks' step acts on it.
        if job.signals.terminated or job.signals.cancelled:
            break
        if len(_said(made, b"[ready ")) + len(_said(made, b"[failed ")) >= made.nodes:
            break
        processes.pause(LOOK_SECONDS)
    for line in _said(made, b"[failed ")[:3]:
        log_line(f"logs: {os.fsdecode(line)}; its ranks write their own logs")
    return made


def _said(made: Collectors, word: bytes) -> list[bytes]:
    try:
        with open(made.path, "rb") as stream:
            return [line.strip() for line in iter(lambda: stream.readline(LONGEST), b"") if line.startswith(word)]
    except OSError:
        return []


def finish(job: Job, made: Collectors | None) -> None:
    """Once the ranks have ended: the nodes bring the rest. One that has died says nothing, and is not waited for."""
    if made is not None:
        job.looks.remove(made.pass_requests_on)
    if made is None or made.held not in job.held:
        return
    os.close(made.held.pipe)
    until, size, grown = processes.after(BRING_SECONDS), -1, time.monotonic()
    while processes.runs(made.held.process) and not processes.due(until):
        now = os.path.getsize(made.path) if os.path.exists(made.path) else 0
        if now != size:
            size, grown = now, time.monotonic()
        elif time.monotonic() - grown >= QUIET_SECONDS and _said(made, b"[done "):
            break
        processes.pause(LOOK_SECONDS)
    job.held.remove(made.held)
    processes.wait_or_kill(made.held.process, 0)
