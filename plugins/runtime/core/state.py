# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the conductor knows of its job: one object, which every part of it reads and changes. Standard library only."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

PROGRAM, ARTIFACT, SIGNAL, SETUP, REQUEUE, RESTART = "program", "artifact", "signal", "setup", "requeue", "restart"

# RANKZERO_LAUNCHER where Slurm itself names the ranks: each is a task of the step.
NAMED_BY_SLURM = "srun"
# RANKZERO_LAUNCHER where a script starts whatever it wants.
SCRIPT = "script"
# Lines that each node runs before the ranks, and after them.
BEFORE, AFTER = "before_ranks", "after_ranks"


class Ended(Exception):
    """The script ends here with this exit code. Its log and its verdict are written."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass(eq=False)
class Signals:
    """Which signals have come. Handlers only record them; step.act_on_signals acts on them."""

    early: bool = False
    early_due: bool = False
    terminated: bool = False
    landed: bool = False
    cancelled: bool = False
    #: Those that a user's own batch script was sent by scancel.
    passed: list[int] = field(default_factory=list)


@dataclass(eq=False)
class Step:
    """The ranks' step, or another step that is waited for in its place: its process and the moments to come. `grace`:
    seconds between a TERM and a KILL; 0 for the ranks', to which Slurm gives as long as the site wants.
    `verdict_first`: where Slurm ends the job, the verdict is written before the end of this step is waited for.
    """

    ended_by: str = ""
    exit_code: int = 0
    message: str = ""
    process: int = 0
    grace: float = 0.0
    verdict_first: bool = False
    leave_at: float | None = None
    term_at: float | None = None
    kill_at: float | None = None


@dataclass(eq=False)
class Role:
    """A program of a launch with several (rank/roles.py). `words`: its srun, as the script has it; `env`: what of its
    environment is its own; `per_node`, `ranks`: its processes; `first_rank`: the number of the first one among those of
    all roles; `beside`: the role on whose nodes it runs; `component`: that of the job with its nodes; `hosts`:
    HOST:PORT of each; `answered`: its ports have answered, and `watcher` asks whose they are; `ended_at`: when its end
    is judged; `log_from`: where in its log this start begins; `steps_read`: how far the log of the steps has been read
    for it; `restarts`: of its processes, of which one may have had `most`; `lines_from`: where the log of a process
    that started again goes on, by its rank.
    """

    name: str
    words: list[str]
    env: dict[str, str]
    node_count: int
    per_node: int
    ranks: int
    first_rank: int
    beside: str = ""
    component: int = 0
    dropped: list[str] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    step: Step = field(default_factory=Step)
    log_from: int = 0
    steps_read: int = 0
    lines_from: dict[int, int] = field(default_factory=dict)
    watcher: int = 0
    answered: bool = False
    ready: bool = False
    ready_by: float | None = None
    ended_at: float | None = None
    over: bool = False
    restarts: int = 0
    most: int = 0
    # For whoever waits, in epoch seconds: its first start, its readiness and its end in this attempt.
    began: float | None = None
    ready_since: float | None = None
    ended: float | None = None


@dataclass(eq=False)
class Ends:
    """Which tasks of the ranks' step have not ended (rank/task_ends.py). `log_from`, `asked_at`: bytes of the job's log
    before the step and before a question to srun; `pause`: seconds until the next question.
    """

    log_from: int | None = None
    look_at: float | None = None
    asked_at: int | None = None
    pause: int = 0
    proven: bool = False
    first_ended: bool = False


@dataclass(eq=False)
class Preflight:
    """How the preflight was asked for, to ask once more on other nodes."""

    budget: int = 0
    srun: list[str] = field(default_factory=list)
    enter: list[str] = field(default_factory=list)
    tasks: int = 1
    folder: str = ""
    names: str = ""
    sealing: str = ""
    # The block, or the switches, of each node; empty on a cluster without a topology.
    blocks: dict[str, str] = field(default_factory=dict)
    # How the step ended before its time was over; empty if it used the whole budget.
    ended: str = ""
    # Node -> srun's reason why it could start no task there.
    unstarted: dict[str, str] = field(default_factory=dict)


@dataclass(eq=False)
class Held:
    """A step that holds something on the nodes while our end of its standard input is open. `seconds`: how long it may
    take to let go of it.
    """

    process: int
    pipe: int
    seconds: float


@dataclass(eq=False)
class Copies:
    """What the ranks see through the nodes' views, and what it was before."""

    holder: Held | None = None
    view: str = ""
    snapshot: str = ""
    python: str | None = None
    virtual_env: str = ""


@dataclass(eq=False)
class Job:
    """`env` is the environment of everything that is started; what changes in it is told to the script's bash, too."""

    env: dict[str, str]
    runtime: str
    array_dir: str = ""
    submission: str | None = None
    python: str = ""
    started: int = 0
    launched: int = 0
    nodes: list[str] = field(default_factory=list)
    # The nodes of each component of a heterogeneous job; empty of any other.
    components: list[list[str]] = field(default_factory=list)
    port_asked: str = ""
    changed: dict[str, str | None] = field(default_factory=dict)
    signals: Signals = field(default_factory=Signals)
    step: Step = field(default_factory=Step)
    # The programs of a launch with several, the deciding one first; and which of the others has ended the launch.
    roles: list[Role] = field(default_factory=list)
    failed_role: Role | None = None
    failed_why: str = ""
    failed_with: int = 0
    ends: Ends = field(default_factory=Ends)
    # BEFORE and AFTER -> seconds, and the lines for each node. What went wrong after the ranks.
    node_lines: dict[str, tuple[int, list[str]]] = field(default_factory=dict)
    after_ranks: str = ""
    preflight: Preflight = field(default_factory=Preflight)
    copies: Copies = field(default_factory=Copies)
    held: list[Held] = field(default_factory=list)
    # What is looked at while a step runs.
    looks: list[Callable[[Job], None]] = field(default_factory=list)
    # What gave the nodes environment and data, for the nodes of an attempt that follows.
    provided: list[Callable[[], None]] = field(default_factory=list)
    # What is taken back before the held steps end.
    before_release: list[Callable[[Job], None]] = field(default_factory=list)
    release_deadline: float | None = None
    # Nodes that have failed: all of them, and those of the attempt that has just ended.
    failed_nodes: list[str] = field(default_factory=list)
    lost_nodes: list[str] = field(default_factory=list)
    no_restart_reason: str = ""
    # Whether the job is to be requeued, and the reason as the verdict gives it.
    to_requeue: bool = False
    requeue_reason: str = ""
    # When this script began, by a clock that nobody sets.
    begun_at: float = field(default_factory=time.monotonic)
    # What Slurm has shown of the job last, and of the site.
    slurm_shown: str = ""
    slurm_tmp: str | None = None

    def get(self, name: str, default: str = "") -> str:
        return self.env.get(name, default)

    def number(self, name: str, default: int = 0) -> int:
        return int(self.env.get(name) or default)

    def export(self, name: str, value: object) -> None:
        self.env[name] = self.changed[name] = str(value)

    def drop(self, name: str) -> None:
        self.env.pop(name, None)
        self.changed[name] = None

    @property
    def slurm_job(self) -> str:
        """The job as Slurm's commands want it named. For a task of an array that is ARRAY_TASK: the last task to start
        has the array's own number as its job id, and a command on that would mean all of them.
        """
        array = self.get("SLURM_ARRAY_JOB_ID")
        return f"{array}_{self.get('SLURM_ARRAY_TASK_ID')}" if array else self.get("SLURM_JOB_ID")

    @property
    def attached(self) -> str:
        """The step, as JOB.STEP, that runs the script inside another job; empty for a job of its own."""
        return self.get("RANKZERO_ATTACHED")

    @property
    def id(self) -> str:
        return self.attached or self.slurm_job

    @property
    def tasks_are_ranks(self) -> bool:
        return self.get("RANKZERO_LAUNCHER") == NAMED_BY_SLURM

    @property
    def is_script(self) -> bool:
        """Whether a user's own batch script runs in the place of the ranks' step."""
        return self.get("RANKZERO_LAUNCHER") == SCRIPT

    @property
    def may_heal(self) -> bool:
        """Whether another attempt may follow on other nodes where one fails. This script runs on an only node."""
        return bool(self.get("RANKZERO_SPARES") or (self.get("RANKZERO_MAX_RESTARTS") and len(self.nodes) > 1))

    @property
    def works_in_a_copy(self) -> bool:
        """Whether the working directory has the code's files, instead of links to them."""
        return self.is_script or bool(self.get("RANKZERO_CODE_WRITABLE"))

    @property
    def cluster(self) -> str:
        return self.get("SLURM_CLUSTER_NAME", "cluster") or "cluster"

    @property
    def node(self) -> str:
        return self.get("SLURMD_NODENAME") or os.uname().nodename

    @property
    def collected(self) -> str:
        """The file with what the collectors of all nodes have printed in this attempt (rank/collector.py)."""
        return self.path("monitor", str(self.attempt), "nodes")

    @property
    def run_dir(self) -> str:
        return self.env["RANKZERO_RUN_DIR"]

    @property
    def generation(self) -> int:
        return self.number("RANKZERO_GENERATION")

    @property
    def attempt(self) -> int:
        return self.number("RANKZERO_ATTEMPT")

    @property
    def claim_line(self) -> str:
        return f"{self.generation} {self.cluster} {self.id}"

    def path(self, *names: str) -> str:
        return os.path.join(self.run_dir, *names)
