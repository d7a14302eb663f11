# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All families. Ours are compiled from the YAML files in `../families` (make reference); a site's come as data."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.compiled import FAMILIES
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import Signature, signature

SIGNATURES: tuple[Signature, ...] = tuple(map(signature, json.loads(FAMILIES.replace("\n", ""))))


def with_own(families: Sequence[JsonObject]) -> tuple[Signature, ...]:
    """A site's families followed by ours: if two match a line equally well, the site's family is used."""
    return (*map(signature, families), *SIGNATURES)


def told_of(line: str) -> str:
    """What the first wording that knows a line says of it; empty if none does."""
    sentences = (
        match.what or known.what for known in SIGNATURES for match in known.matches if match.regex.search(line)
    )
    return next(sentences, "")
