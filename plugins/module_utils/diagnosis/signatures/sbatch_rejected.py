# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm did not accept the job, or a step in it."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    WEAK,
    Signature,
    says,
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
            r"fatal): (?:Only allocated \d+ nodes? asked for|Unable to (?:create step|allocate resources|"
            "confirm allocation)|Requested|Invalid|More processors requested|.*[Ii]nvalid (?:option|"
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
        "srun: error: Only allocated 3 nodes asked for 4",
        "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified",
        "srun: error: Unable to create step for job 12: More processors requested than permitted",
    ),
)
