# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks what `rankzero VERB --json` prints against its JSON Schema."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema  # ansible-lint brings it

from tests.repository import ROOT

SCHEMAS = ROOT / "python" / "rankzero" / "schemas"


def schema_of(name: str) -> Any:
    """The schema of a document by its name, rankzero/VERB/NUMBER."""
    _rankzero, verb, number = name.split("/")
    return json.loads((SCHEMAS / f"{verb}-{number}.json").read_text(encoding="utf-8"))


def closed(schema: Any) -> Any:
    """The same schema without further keys. Users may get more keys later; this release documents all that it has."""
    result = copy.deepcopy(schema)
    waiting = [result]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if isinstance(part.get("required"), list):
                part.setdefault("additionalProperties", False)
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return result


def checked(document: dict[str, Any]) -> dict[str, Any]:
    """The document. Raises ValidationError where it differs from its schema, or has keys that it does not document."""
    jsonschema.Draft7Validator(closed(schema_of(document["schema"]))).validate(document)
    return document
