# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A framework requires a value of CUDA_DEVICE_MAX_CONNECTIONS."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    Signature,
    raises,
)

SIGNATURE = Signature(
    family="cuda_max_connections",
    what="CUDA_DEVICE_MAX_CONNECTIONS has not the value that the framework asserts",
    remedy=(
        "`env: {CUDA_DEVICE_MAX_CONNECTIONS: 1}` with tensor or context parallelism on Hopper and older; "
        "not 1 with FSDP2. With `parallelism` stated the collection sets it."
    ),
    look="Compare CUDA_DEVICE_MAX_CONNECTIONS in the environment of the ranks with the value in that line.",
    matches=(raises("CUDA_DEVICE_MAX_CONNECTIONS", strength=CAUSE + 3),),
    examples=(
        (
            "AssertionError: Using tensor model parallelism or context parallelism require setting the envir"
            "onment variable CUDA_DEVICE_MAX_CONNECTIONS to 1"
        ),
    ),
)
