# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hub's rate limit is reached."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    WEAK,
    Signature,
    raises,
    says,
)

SIGNATURE = Signature(
    family="hub_limit",
    what="a hub limits the rate of requests",
    remedy=(
        "Stage it once instead of downloading on every rank: `data`, `tokenizer`, and `env.HF_HUB_OFFLINE: "
        "1`; a token raises the limit."
    ),
    look="Count how many ranks ask the hub at the same time, and see whether it answers now.",
    matches=(
        raises("429 Client Error|Too Many Requests|rate ?limit(?:ed)? exceeded|[Rr]ate limit (?:reached|hit|for)"),
        says("429 Client Error: Too Many Requests", "429 Client Error", strength=WEAK),
        raises(
            r"RateLimitError|Error code: 429|HTTP 429|API rate limit",
            strength=CAUSE + 1,
            what="a service limits the rate of requests",
            remedy=(
                "Send fewer requests at once: fewer ranks or workers that ask, and a longer pause before the next try; "
                "or raise the limit of the account."
            ),
        ),
    ),
    examples=("requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: https://example.org/x",),
    retry=True,
)
