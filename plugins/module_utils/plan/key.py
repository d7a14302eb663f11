# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The launch key: what determines the result, and nothing else.

Only values that differ from the table's default are hashed, so that a new field of a later release relaunches nothing.
Golden keys in the tests hold this still. Pure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import fields_of
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec

SHORT = 16


def key_inputs(spec: LaunchSpec, inputs: Mapping[str, str]) -> JsonObject:
    """What is hashed: the in-key values by dotted path, secret names, and the input keys (`code`, `environment`)."""
    values: dict[str, Any] = {}
    for info in fields_of(LaunchSpec):
        if not info.meta["key"]:
            continue
        holder: Any = spec
        for part in info.path.split("."):
            holder = getattr(holder, part) if holder is not None else None
        if spec.artifact is None and info.path.startswith("artifact."):
            continue
        if holder != info.default:
            values[info.path] = holder
    # That an artifact is asked for at all matters, also where every value of it is the default.
    if spec.artifact is not None:
        values.setdefault("artifact.path", spec.artifact.path)
    # A secret's name is part of what runs; its value and its source are not.
    if spec.secrets:
        values["secrets"] = sorted(spec.secrets)
    return {"version": 1, "spec": values, "inputs": dict(inputs)}


def launch_key(spec: LaunchSpec, inputs: Mapping[str, str]) -> str:
    """64 hexadecimal digits; directories and job names show the first 16."""
    text = json.dumps(key_inputs(spec, inputs), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def short_key(key: str) -> str:
    """The first digits of a launch key, which job names and messages show."""
    return key[:SHORT]
