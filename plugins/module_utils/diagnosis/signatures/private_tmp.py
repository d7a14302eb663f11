# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm could not set up the private /tmp of the job on a node (job_container/tmpfs, namespace/tmpfs)."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    DECISIVE,
    Signature,
    says,
)

SIGNATURE = Signature(
    family="private_tmp",
    what="Slurm could not set up the job's private /tmp",
    remedy=(
        "Launch again: Slurm 22.05 can skip this set-up for a requeued job that returns to the same node. If it "
        "happens there again, launch without the node (`resources.exclude: [{node}]`) and show the line to the "
        "administrators."
    ),
    look="Look at the state of that node: `scontrol show node NODE`.",
    matches=(
        says(
            r"slurmstepd(?:-(?P<node>[\w.-]+))?: error: (?:container|namespace)_[gp]_(?:join|create)\b",
            "container_g_join",
            "container_p_join",
            "container_g_create",
            "container_p_create",
            "namespace_g_join",
            "namespace_p_join",
            "namespace_g_create",
            "namespace_p_create",
            strength=DECISIVE + 1,
        ),
    ),
    examples=(
        "slurmstepd-n1: error: container_p_join: open failed for /var/spool/c/n1/37/.ns: No such file or directory",
        "slurmstepd-n1: error: container_g_join failed: 37",
    ),
    retry=True,
    blames_node=True,
)
