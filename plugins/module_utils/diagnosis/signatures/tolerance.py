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
    remedy="Expected between FP8 and BF16: loosen the tolerance of the comparison, or compare like with like.",
    matches=(raises("Tensor-likes are not close|Not equal to tolerance|Mismatched elements: "),),
    examples=("AssertionError: Tensor-likes are not close!",),
)
