# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start a launch's script as a step of a running job, and detach from it.

The srun that starts the step is not needed once the step runs: the script writes its own log, and the srun of its ranks
runs next to it on the node. A process left on a login node is killed by the site's reaper or at the end of the user's
session, and srun then cancels its step. Therefore srun is killed here, together with the child process that would
cancel the step in its place. Both are killed at once, as one process group.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError, SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.state_files import closed_to_groups
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import last_text
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import SILENCE, Slurm

# Seconds that a step may wait for resources which another step of the job holds. Otherwise a step starts at once.
START_SECONDS = 60.0
# Seconds within which the claim of a running script becomes visible through a network file system.
CLAIM_SECONDS = 10.0
LOOK_SECONDS = 0.1
_STARTED = re.compile(r"^\[rankzero\] step (\d+\.\d+)$", re.M)


@dataclass(frozen=True)
class Start:
    """The result of starting a step: its id, or why there is none."""

    step_id: str | None
    complaint: str = ""


def step_argv(
    *, job_id: str, name: str, nodes: Sequence[str], run_dir: str, runtime: str, nonce: str
) -> tuple[str, ...]:
    """Return srun's arguments for the script's step: one task on the first node, which takes no resources from other
    steps.
    """
    return (
        f"--jobid={job_id}",
        "--overlap",
        "--nodes=1",
        "--ntasks=1",
        "--cpus-per-task=1",
        f"--nodelist={nodes[0]}",
        "--gres=none",
        "--cpu-bind=none",
        "--mpi=none",
        f"--job-name={name}",
        f"--chdir={run_dir}",
        "--input=none",
        "--export=NIL",
        "/bin/bash",
        f"{runtime}/start/attach.sh",
        run_dir,
        nonce,
        ",".join(nodes),
    )


class Starter:
    """Starts one step. `sleep` and `clock` are injectable for tests."""

    def __init__(
        self,
        slurm: Slurm,
        run: RunDirectory,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.slurm = slurm
        self.run = run
        self.sleep = sleep
        self.clock = clock
        self.log = run.file("logs/attach.log")

    def start(self, argv: Sequence[str]) -> Start:
        """Start the step and wait until its script runs. srun has ended when this returns.

        Raises `RankzeroError` without srun on this host, and `SlurmUnavailable` if it is unknown whether the step
        started.
        """
        program = self.slurm.find("srun")
        if program is None:
            raise RankzeroError(
                "launcher.inside_job: the command srun is not on this host; a step of a running job is started with "
                "it. Run against a login node that has it."
            )
        self.slurm.commands += 1
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with closed_to_groups(self.run.path), os.fdopen(os.open(self.log, flags, 0o644), "wb") as log:
            # pylint: disable-next=ansible-bad-function
            process = subprocess.Popen(
                [program, *argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.slurm.environment,
                cwd=self.run.path,
                start_new_session=True,
            )
        try:
            step_id = self._began(process)
            if step_id is None:
                return self._failed(process.poll())
            return self._settled(process, step_id)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _said(self) -> str:
        return last_text(self.log)

    def _began(self, process: subprocess.Popen[bytes]) -> str | None:
        """Return the step's id once its script runs; None if it does not start."""
        until = self.clock() + START_SECONDS
        while True:
            ended = process.poll() is not None
            started = _STARTED.search(self._said())
            if started:
                return started[1]
            if ended or self.clock() > until:
                return None
            self.sleep(LOOK_SECONDS)

    def _settled(self, process: subprocess.Popen[bytes], step_id: str) -> Start:
        """Wait until the script has written its claim or has ended, so that an early failure is reported."""
        until = self.clock() + CLAIM_SECONDS
        while True:
            ended = process.poll()
            claim = self.run.claim()
            if claim is not None and (claim.job_id == step_id or ended is not None):
                # If another step of this generation was first, that step is the launch.
                return Start(claim.job_id)
            if ended:
                return Start(None, self._last_words(step_id) or f"step {step_id} ended with exit code {ended}")
            if ended is not None or self.clock() > until:
                return Start(step_id)
            self.sleep(LOOK_SECONDS)

    def _last_words(self, step_id: str) -> str:
        log_lines = self.run.text(f"logs/job.{step_id}.log").splitlines()
        return next((line.strip() for line in reversed(log_lines) if line.strip()), "")

    def _failed(self, rc: int | None) -> Start:
        lines = [line.strip() for line in self._said().splitlines() if line.strip()]
        complaint = "; ".join(lines[-3:]) or (
            "srun printed nothing" if rc is None else f"srun ended with exit code {rc}"
        )
        if rc is None:
            return Start(None, f"no step began within {START_SECONDS:.0f} s: {complaint}")
        if any(text in complaint.lower() for text in SILENCE):
            raise SlurmUnavailable(
                f"srun did not say whether it started the step ({complaint}). Run the same launch again: it looks for "
                "the step before it starts another."
            )
        return Start(None, complaint)
