# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A comparison between precisions failed: FP8 and BF16 differ by design."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    Signature,
    raises,
)

SIGNATURE = Signature(
    family="tolerance",
    what="results of two precisions differ by more than the test allows",
    remedy=(
        "Expected where one side is FP8 and the other BF16: the converted weights are right, and the comparison is too "
        "strict. Loosen its tolerance or leave it out (an argument in `command`), or compare with a checkpoint in BF16."
    ),
    look="Compare the two values and the precision that each was computed in.",
    matches=(
        raises("Tensor-likes are not close|Not equal to tolerance|Mismatched elements: |Weight mismatch detected"),
    ),
    examples=("AssertionError: Tensor-likes are not close!", "ValueError: Weight mismatch detected"),
)
