# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node failed, or Slurm lost contact with it."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    DECISIVE,
    LIMIT,
    WEAK,
    Signature,
    says,
)

SIGNATURE = Signature(
    family="node_failure",
    what="a node failed",
    remedy=(
        "Launch again without it: `resources.exclude: [{node}]`; `resources.spares: 1` restarts the step "
        "inside the allocation."
    ),
    look="Look at the state and the reason of that node: `scontrol show node NODE`.",
    matches=(
        says(
            r"DUE TO NODE FAILURE|CANCELLED AT \S+ DUE TO (?:NODE )?FAIL|NODE FAIL|"
            r"[Nn]ode failure on (?P<node>[\w.-]+)|NODE_FAIL",
            "NODE FAIL",
            "ode failure",
            "DUE TO FAIL",
            "NODE_FAIL",
            strength=DECISIVE,
        ),
        says(
            "srun: error: (?:Node failure|Aborting, step creation failed due to node)|"
            "srun: error: .*Communication connection failure|Unable to contact (?:slurmd|node)|"
            r"launch failed on node (?P<node>\S+)|srun: error: Timed out waiting for job step to complete",
            "ode failure",
            "Communication connection failure",
            "Unable to contact",
            "launch failed on node",
            strength=LIMIT,
        ),
        says(
            "has been marked dead because .*missed too many heartbeats",
            "missed too many heartbeats",
            strength=WEAK + 4,
            what="Ray lost the connection to a node",
            remedy="Look at that node's memory and at its `raylet.out`: it was too busy to answer, or is down.",
        ),
    ),
    examples=(
        "The node with node id 5a has been marked dead because the detector has missed too many heartbeats from it.",
        "srun: error: Node failure on node07",
        (
            "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO NODE FAILURE, SEE S"
            "LURMCTLD LOG FOR DETAILS ***"
        ),
    ),
    retry=True,
    blames_node=True,
)
