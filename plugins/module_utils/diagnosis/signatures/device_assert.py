# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An assertion in a GPU kernel failed: an index or a label is out of range. The GPU itself is well."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    Signature,
    raises,
    says,
)

SIGNATURE = Signature(
    family="device_assert",
    what="an index, a label or a value is out of range on the GPU",
    remedy=(
        "It is an error of the program or its data, not of the node. Compare the labels with the number of classes, "
        "the indices with the sizes of the embeddings, and the inputs of a loss with its range. "
        "`env.CUDA_LAUNCH_BLOCKING: 1` shows the operation."
    ),
    look="Compare the labels and the indices of that step with the sizes that the model has for them.",
    matches=(
        says(
            r"device-side assert triggered|CUDA_ERROR_ASSERT|cudaErrorAssert|CUDA error\(710\)",
            "device-side assert triggered",
            "CUDA_ERROR_ASSERT",
            "cudaErrorAssert",
            "CUDA error(710)",
            strength=CAUSE + 1,
        ),
        raises(r"device-side assert", strength=CAUSE + 2),
    ),
    examples=("RuntimeError: CUDA error: device-side assert triggered",),
)
