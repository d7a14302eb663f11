# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ranks' step: its start, the signals that reach it, and its end. Standard library only."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from types import ModuleType

from artifact import verdict
from core import components, processes, slurm, traps
from core.log import log_line, time_of_day
from core.state import AFTER, ARTIFACT, PROGRAM, SETUP, SIGNAL, Ends, Job, Step
from rank import task_ends

# How long the ranks have: after TERM once their artifact is proven (srun cannot forward KILL), after a cancellation
# inside another job until TERM, and from there until KILL.
AFTER_ARTIFACT, AFTER_CANCEL, AFTER_TERM = 5, 30, 60
# How long the verdict waits for a step that Slurm has told to end. A site may kill this script after three seconds.
BEFORE_VERDICT = 1
POLL_SECONDS = 0.25
# Slurm signals the ranks and this script one after the other. Where TERM has ended the ranks, this script's own signal
# says whether the job is cancelled; so long it may take.
TERM_EXIT, TERM_SECONDS = 143, 5.0


def act_on_signals(job: Job) -> None:
    """Do what the signals that came ask for. An artifact that has landed is never taken back."""
    signals, step = job.signals, job.step
    if signals.cancelled and not step.ended_by:
        processes.send_signal(step.process)
        verdict.refuse(job, 143, "cancelled before its ranks started", SIGNAL)
    # A step that has ended by itself meanwhile keeps its own exit code.
    if signals.landed and step.ended_by == PROGRAM and processes.runs(step.process):
        processes.signal_group(step.process)
        step.ended_by = ARTIFACT
        log_line("the artifact has landed: ending the step")
        # Once srun is gone and this script ends, Slurm itself clears the nodes.
        step.kill_at = processes.after(AFTER_ARTIFACT)
    if signals.terminated:
        signals.terminated = False
        if step.ended_by != ARTIFACT:
            step.ended_by = SIGNAL
        # Where Slurm ends the job, it signals every process of a batch script: a trap of the script would run twice.
        if step.grace or not job.is_script:
            processes.send_signal(step.process)
        elif slurm.field(slurm.show_job(job), "JobState") == "RUNNING":
            _tell_script(job, signal.SIGTERM)
        if step.grace:
            step.kill_at = processes.after(step.grace)
        if step.verdict_first:
            step.leave_at = processes.after(BEFORE_VERDICT)
    if signals.cancelled and step.ended_by in (PROGRAM, SETUP):
        step.ended_by, step.message = SIGNAL, "cancelled"
        step.term_at = processes.after(AFTER_CANCEL)
    if signals.early_due and step.ended_by == PROGRAM and step.process:
        signals.early_due = False
        _tell_early(job)
    while signals.passed:
        _tell_script(job, signals.passed.pop(0))


def _tell_early(job: Job) -> None:
    """Pass the early signal on to the ranks. srun takes TERM for an order to abort the step, which leaves the ranks
    KillWait seconds whatever the job asked for; scancel only delivers it, to every process of the step. A script has
    asked for it itself.
    """
    if job.is_script:
        _tell_script(job, getattr(signal, f"SIG{job.get('RANKZERO_EARLY_SIGNAL')}"))
        return
    words = ["scancel", f"--signal={job.get('RANKZERO_EARLY_SIGNAL')}", job.slurm_job]
    if processes.run(60, words, job.env) != 0:
        processes.send_signal(job.step.process)


def _tell_script(job: Job, what: int) -> None:
    from rank import script

    script.send_signal(job, what)


def wait_for_end(job: Job, every: float = 0.0, with_roles: bool = False) -> int:
    """Wait for the end of the step, and heed what comes meanwhile; its exit code. A step that outlives its kill is left
    to Slurm, which clears the nodes after this script. `every`: the time of day into the log after so many seconds.
    `with_roles`: it is the deciding role's, which ends with the others; any other step has nothing to do with theirs.
    """
    step, tick_at = job.step, processes.after(every) if every else None
    while processes.runs(step.process):
        act_on_signals(job)
        if with_roles:
            _roles().check_roles(job)
        task_ends.check_tasks(job)
        for look in job.looks:
            look(job)
        if processes.due(tick_at):
            os.write(1, f"[rankzero] {time_of_day()}\n".encode())
            tick_at = processes.after(every)
        if processes.due(step.term_at):
            processes.send_signal(step.process)
            step.term_at = None
            step.kill_at = step.kill_at or processes.after(step.grace or AFTER_TERM)
        if processes.due(step.kill_at):
            processes.kill(step.process)
            if not processes.wait(step.process, 10):
                return 137
        if processes.due(step.leave_at):
            return _left(job)
        if processes.runs(step.process):
            processes.pause(POLL_SECONDS)
    return processes.code_of(step.process)


def _left(job: Job) -> int:
    """Leave a step that was told to end, so that it is waited for after the verdict."""
    told, grace = job.step.process, job.step.grace
    job.before_release.append(lambda _job: processes.wait_or_kill(told, grace))
    return TERM_EXIT


def run_bounded(job: Job, seconds: float, words: Sequence[str], quiet: bool = False, errors: str = "") -> int:
    """The exit code of a step that may take so long, waited for in the place of the ranks' step. `quiet`: its output is
    dropped; `errors`: the file that takes its standard error. It is told first where it has a `grace`.
    """
    act_on_signals(job)
    job.ends = Ends()
    output = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC) if quiet else None
    error = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600) if errors else output
    job.step.process = processes.start(components.placed(job, words), job.env, stdout=output, stderr=error)
    until = processes.after(seconds)
    for descriptor in {number for number in (output, error) if number is not None}:
        os.close(descriptor)
    job.step.term_at, job.step.kill_at = (until, None) if job.step.grace else (None, until)
    code = wait_for_end(job)
    job.step.term_at, job.step.kill_at, job.step.process = None, None, 0
    return code


def run(job: Job, words: Sequence[str]) -> None:
    """Run the ranks' step once, and wait for its end, the artifact, or a signal."""
    job.step = Step(ended_by=PROGRAM)
    signals = job.signals
    signals.landed = signals.early_due = False
    traps.during_the_step(job)
    step, watcher = job.step, 0
    if not job.roles or _roles().begin(job, act_on_signals):
        watcher = _begin(job, words)
        step.exit_code = wait_for_end(job, job.number("RANKZERO_TIMESTAMPS"), bool(job.roles))
    if job.roles:
        _roles().end(job)
    if step.ended_by == PROGRAM and step.exit_code != 0 and not job.failed_role:
        task_ends.explain(job)
    traps.no_artifact()
    signals.landed = False
    if step.ended_by == PROGRAM and step.exit_code == TERM_EXIT:
        until = processes.after(TERM_SECONDS)
        while not signals.terminated and not processes.due(until):
            processes.pause(POLL_SECONDS)
    act_on_signals(job)
    starts_again = job.may_heal and step.ended_by == PROGRAM and step.exit_code != 0
    if not starts_again and AFTER not in job.node_lines:
        traps.no_more()
    processes.send_signal(watcher)


def _begin(job: Job, words: Sequence[str]) -> int:
    """Start the ranks' step; the process that watches for the artifact, 0 where none does."""
    task_ends.expect(job, words)
    env = job.env
    if job.is_script:
        from rank import script

        env = script.environment(job)
    if job.roles:
        words, env = _roles().words(job, job.roles[0]), _roles().environment(job, job.roles[0])
    job.step.process = processes.start(words, env, session=job.is_script)
    if job.roles:
        _roles().begun(job, job.roles[0])
        _roles().watch(job, job.roles[0])
    # An early signal that came before there was a step to tell.
    if job.signals.early and job.is_script:
        job.signals.early_due = True
    elif job.signals.early:
        processes.send_signal(job.step.process)
    if job.get("RANKZERO_ARTIFACT_THEN") != "end":
        return 0
    program = os.path.join(job.runtime, "artifact", "outcome.py")
    return processes.start([job.python, "-I", program, "watch", job.run_dir, "--signal-to", str(os.getpid())], job.env)


def _roles() -> ModuleType:
    """Only a launch with several programs needs it."""
    from rank import roles

    return roles
