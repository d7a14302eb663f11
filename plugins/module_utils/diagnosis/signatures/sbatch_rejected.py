# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm did not accept the job, or a step in it."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    WEAK,
    Signature,
    says,
)

_NO_ANSWER = (
    "Slurm's daemon on a node, or its controller, did not answer: nothing in the job spec is wrong. Launch again. If "
    "the same node fails again, launch without it (`resources.exclude`) and show the line to the administrators."
)
_SILENT = (
    r"(?:[Uu]nable to contact slurm controller|[Cc]ommunication (?:connection|shutdown) failure|"
    r"Zero Bytes were transmitted|[Ss]ocket timed out on send/recv|Message (?:receive|send) failure|"
    r"[Ss]lurmd could not|Unable to (?:establish|create|connect|launch)|Node failure|Unspecified error|"
    r"[Cc]onnection refused|Connection timed out|Job credential|[Ii]nvalid job credential|Protocol authentication)"
)

SIGNATURE = Signature(
    family="sbatch_rejected",
    what="Slurm refused the job or a step of it",
    remedy=(
        "It says which option: `resources.partition`, `resources.account`, `resources.qos`, "
        "`resources.nodes`, `resources.time`, `resources.gpus_per_node`; `rankzero.slurm.cluster_info` "
        "lists what there is."
    ),
    look="Compare what Slurm refused with what there is: `rankzero.slurm.cluster_info` lists it.",
    matches=(
        says(
            "(?:sbatch|salloc): (?:error|fatal)|Batch job submission failed|srun: (?:error|"
            r"fatal): (?:Only allocated \d+ nodes? asked for|Unable to (?:create step(?!.*already complet)|"
            "allocate resources|confirm allocation)|Requested|Invalid|More processors requested|.*[Ii]nvalid (?:option|"
            "partition|account|node name)|Job step.*(?:disabled|aborted)|cpus-per-task)|srun: fatal: |"
            "Requested node configuration is not available|Invalid account or account/partition|"
            r"QOSMax\w+Limit|(?:srun|sbatch|salloc): (?:unrecognized|invalid) option|srun: error: --",
            "sbatch: ",
            "salloc: ",
            "submission failed",
            "srun: error",
            "srun: fatal",
            "Requested node configuration",
            "Invalid account",
            "QOSMax",
            "unrecognized option",
            "invalid option",
        ),
        says(
            "(?:srun|sbatch|salloc): unrecognized option '(?P<option>--container-[a-z-]+)",
            "unrecognized option",
            strength=CAUSE + 1,
            what="Slurm does not know {option}: its plugin pyxis is missing there",
            remedy=(
                "Ask the site whether pyxis is installed (`srun --help | grep container`), or start containers "
                "without it: `container.runtime: apptainer`, or `oci`."
            ),
        ),
        says(
            rf"(?:srun|sbatch|salloc): error: (?:Task launch for \S+ failed|Application launch failed|"
            rf"Unable to create step|"
            rf"Unable to confirm allocation|Unable to allocate resources|[Bb]atch job submission failed)\b.*{_SILENT}",
            "srun: error",
            "sbatch: error",
            "salloc: error",
            strength=CAUSE + 1,
            remedy=_NO_ANSWER,
            what="a part of Slurm did not answer",
        ),
        # A command that the batch script runs may have asked.
        says(
            r"(?:srun|sbatch|salloc|squeue|scontrol|slurm_\w+)(?: error)?: .*(?:[Uu]nable to contact slurm controller|"
            r"Zero Bytes were transmitted)",
            "to contact slurm controller",
            "Zero Bytes were",
            strength=WEAK + 6,
            remedy=_NO_ANSWER,
            what="a part of Slurm did not answer",
        ),
        says(
            r"srun: error: Unable to confirm allocation for job \d+: Invalid job id",
            "Unable to confirm allocation",
            strength=CAUSE + 1,
            what="the step belongs to a job that has ended",
            remedy=(
                "The SLURM_JOB_ID of the environment is of a job that has ended: launch from a shell outside of it, or "
                "`unset` the variables that begin with SLURM_."
            ),
        ),
        says(
            r"srun: error: Unable to create step for job \d+: Job/step already complet",
            "Unable to create step",
            strength=WEAK + 2,
            what="the job was ending when this step began",
            remedy="Look for what ended the job, in the lines before that one.",
        ),
        says(
            r"srun: error: (?:Couldn't find the specified plugin|Cannot create context|cannot find \S+ plugin|MPI:)",
            "specified plugin",
            "Cannot create context",
            "srun: error",
            strength=WEAK + 6,
        ),
        says(
            r"srun: error: (?:Task launch for \S+ failed|Application launch failed|"
            r"CPU binding outside|Unable to satisfy)",
            "Task launch for",
            "Application launch failed",
            "CPU binding outside",
            strength=WEAK + 6,
        ),
    ),
    examples=(
        "srun: unrecognized option '--container-image=/images/x.sqsh'",
        "srun: error: Only allocated 3 nodes asked for 4",
        "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified",
        "srun: error: Unable to create step for job 12: More processors requested than permitted",
    ),
)
