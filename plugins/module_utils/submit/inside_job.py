# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Place, start and cancel a launch inside a job that is already running, for launch.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SlurmError
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import runtime_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run import steps
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import LaunchStatus
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import allocation, container_support
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission import checks, storage
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.request import Request
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.start_step import Starter, step_argv

LOOK_SECONDS = 1.0


class Inside:
    """The operations of a request on the job around it. Without `request.inside_job` only old generations need them."""

    def __init__(
        self, request: Request, slurm: Slurm, sleep: Callable[[float], None], clock: Callable[[], float]
    ) -> None:
        self.request = request
        self.slurm = slurm
        self.sleep = sleep
        self.clock = clock
        self.allocation: allocation.Allocation | None = None
        self.nodes: list[str] = []

    def choose_nodes(self) -> list[str]:
        """Look up the job and choose the nodes. Returns sentences on why the launch does not fit into the job."""
        if self.request.inside_job is None:
            raise RuntimeError("only a launch inside a running job looks at one")
        self.allocation, self.nodes, problems = allocation.choose_nodes(self.slurm, self.request.inside_job, self.clock)
        return problems

    def check(self, building: bool) -> checks.Checked:
        """Check the launch before it starts, against the job instead of partitions and limits."""
        problems = self.choose_nodes()
        storage_problems, notes, facts = storage.check_folders(
            self.slurm, self.request.places, thorough=True, building=building
        )
        problems += storage_problems
        for needs in self.request.containers:
            problems += container_support.check(self.slurm, needs)
        for sentence in notes:
            self.slurm.note(sentence)
        return checks.Checked(problems, notes, facts)

    @property
    def described(self) -> str | None:
        """The job, its nodes and its remaining time, for people; None before the job was looked up."""
        return allocation.described(self.allocation, self.nodes, self.clock()) if self.allocation else None

    def intent(self) -> dict[str, object]:
        """Return the additional fields of an intent in the journal: where to look for the step."""
        return {"inside_job": self.allocation.job_id, "nodes": self.nodes} if self.allocation else {}

    def start(self, run: RunDirectory, **identity: object) -> str:
        """Start the script of a generation as a step; return the step's id. `identity`: additional fields of an error.

        Raises SlurmError if the step cannot be started.
        """
        if self.allocation is None:
            raise RuntimeError("a launch is started after its job has been looked at")
        argv = step_argv(
            job_id=self.allocation.job_id,
            name=self.request.name_of(run.generation),
            nodes=self.nodes,
            run_dir=run.path,
            runtime=runtime_of(self.request.refs).path,
            nonce=self.request.submitter,
        )
        start = Starter(self.slurm, run, sleep=self.sleep).start(argv)
        if start.step_id is None:
            run.forget_secrets()
            run.record("rejected", message=start.complaint)
            raise SlurmError(
                f"launcher.inside_job: the launch could not be started inside job {self.allocation.job_id}: "
                f"{start.complaint}",
                **identity,
            )
        return start.step_id

    def cancel(self, run: RunDirectory, step_id: str) -> None:
        """End a launch but not the job around it. A repeated request after CANCEL_SECONDS kills all steps at once."""
        asked = [event["time"] for event in run.events() if event["event"] == "cancelled"]
        hard = bool(asked) and self.clock() - asked[0] > steps.CANCEL_SECONDS
        steps.cancel(self.slurm, steps.job_of(step_id), self.request.name_of(run.generation), hard=hard)

    def end_leftovers(self, status: LaunchStatus) -> list[str]:
        """End the ranks whose script was killed, because nothing else ends them. Returns the ids of their steps."""
        if status.job_id is None or not steps.is_step(status.job_id):
            return []
        name = self.request.name_of(status.run.generation)
        return steps.cancel(self.slurm, steps.job_of(status.job_id), name, hard=True)

    def make_way(self, status: LaunchStatus) -> None:
        """End the remaining steps of a generation and wait until they are gone: two generations never run at the same
        time.

        Raises SlurmError if they still run after CANCEL_SECONDS.
        """
        left: Sequence[str] = self.end_leftovers(status)
        until = self.clock() + steps.CANCEL_SECONDS
        while left:
            job_id = steps.job_of(left[0])
            left = [step.job_id for step in steps.running(self.slurm, [job_id]) if step.job_id in left]
            if left and self.clock() > until:
                raise SlurmError(
                    f"the steps {', '.join(left)} of generation {status.run.generation} were cancelled and still "
                    "run; try again once they are gone (squeue --steps)"
                )
            if left:
                self.sleep(LOOK_SECONDS)
