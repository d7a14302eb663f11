# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the job ended: the verdict, and what is done before the script exits. Standard library only."""

from __future__ import annotations

import contextlib
import os
from types import SimpleNamespace
from typing import NoReturn

from core import held_steps, processes
from core.log import log_line
from core.state import ARTIFACT, PROGRAM, SETUP, Ended, Job

# A network file system may hang, or show a file late.
PROOF_SECONDS = 120


def write(job: Job, ended_by: str, exit_code: int, message: str, file: str = "outcome.json") -> int:
    """Write the verdict; the exit code that follows from it. `file`: its name where it is not the job's last word."""
    from artifact import outcome

    arguments = SimpleNamespace(
        run_dir=job.run_dir,
        job_id=job.id,
        attempt=job.attempt,
        started=float(job.started),
        ended_by=ended_by,
        exit_code=exit_code,
        message=message,
        key=job.get("RANKZERO_KEY"),
        generation=job.generation,
        file=file,
        # After the last word the script is to end soon.
        guard=os.getpid() if file == "outcome.json" else 0,
        env=job.env,
        after_ranks=job.after_ranks,
        role=job.failed_role.name if job.failed_role and ended_by == PROGRAM else "",
    )
    code = int(outcome.finish(arguments))
    # After a signal or a requeue another attempt may follow, so nothing is final.
    if job.get("RANKZERO_NOTIFY") and file == "outcome.json" and ended_by in (PROGRAM, ARTIFACT, SETUP):
        from core import messages

        messages.send_and_wait(job, "ended")
    return code


def proven(job: Job) -> bool:
    """Whether the artifact is proven now. In a process of its own: a file system that hangs must not hold the
    script.
    """
    if not job.get("RANKZERO_ARTIFACT_PATH"):
        return False
    words = [job.python, "-I", os.path.join(job.runtime, "artifact", "outcome.py"), "proven", job.run_dir]
    return processes.run(PROOF_SECONDS, words, job.env) == 0


def refuse(job: Job, exit_code: int, message: str, ended_by: str = SETUP) -> NoReturn:
    """End the script before its ranks ran."""
    log_line(message)
    if os.path.isdir(job.run_dir):
        write(job, ended_by, exit_code, message)
        remove_secrets(job)
    held_steps.release(job)
    raise Ended(exit_code)


def remove_secrets(job: Job) -> None:
    with contextlib.suppress(OSError):
        os.unlink(job.path("secrets.env"))
