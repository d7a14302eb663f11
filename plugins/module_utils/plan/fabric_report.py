# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe a fabric for a platform team: its variables, compared with the site's own files. Pure.

NCCL and RCCL read their files first, and a variable of the environment overrides them. Therefore a fabric's value
replaces the value of the same name in a site's file; `auto` replaces none. Source: NCCL's user guide, "Environment
variables".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SpecError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.plan.variables import generation
from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.fabrics import (
    OWN_FABRICS,
    Fabric,
    Setting,
    expired,
    fabric,
    names,
)

# Files in which a site sets variables of NCCL and RCCL for all users; a user's own files come after them.
SITE_FILES = ("/etc/nccl.conf", "/etc/rccl.conf", "~/.nccl.conf", "~/.rccl.conf")
# The GPU generation that a built-in fabric was written for.
HARDWARE = {
    "infiniband_h100": "hopper",
    "infiniband_a100": "ampere",
    "nvlink_blackwell": "blackwell",
    "rccl": "amd",
}


def parse_conf(text: str) -> dict[str, str]:
    """Parse the lines NAME=VALUE of one file. A # starts a comment."""
    settings = {}
    for line in text.splitlines():
        name, equals, value = line.split("#", 1)[0].partition("=")
        if equals and name.strip():
            settings[name.strip()] = value.strip()
    return settings


def fabrics_of(value: object, variable: str = "launch_cluster.fabrics") -> dict[str, tuple[Setting, ...]]:
    """Parse the cluster's own fabrics. Raises SpecError with all mistakes."""
    try:
        own: dict[str, tuple[Setting, ...]] = OWN_FABRICS.parse(value)
    except t.Invalid as error:
        raise SpecError([f"{variable}: {error}"]) from None
    return own


def fabric_of(name: str, own: Mapping[str, tuple[Setting, ...]]) -> Fabric:
    """Return the fabric with this name. Raises SpecError if it is unknown."""
    match = fabric(name, own)
    if match is None:
        listed = names(own)
        raise SpecError([f"fabric: {name} is not known{t.suggestion(name, listed)}; known: {', '.join(listed)}"])
    return match


def describe(
    name: str,
    fabrics: object,
    *,
    site: Mapping[str, Mapping[str, str]],
    gpu_types: Sequence[str],
    today: date,
) -> ModuleResult:
    """Describe one fabric completely. `site`: path of a site's file -> its variables. Raises SpecError."""
    own = fabrics_of(fabrics)
    fabric = fabric_of(name, own)
    source = f"launch_cluster.fabrics.{name}" if name in own else f"fabric {name}"
    rows = [
        {
            "name": item.name,
            "value": item.value,
            "reason": item.reason,
            "source": source,
            "version": item.version,
            "expires": item.expires,
            "expired": bool(item.expires) and item.expires < today.isoformat(),
            "replaces": ", ".join(
                f"{path} ({values[item.name]})" for path, values in site.items() if item.name in values
            ),
        }
        for item in fabric.settings
    ]
    set_names = {item.name for item in fabric.settings}
    for path, values in site.items():
        rows += [
            {
                "name": variable,
                "value": value,
                "reason": "the site's own file on this host; the job leaves it alone",
                "source": path,
                "version": "",
                "expires": "",
                "expired": False,
                "replaces": "",
            }
            for variable, value in values.items()
            if variable not in set_names
        ]
    # Expired workarounds of the cluster's other fabrics are listed too, because a job may choose any of them.
    others = [Fabric(other, "the cluster's own", settings) for other, settings in own.items() if other != name]
    return {
        "fabric": fabric.name,
        "title": fabric.title,
        "settings": rows,
        "site_files": {path: dict(values) for path, values in site.items()},
        "expired": [sentence for candidate in [fabric, *others] for sentence in expired(candidate, today)],
        "notes": _notes(fabric, own, gpu_types),
        "known": names(own),
        "table": table(fabric, rows),
    }


def measured(value: object, fabrics: object, in_use: str) -> list[str]:
    """Describe the fabrics that a fabric check measured, and whether launch_cluster offers them to jobs."""
    own, lines = fabrics_of(fabrics), []
    for name, settings in fabrics_of(value, "nccl_measured").items():
        if own.get(name) != settings:
            standing = "measured, and not in launch_cluster.fabrics: no job can choose it"
        elif name == in_use:
            standing = "measured, and in use"
        else:
            standing = f"measured; a job may choose it, and gets {in_use} else"
        lines.append(f"fabric {name}: {standing}")
        lines += [f"  {item.name}  {item.value}  {item.reason}" for item in settings]
        lines += [] if settings else ["  sets nothing: what jobs got then was the best"]
    return lines


def _notes(fabric: Fabric, own: Mapping[str, tuple[Setting, ...]], gpu_types: Sequence[str]) -> list[str]:
    wanted = HARDWARE.get(fabric.name) if fabric.name not in own else None
    there = {kind: generation(kind) for kind in gpu_types}
    known_kinds = {kind: made for kind, made in there.items() if made}
    if wanted is None or not known_kinds or wanted in known_kinds.values():
        return []
    kinds = ", ".join(sorted(known_kinds))
    return [f"fabric {fabric.name} was written for {wanted} GPUs, and this cluster has {kinds}"]


def table(fabric: Fabric, rows: Sequence[JsonObject]) -> list[str]:
    """Format the rows as aligned lines: NAME  value  reason (source; workaround ...)."""
    lines = [f"fabric {fabric.name}: {fabric.title}"]
    if not rows:
        return [*lines, "  sets nothing; the nodes' own files and plugins decide, and the interface is picked there"]
    wide = max(len(row["name"]) for row in rows)
    across = max(len(row["value"]) for row in rows)
    for row in rows:
        more = [row["source"]]
        if row["version"] or row["expires"]:
            item = Setting(row["name"], row["value"], row["reason"], row["version"], row["expires"])
            more.append(f"workaround {item.workaround}{', EXPIRED' if row['expired'] else ''}")
        if row["replaces"]:
            more.append(f"replaces {row['replaces']}")
        lines.append(f"  {row['name']:<{wide}}  {row['value']:<{across}}  {row['reason']} ({'; '.join(more)})")
    return lines
