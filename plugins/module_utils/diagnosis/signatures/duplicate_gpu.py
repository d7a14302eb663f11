# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two ranks of a node chose the same GPU."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import CAUSE, Signature, says

SIGNATURE = Signature(
    family="duplicate_gpu",
    what="two ranks of a node use the same GPU",
    remedy=(
        "Let each rank choose the GPU of its LOCAL_RANK before the first collective "
        "(`torch.cuda.set_device(local_rank)`), and start as many ranks a node as `resources.gpus_per_node` says. The "
        "program must not name a fixed device."
    ),
    look="Compare the devices of the ranks of that node: each needs the one of its local rank.",
    matches=(says("Duplicate GPU detected", "Duplicate GPU", strength=CAUSE + 1),),
    examples=(
        "n1:1:2 [0] init.cc:800 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 3b000",
        "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 10",
    ),
)
