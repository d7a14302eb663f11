# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ranks, from their first step to their last. Standard library only."""

from __future__ import annotations

import os
from collections.abc import Sequence

from artifact import verdict
from core import slurm, traps
from core.state import Job
from rank import collect_steps, step, teller
from start import attempt, claim


def launch(job: Job, words: Sequence[str]) -> None:
    """Run the ranks' step until it has ended for good: again on spare nodes, where a node of it has failed."""
    _await_turn(job)
    if job.roles:
        from job import role_places

        role_places.settle(job)
        role_places.lay_out(job)
        words = job.roles[0].words
    attempt.draw_seed(job)
    if job.get("RANKZERO_TRACKER_RUN"):
        from start import tracker

        tracker.record_places(job)
    step.act_on_signals(job)
    if job.get("RANKZERO_NOTIFY"):
        from core import messages

        messages.send(job, "started")
    if job.is_script:
        from rank import script

        words = script.words(job, words[1:])
    elif job.preflight.unstarted:
        words = _beside_the_preflight(job, words)
    words = slurm.with_cpus(job, words)
    while True:
        logs, nodelist = job.get("RANKZERO_LOGS"), job.get("RANKZERO_NODELIST")
        if attempt.HOSTFILE in " ".join(words) and not job.roles:
            hosts = attempt.list_hosts(job, job.nodes, job.number("RANKZERO_RANKS_PER_NODE"))
            job.export("RANKZERO_HOSTFILE", hosts)
        if job.node_lines:
            from job import line_steps

            line_steps.before(job)
        collectors, told = collect_steps.begin(job), teller.begin(job)
        step.run(job, words)
        teller.finish(job, told)
        collect_steps.finish(job, collectors)
        if not job.may_heal:
            break
        from job import spare

        if not spare.heal(job):
            break
        words = spare.next_words(job, words, logs, nodelist)
        if job.roles:
            for role in job.roles:
                role.words = spare.next_words(job, role.words, logs, nodelist)
            role_places.lay_out(job)
            words = job.roles[0].words
            attempt.record_launch(job)
    if job.is_script:
        from rank import script, step_outputs

        step_outputs.copy_outputs(job, script.folder(job))
    if job.node_lines:
        line_steps.after(job)
    traps.no_more()


def _beside_the_preflight(job: Job, words: Sequence[str]) -> list[str]:
    """The words of the ranks' step where Slurm may hold the preflight's, which has ended, on their nodes."""
    for role in job.roles:
        role.words = slurm.beside(role.words)
    return slurm.beside(words)


def _await_turn(job: Job) -> None:
    """End the script if a newer launch has taken the place of this one, or another cluster runs it."""
    # Once more, as late as can be: the nodes may have been looked at for minutes.
    newer = claim.superseded(job)
    if newer:
        verdict.refuse(job, 75, newer)
    if os.path.exists(job.path("first.json")):
        from start import grant

        grant.await_grant(job)
