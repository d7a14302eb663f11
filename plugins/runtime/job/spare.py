# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that fails while the ranks run: they start again on a spare node of the same allocation, as a further attempt
of the same job, which costs no time in the queue. The job was submitted with --no-kill, so Slurm takes the node away
and leaves the job. Where no spare is left, the job goes back into the queue. Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence

from artifact import verdict
from core import components, held_steps, lost, slurm
from core.log import log_line
from core.state import PROGRAM, RESTART, Job
from end import restart
from preflight import preflight_steps
from rank import step
from start import attempt


def heal(job: Job) -> bool:
    """After the ranks have ended: whether a node of theirs has failed and they can start again without it; all is laid
    out for the next attempt then. Else the failed nodes, if any, are in `lost`, and why not in `not_here`.
    """
    job.lost_nodes, job.no_restart_reason = [], ""
    ranks = job.step
    if ranks.ended_by != PROGRAM or ranks.exit_code == 0 or job.signals.early or slurm.preempted(job):
        return False
    exit_code = ranks.exit_code
    dead = lost.among(job, job.nodes, held=bool(job.preflight.sealing))
    # A signal that came meanwhile is the ranks' end.
    step.act_on_signals(job)
    if not dead or ranks.ended_by != PROGRAM:
        return False
    job.lost_nodes = dead
    job.failed_nodes += dead
    for node in dead:
        preflight_steps.remember(job, node, f"it failed while job {job.id} ran on it")
    left = [name for name in components.allocated(job) if name not in job.failed_nodes]
    job.no_restart_reason = _not_here(job, left)
    if job.no_restart_reason:
        return False
    following, names = job.attempt + 1, ",".join(dead)
    log_line(f"{names} failed: the ranks start again without it, on {' '.join(left)}")
    verdict.write(
        job,
        RESTART,
        exit_code,
        f"{names} failed; started again inside the job: attempt {following + 1} follows",
        f"outcome.before-attempt-{following}.json",
    )
    _lay_out(job, following, left)
    # A signal that came meanwhile is the ranks' end.
    step.act_on_signals(job)
    return job.step.ended_by == PROGRAM


def _not_here(job: Job, left: Sequence[str]) -> str:
    """Why the ranks do not start again inside the job; empty where they do."""
    if not job.get("RANKZERO_SPARES") or len(left) < job.number("RANKZERO_NODES"):
        return restart.NO_SPARE
    restarts = job.number("RANKZERO_SPARE_RESTARTS")
    if job.attempt >= restarts:
        return restart.limit_reached(job, restarts)
    return restart.no_progress(job)


def _lay_out(job: Job, following: int, nodes: Sequence[str]) -> None:
    """All that the next attempt needs, on other nodes."""
    held_steps.release(job)
    attempt.count_uncounted(job, following)
    attempt.number(job, following)
    attempt.own_checkpoint(job)
    first = job.nodes[0]
    attempt.choose(job, nodes)
    if job.nodes[0] != first:
        attempt.meet(job)
    attempt.record(job)
    for provide in job.provided:
        provide()
    # It may be the first node no more that the last preflight has looked at. It ends the job where too few are fit.
    asked, count = job.preflight, len(job.nodes)
    places = [f"--nodelist={job.get('RANKZERO_NODELIST')}", f"--nodes={count}", f"--ntasks={count * asked.tasks}"]
    preflight_steps.preflight(job, asked.budget, [*slurm.beside(asked.srun), *places], asked.enter)
    wanted = job.number("RANKZERO_NODES")
    if len(job.nodes) > wanted:
        attempt.choose(job, job.nodes[:wanted])
    attempt.record_launch(job)


def next_words(job: Job, words: Sequence[str], logs: str, nodelist: str) -> list[str]:
    """The words of the ranks' step for the attempt that follows: other nodes, another log."""
    made = []
    for word in slurm.beside(words):
        if word == f"--nodelist={nodelist}":
            made.append(f"--nodelist={job.get('RANKZERO_NODELIST')}")
        elif word == f"--nodelist={nodelist.partition(',')[0]}":
            made.append(f"--nodelist={job.nodes[0]}")
        elif word.startswith(f"--output={logs}/"):
            made.append(f"--output={job.get('RANKZERO_LOGS')}/{word.rpartition('/')[2]}")
        else:
            made.append(word)
    return made
