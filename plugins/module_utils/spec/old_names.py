# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options under the name that they had in an earlier release: still taken, with a warning. Pure; no I/O.

A layer is brought to today's names before the layers are merged, so a job file with the old name and a command line
with the new one mean the same option. `formerly` in the field table declares an old name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import fields_of
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer

#: The release that will no longer take them.
REMOVED_IN = "0.3.0"


def old_paths() -> dict[str, str]:
    """Old dotted path -> today's."""
    return {
        f"{info.path.rpartition('.')[0]}.{info.meta['formerly']}": info.path
        for info in fields_of(LaunchSpec)
        if info.meta.get("formerly")
    }


def old_short_names() -> dict[str, str]:
    """Old name as `-e NAME=value` -> old dotted path, where today's option has such a name too."""
    return {
        info.meta["formerly"]: f"{info.path.rpartition('.')[0]}.{info.meta['formerly']}"
        for info in fields_of(LaunchSpec)
        if info.meta.get("formerly") and info.meta["short"]
    }


def with_new_names(layer: Layer) -> tuple[Layer, list[str], list[str]]:
    """(the layer under today's names, a warning for each old one, what is wrong: both names given)."""
    data: dict[Any, Any] = dict(layer.data)
    lines = dict(layer.lines)
    warnings, problems = [], []
    for old, new in old_paths().items():
        section, _dot, name = old.rpartition(".")
        values = data.get(section)
        if not isinstance(values, Mapping) or name not in values:
            continue
        leaf = new.rpartition(".")[2]
        if leaf in values:
            problems.append(f"{old}: is the old name of {new}; keep the new one (set in {layer.origin(old)})")
        data[section] = {leaf if key == name else key: value for key, value in values.items() if key != leaf}
        if old in lines:
            lines[new] = lines.pop(old)
        warnings.append(
            f"{old} is deprecated and will be removed in release {REMOVED_IN}; use {new} (set in {layer.origin(old)})"
        )
    return Layer(layer.name, data, lines), warnings, problems
