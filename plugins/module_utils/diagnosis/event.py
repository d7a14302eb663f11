# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The events of a log file: what each is, and what else the file shows. Data only."""

from __future__ import annotations

from dataclasses import dataclass, field

# This many steps show that a program ran; up to QUIET lines may follow the last of them.
FEW_STEPS = 1
# So many on a progress bar are worth one: files that are loaded have bars as well.
FEW_BARS = 3
QUIET = 60
# Up to this many lines after a normal end belong to it; what follows later is another program.
TEARDOWN = 120

UNEXPLAINED = "exception"
LAUNCHER = "launcher"
CANCELLED = "preempted_or_cancelled"
# Only the job reports these: it refused to start its ranks, or they ended normally without a valid artifact.
SETUP = "setup"
ARTIFACT = "artifact"
# The scheduler's reason for a job that does not start.
PENDING = "pending"
# Slurm could not open the job's log on its first node.
STATE_ROOT = "state_root"
# Slurm drained a node because of the job.
DRAINED = "node_drained"
HANG = "hang"


@dataclass(frozen=True)
class Event:
    """One line that may matter. `time`: seconds, comparable within a file; `progress`: steps logged before it;
    `printed`: the length of the text before it, without tracebacks.

    `after`: how the exception follows the one before it on its stream: empty, `during` or `direct`.
    `top`: an exception whose traceback begins with the program itself, which therefore ended; `caught`: one that begins
    in a function, which caught and logged it.
    `process`: its number, where a prefix of the line has it.
    `witness`: Slurm, the preflight or the node's sampler said it. What is in a log, any program may have printed.
    `what`, `remedy`: those of the wording or of the event, where it has its own; otherwise those of its family.
    `retry`: whether another try can help, where its wording says so.
    """

    family: str
    strength: int
    text: str
    line: int
    file: str = ""
    rank: int | None = None
    node: str | None = None
    time: float | None = None
    progress: int = 0
    bars: int = 0
    after: str = ""
    run: int = 0
    printed: int = 0
    captured: tuple[tuple[str, str], ...] = ()
    what: str = ""
    remedy: str = ""
    top: bool = False
    caught: bool = False
    process: str = ""
    witness: bool = False
    retry: bool | None = None

    @property
    def stream(self) -> tuple[str, int | None, str | None, str]:
        """The stream of the line. In a log of all ranks, each rank or process is one stream."""
        return self.file, self.rank, self.node, self.process


@dataclass
class FileEvents:
    """The events of one log.

    `progress`: the number of logged steps; `bars`: steps on a progress bar, which is not buffered; `done`: the line of
    the last message of a normal end; `last_step`: the line with `step N/N`, unless a later line shows a smaller step;
    `requeued`: Slurm requeued the job, and no step was logged since; `step_line`: the line of the last step;
    `printed`: the length of all text outside of tracebacks; `begun`: the line where the newest run begins; `inferred`:
    nothing but the text shows that it begins there; `steps_before`: the steps of the runs before it; `ran`: the line of
    the last warning of Python; `labelled`: that of the last one which srun or mpirun put the rank before; `several`:
    the text shows that several processes write it; `complains`: its last line is a complaint that is no event;
    `echoed`: nothing reports a normal end but a sentence that a script may write whatever became of its program.
    """

    file: str
    events: list[Event] = field(default_factory=list)
    lines: int = 0
    progress: int = 0
    bars: int = 0
    done: int = 0
    last_step: int = 0
    requeued: bool = False
    runs: int = 0
    ranks: set[int] = field(default_factory=set)
    last: str = ""
    step_line: int = 0
    printed: int = 0
    begun: int = 0
    inferred: bool = False
    steps_before: int = 0
    ran: int = 0
    labelled: int = 0
    several: bool = False
    complains: bool = False
    echoed: bool = False

    @property
    def finished(self) -> bool:
        """Whether the newest run reports a normal end."""
        return max(self.done, self.last_step) > self.begun and self.lines - max(self.done, self.last_step) <= TEARDOWN

    @property
    def steps(self) -> int:
        """The number of logged steps. Those that only a progress bar shows count less."""
        return self.progress + self.bars // FEW_BARS

    @property
    def to_the_end(self) -> bool:
        """Whether the newest run logged steps until close to the end of the file."""
        return self.steps - self.steps_before >= FEW_STEPS and self.lines - self.step_line <= QUIET
