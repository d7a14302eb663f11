# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The launch key: a digest of everything that determines the result, and of nothing else.

Only values that differ from the table's default are hashed, so that a new field in a later release does not cause
relaunches. Golden keys in the tests check this. Pure.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import fields_of
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec

SHORT = 16


def key_inputs(spec: LaunchSpec, inputs: Mapping[str, str]) -> JsonObject:
    """Return the hashed values: spec values in the key by dotted path, secret names, and input keys (`code`,
    `environment`).
    """
    values: dict[str, Any] = {}
    for path, parts, default in _hashed():
        holder: Any = spec
        for part in parts:
            holder = getattr(holder, part) if holder is not None else None
        if spec.artifact is None and path.startswith("artifact."):
            continue
        if holder != default:
            values[path] = role_values(spec) if path == "roles" else holder
    # Whether an artifact is required at all matters, even if all its values are defaults.
    if spec.artifact is not None:
        values.setdefault("artifact.path", spec.artifact.path)
    # A secret's name is part of the key; its value and its source are not.
    if spec.secrets:
        values["secrets"] = sorted(spec.secrets)
    return {"version": 1, "spec": values, "inputs": dict(inputs)}


def role_values(spec: LaunchSpec) -> JsonObject:
    """Return the hashed values of all roles, as `trainer.command`. The order of the roles gives them their nodes."""
    values: dict[str, Any] = {}
    for role in spec.roles.values():
        own = key_inputs(dataclasses.replace(role.spec, artifact=None), {})["spec"]
        values[role.name] = [len(values), dataclasses.astuple(role.keys)]
        values.update({f"{role.name}.{path}": value for path, value in own.items() if path != "name"})
        if role.spec.data:
            values[f"{role.name}.data"] = sorted(role.spec.data)
    return values


@functools.cache
def _hashed() -> tuple[tuple[str, tuple[str, ...], Any], ...]:
    """Path, parts of the path and default of each field that is part of the key."""
    return tuple(
        (info.path, tuple(info.path.split(".")), info.default) for info in fields_of(LaunchSpec) if info.meta["key"]
    )


def launch_key(spec: LaunchSpec, inputs: Mapping[str, str]) -> str:
    """Return the launch key: 64 hexadecimal digits. Directories and job names show the first 16."""
    text = json.dumps(key_inputs(spec, inputs), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def short_key(key: str) -> str:
    """Return the first 16 digits of a launch key, which job names and messages show."""
    return key[:SHORT]
