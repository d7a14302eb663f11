# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layers of a job spec, merged with provenance.

Collection defaults -> cluster -> job -> overrides. Maps merge by key, lists replace, null deletes. Ansible's `combine`
is not used: it replaces lists, keeps nulls and swaps types silently. Pure; no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Layer:
    """One source of values. If the source is a file, `lines` maps a dotted path to its line number."""

    name: str
    data: Mapping[Any, Any]
    lines: Mapping[str, int] = field(default_factory=dict)

    def origin(self, path: str) -> str:
        """Return where a value was set: `jobs/gpt.yml:7`, or the layer's name."""
        line = self.lines.get(path)
        return f"{self.name}:{line}" if line else self.name


@dataclass(frozen=True)
class Merged:
    """The merged tree, where each leaf was set (dotted path -> origin) and what could not be merged (sentences)."""

    data: dict[str, Any]
    origins: dict[str, str]
    problems: list[str]

    def origin(self, path: str) -> str | None:
        """Return where the value at a path, or the nearest map above or below it, was set; None for a default."""
        if path in self.origins:
            return self.origins[path]
        for known, origin in self.origins.items():
            if known.startswith(path + ".") or path.startswith(known + "."):
                return origin
        return None


def merge(layers: Sequence[Layer]) -> Merged:
    """Merge layers; later layers override earlier ones."""
    merged = Merged({}, {}, [])
    for layer in layers:
        _merge_map(merged, merged.data, layer, layer.data, "")
    return merged


def _merge_map(merged: Merged, target: dict[str, Any], layer: Layer, source: Mapping[Any, Any], prefix: str) -> None:
    for key, value in source.items():
        path = f"{prefix}{key}"
        if not isinstance(key, str):
            merged.problems.append(f"{path}: a key must be text, not {key!r}; quote it (set in {layer.origin(path)})")
            continue
        old = target.get(key)
        if value is None:
            target.pop(key, None)
            _forget(merged.origins, path)
        elif isinstance(value, Mapping):
            if not isinstance(old, dict):
                # A scalar and a map at the same path are a mistake in one of the two layers; the type check names the
                # newer one.
                target[key] = old = {}
                _forget(merged.origins, path)
                merged.origins[path] = layer.origin(path)
            _merge_map(merged, old, layer, value, path + ".")
        else:
            target[key] = list(value) if isinstance(value, (list, tuple)) else value
            _forget(merged.origins, path)
            merged.origins[path] = layer.origin(path)


def _forget(origins: dict[str, str], path: str) -> None:
    for known in [name for name in origins if name == path or name.startswith(path + ".")]:
        del origins[known]
