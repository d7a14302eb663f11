# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain Slurm's reason codes: why a job waits or ended, and what to change in the job.

Source: JOB REASON CODES of squeue(1), and the codes of job_state_reason_string() in Slurm 22.05, 24.11 and 26.05.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Reason:
    """Why a job waits or ended: Slurm's `code`, its meaning and a remedy. `stuck`: waiting alone never helps."""

    code: str
    meaning: str
    remedy: str = ""
    stuck: bool = False

    @property
    def sentence(self) -> str:
        """Meaning, remedy and Slurm's code in one line."""
        text = f"{self.meaning} ({self.code})" if self.code else self.meaning
        return f"{text}; {self.remedy}" if self.remedy else text

    @property
    def hopeless(self) -> bool:
        """Whether only an administrator could make the job start: it is not held, and not waiting for a node that may
        return.
        """
        return self.code in _HOPELESS

    def of_job(self, job_id: str | None, nodes: Sequence[str] = ()) -> Reason:
        """Return this reason with the job's id and the affected nodes inserted in its commands."""
        known = {"JOBID": job_id or "JOBID", "NodeName=NODE": f"NodeName={','.join(nodes) or 'NODE'}"}
        remedy = self.remedy
        for word, value in known.items():
            remedy = remedy.replace(word, value)
        return replace(self, remedy=remedy)


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

# A remedy names an sbatch option, such as {mem}. It is replaced by the path of the option in the job: a field of
# `resources`, or resources.sbatch. These names repeat the field table, because otherwise each module that explains a
# reason would have to ship the table. A test compares the two.
_OPTION = re.compile(r"\{([a-z-]+)\}")
_FIELDS = {
    "account": "account",
    "constraint": "constraint",
    "cpus-per-task": "cpus_per_rank",
    "dependency": "dependency",
    "exclude": "exclude",
    "gpus": "gpus_per_node",
    "gres": "gres",
    "mem": "memory",
    "nodes": "nodes",
    "partition": "partition",
    "qos": "qos",
    "reservation": "reservation",
    "segment": "segment",
    "switches": "switches",
    "time": "time",
}

REASONS: dict[str, tuple[str, str, bool]] = {
    "None": ("Slurm has not considered it yet", "wait a minute and look again", False),
    "Resources": (
        "waiting for enough free nodes",
        "fewer {nodes} or a shorter {time} may start sooner",
        False,
    ),
    "Priority": (
        "jobs with a higher priority are ahead in this partition",
        "a shorter {time} lets Slurm fit it into gaps; another {qos} may go before",
        False,
    ),
    "Dependency": (
        "waiting for another job to end",
        "check that job (squeue); {dependency} names it",
        False,
    ),
    "DependencyNeverSatisfied": (
        "the job it depends on ended in a way that can never satisfy the dependency",
        "cancel it and launch again without that {dependency}",
        True,
    ),
    "BeginTime": ("its earliest start time has not come", "a requeued job waits for up to two minutes", False),
    "JobHeldUser": ("held by its owner", "release it with: scontrol release JOBID", True),
    "JobHeldAdmin": (
        "held by an administrator",
        "ask the administrators of the cluster: one of them releases it with: scontrol release JOBID",
        True,
    ),
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
        "Slurm could not start the job on its node, as after a crash of slurmctld, and holds it",
        (
            "an administrator checks why (sinfo -R) and resumes the node (scontrol update NodeName=NODE "
            "State=RESUME), then: scontrol release JOBID"
        ),
        True,
    ),
    "user_env_retrieval_failed_requeued_held": (
        "the user's environment could not be read on the job's first node, and Slurm holds the job",
        "find out what hangs in the login files there, then: scontrol release JOBID",
        True,
    ),
    "ReqNodeNotAvail": (
        "a node that it needs is down, drained or reserved",
        "take it out of {nodelist}, or wait; before a maintenance a shorter {time} may fit",
        False,
    ),
    "NodeDown": ("a node that it needs is down", "wait for the node or name it in {exclude}", False),
    "BadConstraints": (
        "no node that is up satisfies its constraints",
        "compare resources.* (constraint, GPUs, memory, CPUs) with the output of rankzero.slurm.cluster_info",
        False,
    ),
    "PartitionNodeLimit": (
        "it asks for more nodes than the partition allows or has up",
        "lower {nodes}, choose another {partition}, or wait for nodes that are down",
        False,
    ),
    "PartitionTimeLimit": (
        "its time limit is above the limit of the partition",
        "lower {time} or choose another {partition}",
        True,
    ),
    "PartitionDown": ("the partition is down", "choose another {partition}, or wait", False),
    "PartitionInactive": ("the partition accepts no starts", "choose another {partition}, or wait", False),
    "PartitionConfig": (
        "the partition does not accept this request",
        "choose another {partition}; rankzero.slurm.cluster_info lists their limits",
        True,
    ),
    "Licenses": ("waiting for a licence to be free", "wait, or ask for fewer in {licenses}", False),
    "Reservation": (
        "waiting for its reservation to begin",
        "wait, or launch without {reservation}",
        False,
    ),
    "ReservationDeleted": (
        "its reservation was deleted",
        "launch it without {reservation}",
        True,
    ),
    "InvalidAccount": ("its account is not valid", "set {account} to one of yours", True),
    "InvalidQOS": ("its QOS is not valid", "set {qos} to one of yours", True),
    "AccountNotAllowed": (
        "its account may not use this partition",
        "choose another {partition} or {account}",
        True,
    ),
    "QOSNotAllowed": (
        "its QOS may not be used in this partition",
        "choose another {partition} or {qos}",
        True,
    ),
    "AssociationJobLimit": ("the account reached its number of running jobs", "it starts when one of them ends", False),
    "AssociationResourceLimit": ("the account reached a limit of resources", "wait, or ask for less", False),
    "AssociationTimeLimit": ("the account used up its time", "ask the administrators of the cluster", True),
    "JobArrayTaskLimit": (
        "the array reached its number of tasks at a time",
        "it starts when another task ends; sweep.parallel says how many run at a time",
        False,
    ),
    "Cleaning": (
        "the attempt before it is still being cleaned up",
        "wait; if it lasts, a process or an epilog hangs on one of its nodes",
        False,
    ),
    "Prolog": ("the prolog of its nodes is running", "wait; if it lasts, ask the administrators of the cluster", False),
    "InactiveLimit": ("the job was inactive for too long", "launch again", False),
    "FrontEndDown": ("no front-end node is up", "ask the administrators of the cluster", False),
    "JobLaunchFailure": (
        "the job could not be launched",
        "the file system or the user may be missing on the node; check the job's log",
        False,
    ),
    "NonZeroExitCode": ("the program ended with a non-zero exit code", "the logs say why", False),
    "OutOfMemory": (
        "the job used more memory than it was given",
        "raise {mem} or lower the batch size",
        False,
    ),
    "RaisedSignal": ("the program was ended by a signal", "the logs say why", False),
    "TimeLimit": ("the job reached its time limit", "raise {time} or resume from a checkpoint", False),
    "SystemFailure": ("a failure of Slurm, a file system or a network", "try again; ask the administrators", False),
    "BurstBufferResources": ("waiting for burst buffer space", "wait, or ask for less of it", False),
    "BurstBufferStageIn": ("its data is being staged in", "wait", False),
    "BurstBufferOperation": ("a burst buffer operation failed", "ask the administrators of the cluster", True),
    "DeadLine": ("it can no longer end before its deadline", "submit it with a later deadline", True),
    "FedJobLock": ("the clusters of the federation are agreeing on which of them starts it", "wait", False),
    "MaxRequeue": ("it was requeued too often", "find out why it keeps failing", True),
    "Reboot": ("its nodes are being rebooted", "wait", False),
    "SchedDefer": ("Slurm defers it until its next full scheduling cycle", "wait", False),
    "BlockMaxError": ("the blocks that it needs had too many errors", "ask the administrators of the cluster", False),
    "BlockFreeAction": ("the blocks that it needs are being freed", "wait", False),
    "PowerNotAvail": ("no power is left for more nodes", "wait, or ask for fewer {nodes}", False),
    "PowerReserved": ("power is reserved for others", "wait, or ask for fewer {nodes}", False),
    "MaxPoweredUpNodes": (
        "as many nodes as the site allows are powered up",
        "wait for one of them to end its job",
        False,
    ),
    "AccountingPolicy": (
        "a limit of the account or QOS is reached",
        "compare the request with the limits: sacctmgr show assoc, sacctmgr show qos",
        False,
    ),
    "MaxMemPerLimit": (
        "it asks for more memory a node or CPU than the partition allows",
        "lower {mem}, or spread it over more CPUs or nodes",
        True,
    ),
    "InvalidReason": ("Slurm gives no valid reason", "ask the administrators of the cluster", False),
    "ReservationInvalid": (
        "its reservation is not valid for it",
        "correct or remove {reservation}",
        True,
    ),
    "Constraints": (
        "no node satisfies its constraints",
        "correct {constraint}; rankzero.slurm.cluster_info lists the features of nodes",
        False,
    ),
    "MpiPortsBusy": ("the ports that srun reserves for MPI are taken", "it starts when another job frees them", False),
    "NvidiaImexChannels": (
        "all IMEX channels of the NVIDIA fabric are taken",
        "it starts when another job frees one; else ask the administrators of the cluster",
        False,
    ),
}

# The parts of a code that name a limited resource: its name, and the options that request it.
_LIMITED = (
    ("cpu", "cores", "{cpus-per-task} or {nodes}"),
    ("gres", "GPUs or other devices", "{gpus}, {gres} or {nodes}"),
    ("node", "nodes", "{nodes}"),
    ("mem", "memory", "{mem}"),
    ("wall", "wall time", "{time}"),
    ("time", "time", "{time}"),
    ("submitjob", "submitted jobs", ""),
    ("job", "jobs", ""),
    ("bb", "burst buffer space", ""),
    ("energy", "energy", ""),
    ("billing", "billing units", "{nodes} or {gpus}"),
    ("license", "licences", "{licenses}"),
)
# Prefixes of codes that name a limit, and the limit's owner. Codes for QOS limits per account or user lack the prefix
# QOS.
_OWNERS = (("QOS", "the QOS"), ("Assoc", "the account"), ("Max", "the QOS"))


def _limit_reason(code: str) -> Reason | None:
    """Return the reason for a code composed of an owner, a scope and a limited resource; None for other codes."""
    for prefix, owner in _OWNERS:
        if not code.startswith(prefix):
            continue
        rest = code[len(prefix) :].lower()
        scope = re.search(r"per(job|user|account|node)", rest)
        bare = re.sub(r"per(job|user|account|node)", "", rest)
        thing, asked = next(((words, key) for part, words, key in _LIMITED if part in bare), ("resources", ""))
        ask = f"lower {asked}" if asked else "ask for less"
        if rest.startswith("min"):
            meaning, remedy = (
                f"it asks for fewer {thing} than {owner} demands",
                f"ask for more ({asked or 'resources'})",
            )
            return Reason(code, meaning, f"{remedy}, or use another {{qos}}", True)
        if "minutes" in rest or "runmins" in rest:
            if "perjob" in rest:
                meaning = f"it asks for more {thing} times minutes than {owner} allows one job"
                return Reason(code, meaning, f"{ask}, or {{time}}", True)
            meaning = f"{owner} used up its budget of {thing} times minutes"
            remedy = "a shorter {time} may fit; else another {account} or {qos}"
            return Reason(code, meaning, remedy)
        if scope and scope[1] in ("job", "node"):
            meaning = f"it asks for more {thing} than {owner} allows one {scope[1]}"
            return Reason(code, meaning, f"{ask}, or use another {{qos}} or {{account}}", True)
        if "usagethreshold" in rest:
            remedy = "use another {qos} or {account}"
            return Reason(code, f"the usage factor of {owner} is below its threshold", remedy)
        whose = {"user": "your jobs", "account": "the jobs of your account"}.get(scope[1] if scope else "", "")
        meaning = f"{whose or f'the jobs of {owner}'} already use all the {thing} that {owner} allows"
        return Reason(
            code, meaning, f"it starts when one of them ends; or {ask}" if asked else "it starts when one of them ends"
        )
    return None


def path_of(name: str) -> str:
    """Return the path in the job spec of sbatch's option --NAME."""
    return f"resources.{_FIELDS.get(name, f'sbatch.{name}')}"


def explain(reason: str) -> Reason:
    """Explain Slurm's reason for a pending or ended job. Unknown codes are returned unchanged."""
    explanation = _explain(reason)
    return replace(explanation, remedy=_OPTION.sub(lambda match: path_of(match[1]), explanation.remedy))


def _explain(reason: str) -> Reason:
    text = reason.strip().strip("()")
    if text.lower().startswith("nodes required for job are down"):
        return Reason("Resources", "nodes that it needs are down, drained or reserved", "wait or exclude them")
    # Slurm 24.11 misspells this code.
    head, _comma, detail = text.replace("InvaildReason", "InvalidReason").partition(",")
    code = _bare(head.strip().replace(" ", "_")) or "None"
    if code in REASONS:
        meaning, remedy, stuck = REASONS[code]
        extra = detail.strip()
        return Reason(code, f"{meaning}: {extra}" if extra else meaning, remedy, stuck)
    return _limit_reason(code) or Reason(text, "waiting")


def _bare(code: str) -> str:
    """Strip the suffix that newer versions of Slurm add to some codes, as in "RaisedSignal:9(Killed)"."""
    bare = code.partition(":")[0]
    return bare if bare in REASONS else code
