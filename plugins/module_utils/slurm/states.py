# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job states of Slurm: which ones are the end, and what they mean in words a person understands.

Source: JOB STATE CODES of squeue(1). A state is an upper-case word; newer Slurms give a list (base state and flags);
sacct adds words ("CANCELLED by 1000").
"""

from __future__ import annotations

from collections.abc import Sequence

# The name that a row of accounting has where slurmdbd heard of a step, or of the end, before the job itself: that of a
# short job, or of a slurmdbd that was away. Such a row may lack the folder, and may name the nodes of that step alone.
NAMELESS = ("", "allocation")
PENDING = frozenset({"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
# The job holds nodes (or did a moment ago): the program may be running.
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
        "LAUNCH_FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "RECONFIG_FAIL",
        "REVOKED",
        "TIMEOUT",
    }
)
# Ends that Slurm may still turn into a requeue under the same id: believe them only when they stay.
UNSETTLED = frozenset({"PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL"})

# Flags beside a base state (list form), strongest first: what is happening now says more than the base.
_FLAGS = (
    "REQUEUED",
    "REQUEUE_HOLD",
    "SPECIAL_EXIT",
    "REQUEUE_FED",
    "RESV_DEL_HOLD",
    "COMPLETING",
    "STAGE_OUT",
    "CONFIGURING",
    "RESIZING",
    "SIGNALING",
    "STOPPED",
    "POWER_UP_NODE",
    "REVOKED",
    "LAUNCH_FAILED",
    "RECONFIG_FAIL",
)


def state_of(value: str | Sequence[str]) -> str:
    """One upper-case state of what Slurm gave: a word, "CANCELLED by 1000", "CANCELLED+", or a list with flags.

    In a list a flag decides over the base state: ["COMPLETED", "COMPLETING"] is COMPLETING, hence not final.
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
    """True when the job waits in the queue (a requeued one too)."""
    return state_of(state) in PENDING


def is_running(state: str) -> bool:
    """True when the job holds nodes."""
    return state_of(state) in RUNNING


def is_final(state: str, *, settled: bool = True) -> bool:
    """True when no attempt can follow.

    PREEMPTED, NODE_FAIL and a few others may become a requeue under the same id. `settled` says that the job stayed in
    this state (or was read from accounting after it left the queue); without it such a state is not final.
    """
    word = state_of(state)
    if word in UNSETTLED:
        return settled
    return word in FINAL


_ENDS = {
    "BOOT_FAIL": "its nodes failed to boot",
    "CANCELLED": "it was cancelled",
    "COMPLETED": "the batch script ended with exit code 0",
    "DEADLINE": "its deadline passed",
    "FAILED": "the batch script failed",
    "LAUNCH_FAILED": "it could not be launched on its nodes",
    "NODE_FAIL": "one of its nodes failed",
    "OUT_OF_MEMORY": "it used more memory than it was given; raise resources.memory or use smaller batches",
    "PREEMPTED": "a job with a higher priority took its nodes",
    "RECONFIG_FAIL": "its nodes could not be configured",
    "REVOKED": "another cluster of the federation runs it",
    "TIMEOUT": "it reached its time limit; raise resources.time or resume from a checkpoint",
}


def _code(reason: str) -> str:
    """Without parentheses and without what newer Slurms add to some codes: "RaisedSignal:9(Killed)"."""
    return reason.strip().strip("()").partition(":")[0]


def launch_failed(reason: str) -> bool:
    """True when Slurm holds the job because it could not start it, by the reason that it gives for the wait."""
    return _code(reason.partition(",")[0]).strip().replace(" ", "_") in _LAUNCH_FAILED


def describe_end(state: str, exit_code: int | None = None, signal: int | None = None, reason: str = "") -> str:
    """One sentence on how a job ended: "FAILED: the batch script failed, exit code 3 (NonZeroExitCode)"."""
    word = state_of(state)
    text = f"{word}: {_ENDS.get(word, 'state of the job in Slurm')}"
    # Slurm itself marks out-of-memory as signal 125 (ExitCode 0:125): no signal of that number exists.
    if signal and signal != 125 and word not in _ENDED_BY_SLURM:
        text += f", signal {signal}"
    elif exit_code:
        text += f", exit code {exit_code}"
    code = _code(reason)
    # For an ended job squeue still shows why it had been pending; that explains nothing about its end.
    if code in _END_REASONS:
        text += f" ({code})"
    return text


# Newer Slurms show the signal of theirs that ended the job; that it was Slurm says the state already.
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
