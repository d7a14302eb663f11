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
import math
import os
import time
from dataclasses import dataclass, field

from core import held_steps, processes
from core.log import log_line
from core.state import Held, Job
from node import node_steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rank.asked import Asked

# Until the nodes have made their folders; until they have brought everything, and without a word from any of them.
READY_SECONDS, BRING_SECONDS, QUIET_SECONDS = 20, 60, 6
# Where ranks that wait look whether they wait in vain, beside the file that takes what the collectors print; those of
# one node at this name with .NODE.
ALONE = "alone"
# Bytes of a line that are read at a time.
LONGEST = 64 << 10
LOOK_SECONDS = 0.05
# Between two looks at what the nodes are asked.
LOOK_EVERY = 2.0


@dataclass(eq=False)
class Collectors:
    """The step, once it has begun, and the file that takes what its tasks print."""

    path: str
    nodes: list[str]
    asked: Asked
    ready_by: float
    held: Held | None = None
    last: str = ""
    next: float = field(default_factory=time.monotonic)
    told: bool = False

    def serve_nodes(self, job: Job) -> None:
        """Start them beside the ranks, whose step must not wait for them. Then say to all nodes what they are asked,
        where that has changed: srun gives each task all that it is given.
        """
        if not processes.due(self.next):
            return
        self.next = processes.after(LOOK_EVERY)
        if self.held is None:
            self.start(job)
        elif not processes.runs(self.held.process):
            self.leave_alone()
        else:
            self.pass_on(self.asked.word())
        if processes.due(self.ready_by):
            self.tell_of_missing()

    def start(self, job: Job) -> None:
        """Start a task on each node. Without one, its ranks write their own logs."""
        nodes = job.get("RANKZERO_NODELIST")
        words = node_steps.words(job, nodes, "1", self.path, ["rank/collector.py"], bind=False)
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            self.held, self.last = held_steps.tie(job, words), self.asked.word()
        except OSError:
            # It is not tried again.
            self.next = math.inf
            self.leave_alone()
            return
        os.set_blocking(self.held.pipe, False)

    def pass_on(self, word: str) -> None:
        if self.held and word != self.last:
            self.last = word
            # Never more than the pipe takes: a step that does not read would hold the conductor.
            with contextlib.suppress(OSError):
                os.write(self.held.pipe, f"{word}\n".encode())

    def leave_alone(self) -> None:
        """No node has a collector: ranks that wait for theirs see this (rank.sh)."""
        self.next = math.inf
        with contextlib.suppress(OSError):
            open(os.path.join(os.path.dirname(self.path), ALONE), "x").close()

    def said(self, word: str) -> dict[str, str]:
        """Node -> line of those that begin with a word."""
        begin = f"[{word} ".encode()
        try:
            with open(self.path, "rb") as stream:
                lines = [line for line in iter(lambda: stream.readline(LONGEST), b"") if line.startswith(begin)]
        except OSError:
            return {}
        return {line[len(begin) :].partition("]")[0]: line for line in map(os.fsdecode, map(bytes.strip, lines))}

    def tell_of_missing(self) -> None:
        """Say once which nodes have no collector, and why."""
        if self.told:
            return
        self.told = True
        failed, ready = self.said("failed"), self.said("ready")
        silent = [node for node in self.nodes if node not in failed and node not in ready]
        for line in [*failed.values()][:3]:
            log_line(f"logs: {line}; its ranks write their own logs")
        if silent:
            names = " ".join(silent[:3]) + (f" and {len(silent) - 3} more nodes" if len(silent) > 3 else "")
            log_line(f"logs: no collector has come up on {names}: the ranks there write their own logs")


def begin(job: Job) -> Collectors | None:
    """Let them start with the ranks' step. Ranks in a container cannot tell whether they will see the folder on their
    node: there they are ready before, or the ranks write their own logs.
    """
    job.drop("RANKZERO_SPOOL")
    if not job.get("RANKZERO_LOG_PER"):
        return None
    from rank import asked

    job.export("RANKZERO_SPOOL", node_steps.view(job, f"ranks.{job.attempt}"))
    seconds = job.number("RANKZERO_SPOOL_SECONDS", READY_SECONDS)
    made = Collectors(job.collected, list(job.nodes), asked.Asked(job.env), processes.after(seconds))
    if job.get("RANKZERO_CONTAINER") or job.roles:
        job.drop("RANKZERO_SPOOL_SECONDS")
        made.start(job)
        _await(job, made)
    else:
        job.export("RANKZERO_SPOOL_SECONDS", seconds)
    job.looks.append(made.serve_nodes)
    return made


def _await(job: Job, made: Collectors) -> None:
    """Wait until each node has a folder for its ranks, or has said that it has none."""
    while made.held and processes.runs(made.held.process) and not processes.due(made.ready_by):
        # The ranks' step acts on it.
        if job.signals.terminated or job.signals.cancelled:
            break
        if len(made.said("ready")) + len(made.said("failed")) >= len(made.nodes):
            break
        processes.pause(LOOK_SECONDS)


def finish(job: Job, made: Collectors | None) -> None:
    """Once the ranks have ended: the nodes bring the rest. One that has died, or never came up, says nothing, and is
    not waited for.
    """
    if made is None:
        return
    job.looks.remove(made.serve_nodes)
    if made.held is None or made.held not in job.held:
        return
    os.close(made.held.pipe)
    until, size, grown = processes.after(BRING_SECONDS), -1, time.monotonic()
    while processes.runs(made.held.process) and not processes.due(until):
        now = os.path.getsize(made.path) if os.path.exists(made.path) else 0
        if now != size:
            size, grown = now, time.monotonic()
        elif time.monotonic() - grown >= QUIET_SECONDS and (made.said("done") or not made.said("ready")):
            break
        processes.pause(LOOK_SECONDS)
    job.held.remove(made.held)
    processes.wait_or_kill(made.held.process, 0)
    made.tell_of_missing()
