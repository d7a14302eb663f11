# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON Schema of a table of the job spec."""

from __future__ import annotations

import dataclasses
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.roles import OF_A_ROLE, ROLES, RoleKeys


def schema_of(table: type) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required = []
    for attribute in dataclasses.fields(table):
        meta = attribute.metadata
        nested = meta.get("section")
        if nested:
            entry = schema_of(nested)
            entry["description"] = meta["doc"]
        else:
            entry = {"description": meta["doc"], **meta["type"].schema}
            if meta["type"] is ROLES:
                entry["additionalProperties"] = schema_of_role()
            if meta["example"] is not None:
                entry.setdefault("examples", [meta["example"]])
        if meta.get("required"):
            required.append(attribute.name)
        else:
            entry = or_null(entry)
        properties[attribute.name] = entry
    result: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        result["required"] = required
    return result


def schema_of_role() -> dict[str, Any]:
    """What may stand in a role: its own keys, and those of a program, with `nodes` as its short name."""
    program = {**schema_of(RoleKeys)["properties"]}
    for attribute in dataclasses.fields(LaunchSpec):
        paths = [path for path in OF_A_ROLE if path.split(".")[0] == attribute.name]
        nested = attribute.metadata.get("section")
        if paths and nested:
            entry = schema_of(nested)
            keys = {path.partition(".")[2] for path in paths} - {""}
            kept = {name: value for name, value in entry["properties"].items() if not keys or name in keys}
            program[attribute.name] = {**entry, "properties": kept, "description": attribute.metadata["doc"]}
            if attribute.name == "resources":
                program["nodes"] = kept["nodes"]
        elif paths:
            program[attribute.name] = {"description": attribute.metadata["doc"], **attribute.metadata["type"].schema}
    return {"type": "object", "properties": program, "additionalProperties": False}


def or_null(entry: dict[str, Any]) -> dict[str, Any]:
    """The schema of a value that may also be null, which deletes what a lower layer has set.

    It is one schema with a list of types, not `anyOf`: with alternatives an editor cannot say which one was meant, and
    underlines the whole section instead of the wrong key.
    """
    if "enum" in entry:
        return {**entry, "enum": [*entry["enum"], None]}
    types = entry["type"]
    return {**entry, "type": [*([types] if isinstance(types, str) else types), "null"]}
