# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loss, or a gradient, is not a number."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    RAISED,
    Signature,
    raises,
    says,
)

_IN_THE_DATA = (
    "Look for the value in the data first: an empty field, or a division by zero as it was prepared. If the data is "
    "well, the model's outputs are not: start from the last good checkpoint with a lower learning rate."
)
_SCALE = "the loss scale fell to its minimum, because gradients overflowed again and again"

SIGNATURE = Signature(
    family="nan_loss",
    what="the loss or a gradient is not a number",
    remedy=(
        "Start from the last good checkpoint with a lower learning rate, gradient clipping or bf16; one "
        "rank only: suspect its GPU (`resources.exclude`)."
    ),
    look="Look at the loss and the gradient norm of the steps before that line, and whether all ranks have it.",
    matches=(
        raises(
            "(?:[Ff]ound|[Gg]ot|encountered|is|contains?|became|detected|returned) (?:a )?(?:NaN|nan|Inf|"
            r"inf|non-finite|[Nn]on-finite)\b|[Ll]oss (?:is|became|was|=) ?(?:nan|NaN|inf)|(?:\bNaN|\b[Nn]an|"
            r"[Nn]on-finite|not finite)\b.*(?:\bloss|\bgrad)|(?:\bloss|\bgrad\w*).*(?:\b[Nn]a[Nn]s?\b|not finite|"
            "non-finite)|returned nan values|unexpected result .*loss",
            strength=CAUSE,
        ),
        raises("Current loss scale already at minimum|[Mm]inimum loss scale reached", strength=CAUSE + 1, what=_SCALE),
        raises(
            "probability tensor contains either",
            what="the probabilities to sample from are not numbers",
            remedy=(
                "The outputs of the model are not numbers: check that its weights were loaded whole and run in the "
                "precision that they were trained in (bf16 rather than fp16); where the run trains it, take a lower "
                "learning rate."
            ),
        ),
        raises(r"FloatingPointError: .*(?:[Ll]oss|[Nn]a[Nn]|\b[Ii]nf|overflow)|FloatingPointError:?\s*$"),
        raises("FloatingPointError", strength=RAISED + 1),
        says(
            "Stopping training:? .*(?:nan|NaN)|Loss is (?:nan|NaN), stopping|"
            r"\b(?:nan|NaN) loss\b.{0,60}\b(?:end|stop|abort|exit|terminat)\w*",
            "nan loss",
            "NaN loss",
            "stopping",
            "Stopping",
            strength=CAUSE,
        ),
        says("loss scale already at minimum", "loss scale already", strength=CAUSE, what=_SCALE),
        raises("found invalid values:", strength=CAUSE + 1, what="a distribution got values that it does not allow"),
        raises("[Ll]oss (?:diverged|exploded|spike)", strength=CAUSE + 1, what="the loss diverged"),
        raises(
            r"^(?!.*(?:[Ll]oss|[Gg]rad|[Ll]ogit|[Ww]eight|[Pp]rob|[Aa]ctivation|[Oo]utput|[Ll]oc\b|distribution)).*"
            r"(?:[Cc]ontains?|[Ff]ound|[Gg]ot|\bis) (?:a )?(?:NaN|nan|Inf|inf|non-finite)\b",
            strength=CAUSE + 1,
            remedy=_IN_THE_DATA,
            what="a value is not a number",
        ),
        raises(
            r"NaN, infinity or a value too large|Input (?:\w+ )?contains (?:NaN|infinity)|cannot convert float NaN|"
            r"(?:[Aa]udio|[Ii]mage|[Dd]ata|[Ff]eatures?|[Ii]nputs?|[Ll]abels?) contains? (?:NaN|Inf|nan|inf|"
            r"non-finite)",
            strength=CAUSE + 1,
            remedy=_IN_THE_DATA,
            what="a value is not a number",
        ),
    ),
    examples=(
        "RuntimeError: Loss diverged at step 7",
        (
            "AssertionError: found NaN in local grad norm for bucket #0 in backward pass before data-paralle"
            "l communication collective"
        ),
        "FloatingPointError: Loss is nan",
        "Loss is nan, stopping training",
        "WARNING: nan loss detected, ending training",
        "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
    ),
)
