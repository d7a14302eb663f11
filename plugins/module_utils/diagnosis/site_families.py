# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Families that a site defines itself, as data in its repository. The controller checks them and sends them along.

One family as data: {"family", "what", "remedy", "says": [{"regex", "needles", "strength"}],
"raises": [{"regex", "frames", "strength"}], "examples", "retry", "blames_node"}; see docs/diagnosis.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures import model
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.registry import SIGNATURES

STRENGTHS = {
    "decisive": model.DECISIVE,
    "cause": model.CAUSE,
    "limit": model.LIMIT,
    "raised": model.RAISED,
    "weak": model.WEAK,
    "echo": model.ECHO,
}


def signature(data: JsonObject) -> model.Signature:
    """The family that `data` describes. Raises `KeyError`, and `re.error` for an invalid pattern."""
    says = [
        model.says(match["regex"], *match["needles"], strength=STRENGTHS[match.get("strength", "cause")])
        for match in data.get("says") or []
    ]
    raises = [
        model.raises(
            match["regex"], frames=match.get("frames") or "", strength=STRENGTHS[match.get("strength", "cause")]
        )
        for match in data.get("raises") or []
    ]
    return model.Signature(
        family=data["family"],
        what=data["what"],
        remedy=data["remedy"],
        matches=(*says, *raises),
        examples=tuple(data["examples"]),
        retry=bool(data.get("retry")),
        blames_node=bool(data.get("blames_node")),
    )


def with_own(families: Sequence[JsonObject]) -> tuple[model.Signature, ...]:
    """A site's families followed by ours: if two match a line equally well, the site's family is used."""
    return (*(signature(family) for family in families), *SIGNATURES)
