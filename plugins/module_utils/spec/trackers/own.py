# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tracker that a cluster declares as data (`launch_cluster.trackers`): the same record as one of ours. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.secrets import VARIABLE, VARIABLE_NAME
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.base import OF_LAUNCH, RUN, Kind, Setting

#: In `places`: {VARIABLE}.
_VARIABLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def _parse_setting(value: object) -> dict[str, str]:
    """Parse one variable of a cluster's record: its text, or a map of text, reason and needs."""
    names = ("text", "reason", "needs")
    given = value if isinstance(value, Mapping) else {"text": value}
    if set(map(str, given)) - set(names) or "text" not in given:
        raise t.Invalid(f"must be text, or a map of {', '.join(names)} (text is required), not {t.shown(dict(given))}")
    return {str(name): str(_LINE.parse(text)) for name, text in given.items()}


_LINE = t.text(lines=False)
_SETTINGS = t.mapped(
    VARIABLE,
    VARIABLE_NAME,
    t.Type("text, or {text, reason, needs}", _parse_setting, {"type": [*t.SCALARS, "object"]}),
)
#: The keys of a cluster's record, with the type of each.
_KEYS: Mapping[str, t.Type] = {
    "doc": _LINE,
    "options": t.listed(t.text(r"[a-z][a-z_]{0,31}", "the name of an option in small letters and _")),
    "variables": _SETTINGS,
    "run": t.text(VARIABLE, VARIABLE_NAME),
    "places": t.listed(
        t.text(r"(?:https?://|/|\{[A-Za-z_][A-Za-z0-9_]*\})[^\n]*", "an address, a path or a {VARIABLE} first")
    ),
}
#: The key that tells a record from the options of a tracker, which `launch_cluster.trackers` may give for all jobs.
DECLARES = "variables"


def _contradictions(fields: Mapping[str, Any]) -> list[str]:
    """What is wrong between the keys of a record."""
    options, variables = fields.get("options", ()), fields["variables"]
    known, problems = (*options, *OF_LAUNCH), []
    for name, row in variables.items():
        for named in Setting(name, **row).named:
            if named not in known:
                hint = t.suggestion(named, known)
                problems.append(f"variables.{name} names {{{named}}}{hint}; known: {', '.join(known)}")
    problems += [f"options has {name}, which is a fact of the launch" for name in options if name in OF_LAUNCH]
    texts = [*fields.get("places", ()), *([f"{{{fields['run']}}}"] if "run" in fields else ())]
    for name in (name for text in texts for name in _VARIABLE.findall(text)):
        if name not in variables and name != RUN:
            hint = t.suggestion(name, list(variables))
            problems.append(f"places and run may name its own variables only, not {name}{hint}")
    return problems


_RECORDS = t.mapped(t.DECLARED_NAME, t.DECLARED_WORDS, t.record("tracker", _KEYS, (DECLARES,), _contradictions))


def _parse_own(value: object) -> dict[str, Kind]:
    return {
        name: Kind(
            name,
            fields.get("doc", "the cluster's own"),
            fields.get("options", ()),
            tuple(Setting(variable, **row) for variable, row in fields["variables"].items()),
            fields.get("places", ()),
            fields.get("run", RUN),
            own=True,
        )
        for name, fields in _RECORDS.parse(value).items()
    }


OWN_TRACKERS = t.Type("map of trackers", _parse_own, dict(_RECORDS.schema))
