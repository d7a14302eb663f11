# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of a job's set-up that each node runs, before its ranks and after them. Standard library only."""

from __future__ import annotations

import os
from collections.abc import Sequence

from artifact import verdict
from core import processes, slurm
from core.files import content
from core.log import log_line
from core.state import AFTER, BEFORE, SETUP, SIGNAL, Job, Step
from rank import step

# Of a line that has failed, so many bytes are read, and so many characters are in the verdict.
MOST_BYTES, SHOWN = 65536, 300


def before(job: Job) -> None:
    """Run the lines before the ranks. Refuses the launch if one fails."""
    if BEFORE not in job.node_lines:
        return
    job.step = Step(grace=step.AFTER_ARTIFACT)
    problem = _run(job, BEFORE)
    if job.step.ended_by:
        verdict.refuse(job, 143, "ended by a signal before its ranks started", SIGNAL)
    if problem:
        verdict.refuse(job, 78, f"the set-up failed: {problem}")


def after(job: Job) -> None:
    """Run the lines after the ranks have ended for good. What goes wrong is said, and changes no verdict."""
    if AFTER not in job.node_lines:
        return
    if job.step.ended_by == SIGNAL or job.signals.terminated:
        problem = f"setup.{AFTER} did not run: Slurm was ending the job"
    else:
        # The verdict is that of the ranks.
        ranks, job.step = job.step, Step(ended_by=SETUP, grace=step.AFTER_ARTIFACT, verdict_first=True)
        problem = _run(job, AFTER)
        if job.step.ended_by == SIGNAL:
            problem = f"setup.{AFTER} was ended by a signal"
        job.step = ranks
    if problem:
        job.after_ranks = problem
        log_line(problem)


def _run(job: Job, name: str) -> str:
    """Run lines on each node; what went wrong, empty if nothing did."""
    seconds, lines = job.node_lines[name]
    folder = job.path("preflight", f"{job.attempt}.{name}")
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        return f"setup.{name}: cannot create {folder}: {error.strerror}"
    log = os.path.join(job.get("RANKZERO_LOGS"), "step.log")
    words = [*slurm.on_each(job.nodes, log), "--open-mode=append"]
    # They may use what the ranks of the node have.
    words += [f"--cpus-per-task={job.number('RANKZERO_CPUS_PER_NODE', 1)}", "--cpu-bind=none"]
    words += ["/bin/bash", os.path.join(job.runtime, "node", "lines.sh"), folder, *lines]
    log_line(f"setup.{name} on {len(job.nodes)} nodes")
    until = processes.after(seconds)
    code = step.run_bounded(job, seconds, words)
    if not code:
        return ""
    late = f"did not end within {seconds} s (setup.budget)" if processes.due(until) else ""
    return _problem(job.nodes, folder, f"setup.{name}", late or f"was ended with exit code {code}", bool(late))


def _problem(nodes: Sequence[str], folder: str, option: str, how: str, late: bool) -> str:
    """`how`: what became of the step, for nodes that have not reported. `late`: those that have, were ended."""
    reports, silent = {}, []
    for node in nodes:
        try:
            reports[node] = content(os.path.join(folder, node), MOST_BYTES).decode(errors="replace")
        except OSError:
            silent.append(node)
    failed = [node for node in nodes if reports.get(node)]
    if failed and not late:
        return f"{reports[failed[0]][:SHOWN]} on {_named(failed)} ({option})"
    return f"{option} {how} on {_named(failed + silent or nodes)}"


def _named(nodes: Sequence[str]) -> str:
    return nodes[0] if len(nodes) == 1 else f"{nodes[0]} and {len(nodes) - 1} more"
