# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DistributedDataParallel waits for the gradients of parameters that the loss does not depend on."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    Signature,
    raises,
    says,
)

SIGNATURE = Signature(
    family="unused_parameters",
    what="some parameters got no gradient, and DistributedDataParallel waits for all of them",
    remedy=(
        "Wrap the model with `find_unused_parameters=True`, or let the loss depend on all parameters. "
        "`env.TORCH_DISTRIBUTED_DEBUG: DETAIL` names them."
    ),
    look="See which parameters the loss of that step does not depend on.",
    matches=(
        raises(
            "Expected to have finished reduction in the prior iteration|parameters that were not used in producing "
            "(?:the )?loss|outputs derived from the module parameters must participate"
        ),
        # Without the name of the exception, which another rank has torn off.
        says(
            "^Expected to have finished reduction in the prior iteration before starting",
            "Expected to have finished reduction",
        ),
        raises(
            "Expected to mark a variable ready only once",
            remedy=(
                "A parameter gets its gradient twice in one backward pass: with activation checkpointing use "
                "`use_reentrant=False`, or DDP's `static_graph=True`; do not use a module outside of `forward`."
            ),
        ),
    ),
    examples=(
        "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.",
        "Expected to have finished reduction in the prior iteration before starting a new one.",
    ),
)
