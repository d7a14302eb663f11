# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's job states: which ones are final, and what they mean in words.

Source: JOB STATE CODES of squeue(1). A state is an upper-case word; newer versions of Slurm return a list (base state
and flags); sacct adds words ("CANCELLED by 1000").
"""

from __future__ import annotations

from collections.abc import Sequence

# The job name in a row of accounting if slurmdbd received a step, or the end, before the job itself. This happens for a
# short job or after an outage of slurmdbd. Such a row may lack the work folder, and may name only the nodes of that
# step.
NAMELESS = ("", "allocation")
PENDING = frozenset({"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
# The job holds nodes (or did a moment ago), so the program may be running.
RUNNING = frozenset(
    {
        "RUNNING",
        "CONFIGURING",
        "COMPLETING",
        "RESIZING",
        "SIGNALING",
        "STAGE_OUT",
        "STOPPED",
        "SUSPENDED",
        "POWER_UP_NODE",
        "UPDATE_DB",
        "EXPEDITING",
    }
)
FINAL = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "FORGOTTEN",  # our own: slurmctld has lost the job, and accounting knows no end (jobs.py)
        "LAUNCH_FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "RECONFIG_FAIL",
        "REVOKED",
        "TIMEOUT",
    }
)
# Final states that Slurm may still turn into a requeue under the same id. They count only once they persist.
UNSETTLED = frozenset({"PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL"})

# Flags next to a base state (list form), strongest first: the current activity says more than the base state.
_FLAGS = (
    *("REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "REQUEUE_FED", "RESV_DEL_HOLD", "COMPLETING", "STAGE_OUT"),
    *("CONFIGURING", "RESIZING", "SIGNALING", "STOPPED", "POWER_UP_NODE", "REVOKED", "LAUNCH_FAILED"),
    *("RECONFIG_FAIL",),
)


def state_of(value: str | Sequence[str]) -> str:
    """Return one upper-case state from Slurm's value: a word, "CANCELLED by 1000", "CANCELLED+", or a list with flags.

    In a list, a flag takes precedence over the base state: ["COMPLETED", "COMPLETING"] is COMPLETING, hence not final.
    """
    if isinstance(value, str):
        words = value.replace(",", " ").split()
        return words[0].rstrip("+").upper() if words else "UNKNOWN"
    words = [state_of(item) for item in value]
    for flag in _FLAGS:
        if flag in words:
            return flag
    return words[0] if words else "UNKNOWN"


def is_pending(state: str) -> bool:
    """Return whether the job waits in the queue, requeued jobs included."""
    return state_of(state) in PENDING


def is_running(state: str) -> bool:
    """Return whether the job holds nodes."""
    return state_of(state) in RUNNING


def is_final(state: str, *, settled: bool = True) -> bool:
    """Return whether no further attempt can follow.

    PREEMPTED, NODE_FAIL and a few other states may become a requeue under the same id. `settled`: the job stayed in
    this state (or the state was read from accounting after the job left the queue). Otherwise such a state is not
    final.
    """
    word = state_of(state)
    if word in UNSETTLED:
        return settled
    return word in FINAL


# The number that Slurm gives as the signal of such a job.
LOG_NOT_OPENED = 53

_ENDS = {
    "BOOT_FAIL": "its nodes failed to boot",
    "CANCELLED": "it was cancelled",
    "COMPLETED": "the batch script ended with exit code 0",
    "DEADLINE": "its deadline passed",
    "FAILED": "the batch script failed",
    "FORGOTTEN": "Slurm's controller has lost it, and accounting knows no end of it",
    "LAUNCH_FAILED": "it could not be launched on its nodes",
    "NODE_FAIL": "one of its nodes failed",
    "OUT_OF_MEMORY": "it used more memory than it was given; raise resources.memory or use smaller batches",
    "PREEMPTED": "a job with a higher priority took its nodes",
    "RECONFIG_FAIL": "its nodes could not be configured",
    "REVOKED": "another cluster of the federation runs it",
    "TIMEOUT": "it reached its time limit; raise resources.time or resume from a checkpoint",
}


def _code(reason: str) -> str:
    """Strip parentheses and the suffix that newer versions of Slurm add to some codes: "RaisedSignal:9(Killed)"."""
    return reason.strip().strip("()").partition(":")[0]


def launch_failed(reason: str) -> bool:
    """Return whether Slurm holds the job because it could not start it, according to the job's pending reason."""
    return _code(reason.partition(",")[0]).strip().replace(" ", "_") in _LAUNCH_FAILED


def log_not_opened(state: str, signal: int | None) -> bool:
    """Return whether Slurm ended the job before its script started because its first node could not open its log.

    Slurm reports this as ExitCode 0:53. No process of a job ends by this signal otherwise.
    """
    return is_final(state) and signal == LOG_NOT_OPENED


def describe_end(state: str, exit_code: int | None = None, signal: int | None = None, reason: str = "") -> str:
    """Describe how a job ended: "FAILED: the batch script failed, exit code 3 (NonZeroExitCode)"."""
    word = state_of(state)
    text = f"{word}: {_ENDS.get(word, 'state of the job in Slurm')}"
    # Slurm marks out-of-memory as signal 125 (ExitCode 0:125); no signal has that number.
    if signal and signal != 125 and word not in _ENDED_BY_SLURM:
        text += f", signal {signal}"
    elif exit_code:
        text += f", exit code {exit_code}"
    code = _code(reason)
    # For an ended job squeue still shows why the job was pending, which does not explain its end.
    if code in _END_REASONS:
        text += f" ({code})"
    return text


# Newer versions of Slurm show the signal with which Slurm itself ended the job. The state already says so.
_ENDED_BY_SLURM = frozenset({"NODE_FAIL", "PREEMPTED", "TIMEOUT"})

_LAUNCH_FAILED = frozenset({"launch_failed_requeued_held", "user_env_retrieval_failed_requeued_held"})

_END_REASONS = frozenset(
    {
        "NonZeroExitCode",
        "OutOfMemory",
        "RaisedSignal",
        "TimeLimit",
        "NodeDown",
        "SystemFailure",
        "JobLaunchFailure",
        "InactiveLimit",
        "DeadLine",
        "MaxRequeue",
        "DependencyNeverSatisfied",
    }
)
