# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All experiment trackers, and what a job says of them: the options of section `trackers`. Pure; no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.base import (
    GROUP,
    RESUMED,
    RUN,
    Kind,
    Setting,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.mlflow import MLFLOW
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.tensorboard import TENSORBOARD
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.trackio import TRACKIO
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.wandb import WANDB

KINDS: tuple[Kind, ...] = (
    WANDB,
    MLFLOW,
    TENSORBOARD,
    TRACKIO,
)
#: Variables of every job with a tracker, for programs that give the names themselves.
COMMON: tuple[Setting, ...] = (
    Setting(RUN, "{run}", RESUMED),
    Setting("RANKZERO_TRACKER_GROUP", "{group}", GROUP),
)

_ADDRESS = re.compile(r"https?://[^\s/@?#]+(?:/[^\s@?#]*)?")


def _server(value: object) -> str:
    text = t.to_text(value)
    if not _ADDRESS.fullmatch(text):
        # The value is not shown: it may contain a password.
        raise t.Invalid("must be an http or https address without user, password, query and fragment")
    return text.rstrip("/")


_WORD = t.text(r"[^\0\n/\\#?%:@]{1,128}", "text without / \\ # ? % : @, at most 128 characters")
#: The options whose values are checked by their meaning. Any other one of a cluster's record is a word.
OPTIONS: Mapping[str, t.Type] = {
    "project": _WORD,
    "entity": _WORD,
    "server": t.Type("address", _server, {"type": "string"}),
    "offline": t.BOOLEAN,
}

#: What a job says of one tracker: option -> text, which is empty for a switch that is off.
Tracker = Mapping[str, str]
_NAMES = tuple(kind.name for kind in KINDS)
_DECLARED_NAME = re.compile(t.DECLARED_NAME)

Trackers = Mapping[str, Kind]


def kinds(own: Trackers) -> dict[str, Kind]:
    """Return all records by name, ours first. `own`: the cluster's, each in the place of ours with its name."""
    return {**{kind.name: kind for kind in KINDS}, **own}


def chosen(trackers: Mapping[str, Tracker], own: Trackers) -> tuple[Kind, ...]:
    """Return the records of the trackers that a job names."""
    return tuple(kind for kind in kinds(own).values() if kind.name in trackers)


def _quiet(value: object) -> str:
    """Parse the value of an option that may be misspelt. It is not shown: it may contain a password."""
    try:
        return str(_WORD.parse(value))
    except t.Invalid:
        raise t.Invalid(f"must be {_WORD.title}") from None


def _parse_options(name: str, value: object) -> Tracker:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise t.Invalid(f"{name} must be a map of options, {{}} for none")
    options = {}
    for option, given in value.items():
        if given is None:
            continue
        try:
            parsed = OPTIONS[option].parse(given) if option in OPTIONS else _quiet(given)
        except t.Invalid as error:
            raise t.Invalid(f"{name}.{option} {error}") from None
        options[str(option)] = parsed if isinstance(parsed, str) else "true" if parsed else ""
    return options


def _parse(value: object) -> dict[str, Tracker]:
    if not isinstance(value, Mapping):
        named = f"; write {{{value}: {{}}}}" if value in _NAMES else ""
        raise t.Invalid(f"must be a map: the name of a tracker -> its options, not {t.shown(value)}{named}")
    for name in value:
        if not isinstance(name, str) or not _DECLARED_NAME.fullmatch(name):
            raise t.Invalid(f"{t.shown(name)} is not a tracker; known: {', '.join(_NAMES)}")
    return {str(name): _parse_options(str(name), options) for name, options in value.items()}


def _schema(kind: Kind) -> dict[str, object]:
    options = {name: dict(OPTIONS[name].schema) if name == "offline" else {"type": "string"} for name in kind.options}
    return {"type": ["object", "null"], "properties": options, "additionalProperties": False}


#: The names of trackers and options are checked beside the cluster's settings, by `findings`.
TRACKERS = t.Type(
    "map of a tracker's options",
    _parse,
    {
        "type": "object",
        "properties": {kind.name: _schema(kind) for kind in KINDS},
        "propertyNames": {"pattern": f"^(?:{t.DECLARED_NAME})$"},
        "additionalProperties": {"type": ["object", "null"], "additionalProperties": {"type": list(t.SCALARS)}},
    },
)


def findings(trackers: Mapping[str, Tracker], own: Trackers) -> Iterable[t.Finding]:
    """Yield each tracker that nobody declares, and each option that its record does not have."""
    known = kinds(own)
    for name, options in trackers.items():
        if name not in known:
            hint = t.suggestion(name, list(known))
            more = "a cluster declares others in launch_cluster.trackers"
            yield ["trackers"], f"trackers: {name} is not a tracker{hint}; known: {', '.join(known)}; {more}"
            continue
        for option in options:
            if option not in known[name].options:
                hint = t.suggestion(option, known[name].options)
                listed = ", ".join(known[name].options) or "(none)"
                yield ["trackers"], f"trackers: {name} has no option {t.shown(option)}{hint}; known: {listed}"


def settings(
    trackers: Mapping[str, Tracker], records: Iterable[Kind], values: Mapping[str, str]
) -> list[tuple[str, Setting, str]]:
    """Return (tracker, variable, value) for all trackers of a job, whose records these are. `values`: see OF_LAUNCH."""
    if not trackers:
        return []
    rows = [("trackers", setting, setting.filled(values)) for setting in COMMON]
    for kind in records:
        texts = {**values, **trackers[kind.name]}
        rows += [(kind.name, setting, setting.filled(texts)) for setting in kind.variables]
    return [(name, setting, value) for name, setting, value in rows if value is not None]
