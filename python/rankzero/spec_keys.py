# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`rankzero spec [KEY]`: what the page of the job spec says of a key, from the declarations that it is written from."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from rankzero.errors import UsageError
from rankzero.library import importable
from rankzero.short_names import OTHER_NAMES, SHORT_NAMES

#: What stands before the keys of a role, and of a cluster's own settings.
ROLE, CLUSTER = "roles.NAME", "launch_cluster"
Row = dict[str, Any]


def rows(asked: str | None = None) -> list[Row]:
    """All keys; or one, by its path, short name or name in another tool; or those of a section. Raises UsageError."""
    known = list(_all())
    if asked is None:
        return known
    short = OTHER_NAMES.get(asked, asked)
    path = SHORT_NAMES[short][0] if short in SHORT_NAMES else asked
    found = [row for row in known if row["key"] == path or row["key"].startswith(f"{path}.")]
    if not found:
        from rankzero.wrong_words import nearest

        names = [*(row["key"] for row in known), *SHORT_NAMES, *_sections(known)]
        ends = [row["key"] for row in known if row["key"].rpartition(".")[2] == path]
        hint = f"; did you mean {' or '.join(ends)}?" if ends else nearest(path, names)
        raise UsageError(f"spec: {asked!r} is no key of the job spec{hint}; rankzero spec lists all")
    return found


def lines(shown: list[Row]) -> list[str]:
    """The keys as text: one with all that is known of it, several in a line each."""
    if len(shown) > 1:
        width = max(len(row["key"]) for row in shown)
        return [f"{row['key']:<{width}}  {row['value']}" for row in shown]
    (row,) = shown
    default = "required" if row["required"] else f"default: {json.dumps(row['default'])}"
    known = [row["value"], default, f"{'' if row['in_launch_key'] else 'not '}in the launch key"]
    known += [f"short name: {row['short']}"] if row["short"] else []
    known += [f"sbatch: --{row['sbatch']}"] if row["sbatch"] else []
    name = row["key"].rpartition(".")[2]
    example = [] if row["example"] is None else [f"example: {name}: {json.dumps(row['example'])}"]
    return [row["key"], *(f"  {line}" for line in [*known, row["doc"], *example])]


def _sections(known: list[Row]) -> list[str]:
    return list(dict.fromkeys(row["key"].rpartition(".")[0] for row in known if "." in row["key"]))


def _all() -> Iterator[Row]:
    importable()
    from ansible_collections.rankzero.slurm.plugins.module_utils.spec.cluster import ClusterSettings
    from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fields import fields_of
    from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import LaunchSpec
    from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.roles import RoleKeys

    for table, prefix in ((LaunchSpec, ""), (RoleKeys, f"{ROLE}."), (ClusterSettings, f"{CLUSTER}.")):
        for info in fields_of(table):
            meta = info.meta
            yield {
                "key": f"{prefix}{info.path}",
                "value": meta["type"].title,
                "required": bool(meta["required"]),
                "default": _plain(info.default),
                "in_launch_key": bool(meta["key"]) and table is not ClusterSettings,
                "short": meta["short"] or None,
                "sbatch": meta["sbatch"].name if meta["sbatch"] else None,
                "doc": meta["doc"],
                "example": _plain(meta["example"]),
            }


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return json.loads(json.dumps(value, default=str))
