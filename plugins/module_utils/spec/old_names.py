# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Accept options under their name in an earlier release, with a warning. Pure; no I/O.

Each layer is converted to the current names before the layers are merged, so that a job file with the old name and a
command line with the new one set the same option. `formerly` in the field table declares an old name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import fields_of
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.layers import Layer

#: The release that will no longer accept them.
REMOVED_IN = "0.3.0"


def old_paths() -> dict[str, str]:
    """Return the old dotted paths -> the current ones."""
    return {
        f"{info.path.rpartition('.')[0]}.{info.meta['formerly']}": info.path
        for info in fields_of(LaunchSpec)
        if info.meta.get("formerly")
    }


def old_short_names() -> dict[str, str]:
    """Return old names for `-e NAME=value` -> old dotted path, for options whose current name has a short form too."""
    return {
        info.meta["formerly"]: f"{info.path.rpartition('.')[0]}.{info.meta['formerly']}"
        for info in fields_of(LaunchSpec)
        if info.meta.get("formerly") and info.meta["short"]
    }


def with_new_names(layer: Layer) -> tuple[Layer, list[str], list[str]]:
    """Return (the layer under the current names, a warning for each old one, a sentence for each option with both
    names).
    """
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
