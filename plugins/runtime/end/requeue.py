# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Back into the queue, with what the next attempt has to leave out. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from artifact import verdict
from core import held_steps, processes, slurm, traps
from core.log import log_line
from core.state import REQUEUE, SETUP, Ended, Job
from end.restart import follows, limit_reached

REQUEUE_SECONDS = 120


def without_failed(job: Job) -> str:
    """What the next attempt leaves out: what this one did, and the nodes that have failed. Empty where none has, where
    the job asks for one of them by name, or where too few would be left.
    """
    if not job.failed_nodes:
        return ""
    shown, gone = slurm.show_job(job), ",".join(job.failed_nodes)
    known, asked = slurm.field(shown, "ExcNodeList"), slurm.field(shown, "ReqNodeList")
    if asked and slurm.have_common_node(job, asked, gone):
        return ""
    known = f"{known},{gone}" if known else gone
    return "" if slurm.too_few(job, known) else known


def _exclude(job: Job, nodes: str) -> tuple[int, str]:
    """Only a job that waits can be told what to leave out."""
    return slurm.query(job, "scontrol", "update", f"JobId={job.slurm_job}", f"ExcNodeList={nodes}", both=True)


def requeue(job: Job) -> None:
    """After the verdict is written: Slurm ends this script as soon as it has requeued the job. Where it may not be
    requeued, another job takes over. Where Slurm does not answer, none does: a job that is requeued later would be a
    second one.
    """
    step, excluded = job.step, without_failed(job)
    code, text = slurm.query(job, "scontrol", "requeue", job.slurm_job, seconds=REQUEUE_SECONDS, both=True)
    if code == 0:
        # Slurm may take minutes to see that a node is dead, and would give it to the next attempt.
        if excluded:
            code, text = _exclude(job, excluded)
            if code != 0:
                log_line(f"the next attempt may get {','.join(job.failed_nodes)} again: {text}")
        return
    job.to_requeue = False
    text = f"Slurm did not requeue the job: {text}"
    if slurm.field(slurm.show_job(job), "Requeue") == "0":
        from end import chain

        number, unchained = chain.hand_on(job, f"{job.requeue_reason}; {text}", without_failed(job))
        if number:
            following = follows(job, job.number("RANKZERO_MAX_RESTARTS"))
            message = f"{job.requeue_reason}; job {number} takes over: {following}"
            verdict.write(job, step.ended_by, step.exit_code, message)
            return
        text += f"; no other job takes over: {unchained}"
    verdict.write(job, step.ended_by, step.exit_code, f"{job.requeue_reason}; {text}")


def requeue_without(job: Job, nodes: Sequence[str], why: str) -> NoReturn:
    """Back into the queue without some nodes, before any rank ran."""
    # From here on Slurm tells this script to end. A job cannot start again while its last script runs, and only one
    # that waits can be told what to leave out: so the nodes are excluded between the two.
    traps.no_more()
    names, restarts = ",".join(nodes), job.number("RANKZERO_PREFLIGHT_RESTARTS")
    shown = slurm.show_job(job)
    known = slurm.field(shown, "ExcNodeList")
    known = f"{known},{names}" if known else names
    reason = _not_without(job, names, known, slurm.field(shown, "ReqNodeList"), restarts)
    if reason:
        verdict.refuse(job, 69, f"{why}; not requeued: {reason}")
    log_line(f"{why}; requeued without {names}")
    # Before the requeue: Slurm may end this script at any moment after it.
    verdict.write(job, REQUEUE, 69, f"{why}; requeued without {names}: {follows(job, restarts)}")
    held_steps.release(job)
    code, text = slurm.query(job, "scontrol", "requeue", job.slurm_job, seconds=REQUEUE_SECONDS, both=True)
    if code != 0:
        verdict.refuse(job, 69, f"{why}; Slurm did not requeue the job: {text}")
    code, text = _exclude(job, known)
    if code != 0:
        message = f"{why}; cancelled: Slurm requeued the job, but did not exclude {names}: {text}"
        verdict.write(job, SETUP, 69, message)
        processes.run(60, ["scancel", job.slurm_job], job.env)
    raise Ended(69)


def _not_without(job: Job, names: str, known: str, asked: str, restarts: int) -> str:
    """Why the job is not requeued without some nodes; empty where it is."""
    if job.attempt >= restarts:
        return limit_reached(job, restarts)
    if asked and slurm.have_common_node(job, asked, names):
        return f"the job asks for {asked} by name (resources.sbatch.nodelist)"
    return slurm.too_few(job, known)
