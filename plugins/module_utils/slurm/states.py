# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job states and reasons of Slurm: which ones are the end, and what they mean in words a person understands.

Source: JOB STATE CODES and JOB REASON CODES of squeue(1), job_reason_codes of the Slurm documentation. A state is an
upper-case word; newer Slurms give a list (base state and flags); sacct adds words ("CANCELLED by 1000").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Reason:
    """Why a job is where it is: Slurm's `code`, what it means, what would help. `stuck`: waiting alone never helps."""

    code: str
    meaning: str
    remedy: str = ""
    stuck: bool = False

    @property
    def sentence(self) -> str:
        """Meaning, remedy and Slurm's own word, for a line on the screen."""
        text = f"{self.meaning} ({self.code})" if self.code else self.meaning
        return f"{text}; {self.remedy}" if self.remedy else text

    @property
    def hopeless(self) -> bool:
        """True when nobody but an administrator could make it start: not held, and no node that may come back."""
        return self.code in _HOPELESS


_HOPELESS = frozenset(
    {
        "DependencyNeverSatisfied",
        "PartitionTimeLimit",
        "InvalidAccount",
        "InvalidQOS",
        "AccountNotAllowed",
        "QOSNotAllowed",
        "ReservationDeleted",
        "DeadLine",
    }
)

_REASONS: dict[str, tuple[str, str, bool]] = {
    "None": ("Slurm has not looked at it yet", "", False),
    "Resources": (
        "waiting for enough free nodes",
        "fewer nodes or a shorter time limit may start sooner",
        False,
    ),
    "Priority": (
        "jobs with a higher priority are ahead in this partition",
        "a shorter time limit lets Slurm fit it into gaps",
        False,
    ),
    "Dependency": ("waiting for another job to end", "", False),
    "DependencyNeverSatisfied": (
        "the job it depends on ended in a way that can never satisfy the dependency",
        "cancel it and submit again without that dependency",
        True,
    ),
    "BeginTime": ("its earliest start time has not come", "a requeued job waits for up to two minutes", False),
    "JobHeldUser": ("held by its owner", "release it with: scontrol release JOBID", True),
    "JobHeldAdmin": ("held by an administrator", "ask the administrators of the cluster", True),
    "JobHoldMaxRequeue": (
        "held because it was requeued too often",
        "find out why it keeps failing, then: scontrol release JOBID",
        True,
    ),
    "job_requeued_in_held_state": (
        "requeued and held",
        "find out why it failed, then: scontrol release JOBID",
        True,
    ),
    "launch_failed_requeued_held": (
        "the job could not be started on its nodes and is held",
        "look at the node's slurmd log or ask the administrators, then: scontrol release JOBID",
        True,
    ),
    "ReqNodeNotAvail": (
        "a node that it needs is down, drained or reserved",
        "take the node out of the request, or wait for it",
        False,
    ),
    "NodeDown": ("a node that it needs is down", "wait for the node or exclude it", False),
    "BadConstraints": (
        "no node that is up satisfies its constraints",
        "compare constraint, GPUs, memory and CPUs with what rankzero.slurm.cluster_info says",
        False,
    ),
    "PartitionNodeLimit": (
        "it asks for more nodes than the partition allows or has up",
        "lower resources.nodes, choose another partition, or wait for nodes that are down",
        False,
    ),
    "PartitionTimeLimit": (
        "its time limit is above the limit of the partition",
        "lower resources.time or choose another partition",
        True,
    ),
    "PartitionDown": ("the partition is down", "choose another partition", False),
    "PartitionInactive": ("the partition accepts no starts", "choose another partition", False),
    "PartitionConfig": (
        "the partition does not accept this request",
        "choose another partition",
        True,
    ),
    "Licenses": ("waiting for a licence to be free", "", False),
    "Reservation": ("waiting for its reservation to begin", "", False),
    "ReservationDeleted": (
        "its reservation was deleted",
        "submit it without the reservation",
        True,
    ),
    "InvalidAccount": ("its account is not valid", "set resources.account to one of yours", True),
    "InvalidQOS": ("its QOS is not valid", "set resources.qos to one of yours", True),
    "AccountNotAllowed": (
        "its account may not use this partition",
        "choose another partition or account",
        True,
    ),
    "QOSNotAllowed": (
        "its QOS may not be used in this partition",
        "choose another partition or QOS",
        True,
    ),
    "AssociationJobLimit": ("the account reached its number of running jobs", "wait for one of them to end", False),
    "AssociationResourceLimit": ("the account reached a limit of resources", "wait or ask for less", False),
    "AssociationTimeLimit": ("the account used up its time", "ask the administrators of the cluster", True),
    "JobArrayTaskLimit": ("the array reached its number of tasks at a time", "", False),
    "Cleaning": ("the attempt before it is still being cleaned up", "", False),
    "Prolog": ("the prolog of its nodes is running", "", False),
    "InactiveLimit": ("the job was inactive for too long", "", False),
    "FrontEndDown": ("no front-end node is up", "", False),
    "JobLaunchFailure": (
        "the job could not be launched",
        "the file system or the user may be missing on the node; look at the job's log",
        False,
    ),
    "NonZeroExitCode": ("the program ended with a non-zero exit code", "the logs say why", False),
    "OutOfMemory": (
        "the job used more memory than it was given",
        "raise resources.memory or lower the batch size",
        False,
    ),
    "RaisedSignal": ("the program was ended by a signal", "the logs say why", False),
    "TimeLimit": ("the job reached its time limit", "raise resources.time or resume from a checkpoint", False),
    "SystemFailure": ("a failure of Slurm, a file system or a network", "try again; ask the administrators", False),
    "BurstBufferResources": ("waiting for burst buffer space", "", False),
    "BurstBufferStageIn": ("its data is being staged in", "", False),
    "BurstBufferOperation": ("a burst buffer operation failed", "ask the administrators of the cluster", True),
    "DeadLine": ("it can no longer end before its deadline", "submit it with a later deadline", True),
    "FedJobLock": ("the clusters of the federation are agreeing on who starts it", "", False),
    "MaxRequeue": ("it was requeued too often", "find out why it keeps failing", True),
    "Reboot": ("its nodes are being rebooted", "", False),
}

# The parts of a QOS... or Assoc... code that names a limit.
_LIMITED = (
    ("cpu", "cores"),
    ("gres", "GPUs or other devices"),
    ("node", "nodes"),
    ("mem", "memory"),
    ("wall", "wall time"),
    ("submitjob", "submitted jobs"),
    ("job", "jobs"),
    ("bb", "burst buffer space"),
    ("energy", "energy"),
    ("billing", "billing units"),
    ("license", "licences"),
)


def _limit_reason(code: str) -> Reason | None:
    """The reason for one of the many codes made of QOS or Assoc, a scope and a limited thing."""
    for prefix, owner in (("QOS", "the QOS"), ("Assoc", "the account")):
        if not code.startswith(prefix):
            continue
        rest = code[len(prefix) :].lower()
        bare = re.sub(r"per(job|user|account|node)", "", rest)
        thing = next((words for part, words in _LIMITED if part in bare), "resources")
        if rest.startswith("min"):
            meaning, remedy = f"it asks for fewer {thing} than {owner} demands", "ask for more or use another QOS"
            return Reason(code, meaning, remedy, True)
        if "perjob" in rest:
            meaning = f"it asks for more {thing} than {owner} allows one job"
            return Reason(code, meaning, "ask for less or use another QOS or account", True)
        if "minutes" in rest:
            meaning = f"{owner} used up its budget of {thing} times minutes"
            return Reason(code, meaning, "a shorter time limit may fit; else ask the administrators of the cluster")
        if "usagethreshold" in rest:
            return Reason(code, f"the usage factor of {owner} is below its threshold", "use another QOS or account")
        meaning = f"the jobs of {owner} already use all the {thing} allowed to it"
        return Reason(code, meaning, "it starts when one of them ends")
    return None


def explain(reason: str) -> Reason:
    """What Slurm's pending (or end) reason means. Unknown words come back as they are."""
    text = reason.strip().strip("()")
    if text.lower().startswith("nodes required for job are down"):
        return Reason("Resources", "nodes that it needs are down, drained or reserved", "wait or exclude them")
    head, _comma, detail = text.partition(",")
    code = _bare(head.strip().replace(" ", "_")) or "None"
    if code in _REASONS:
        meaning, remedy, stuck = _REASONS[code]
        extra = detail.strip()
        return Reason(code, f"{meaning}: {extra}" if extra else meaning, remedy, stuck)
    return _limit_reason(code) or Reason(text, "waiting")


def _bare(code: str) -> str:
    """Without what newer Slurms add to some codes: "RaisedSignal:9(Killed)"."""
    bare = code.partition(":")[0]
    return bare if bare in _REASONS else code


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


def describe_end(state: str, exit_code: int | None = None, signal: int | None = None, reason: str = "") -> str:
    """One sentence on how a job ended: "FAILED: the batch script failed, exit code 3 (NonZeroExitCode)"."""
    word = state_of(state)
    text = f"{word}: {_ENDS.get(word, 'state of the job in Slurm')}"
    # Slurm itself marks out-of-memory as signal 125 (ExitCode 0:125): no signal of that number exists.
    if signal and signal != 125 and word not in _ENDED_BY_SLURM:
        text += f", signal {signal}"
    elif exit_code:
        text += f", exit code {exit_code}"
    code = _bare(reason.strip().strip("()"))
    # For an ended job squeue still shows why it had been pending; that explains nothing about its end.
    if code in _REASONS and code in _END_REASONS:
        text += f" ({code})"
    return text


# Newer Slurms show the signal of theirs that ended the job; that it was Slurm says the state already.
_ENDED_BY_SLURM = frozenset({"NODE_FAIL", "PREEMPTED", "TIMEOUT"})

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
