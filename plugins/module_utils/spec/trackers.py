# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The experiment trackers: one row for each, with the variables that make a launch one run of it. Pure; no I/O.

The variables contain the launch key and the generation, so all attempts of a launch, its requeues and its successor
jobs report to the same run. Credentials are not among them: they belong into `secrets`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t

_WORD = t.text(r"[^\0\n/\\#?%:@]{1,128}", "text without / \\ # ? % : @, at most 128 characters")
_SERVER = re.compile(r"https?://[^\s/@?#]+(?:/[^\s@?#]*)?")


@dataclass(frozen=True)
class Tracker:
    """What a job file says about one tracker. `server`: an address without credentials."""

    project: str = ""
    entity: str = ""
    server: str = ""
    offline: bool = False


@dataclass(frozen=True)
class Place:
    """One variable of a tracker.

    `text` may contain {run}, {group}, {tags}, {commit}, {run_dir}, {project}, {entity} and {server}. `needs`: the
    option or text without which the variable is not set.
    """

    name: str
    text: str
    reason: str
    needs: str = ""


@dataclass(frozen=True)
class Kind:
    """A tracker: its name in `trackers`, the options that it has, and its variables."""

    name: str
    doc: str
    options: tuple[str, ...]
    places: tuple[Place, ...]


_RESUMED = "all attempts of a launch are one run"
_GROUP = "the generations of a launch are one group"
_CHOSEN = "trackers names it"

# The one tracker whose server chooses the id of a run, and the variable in which the job gives it to the ranks.
MLFLOW, MLFLOW_RUN = "mlflow", "MLFLOW_RUN_ID"

KINDS: tuple[Kind, ...] = (
    Kind(
        "wandb",
        "Weights & Biases",
        ("project", "entity", "server", "offline"),
        (
            Place("WANDB_RUN_ID", "{run}", _RESUMED),
            Place("WANDB_RESUME", "allow", _RESUMED),
            Place("WANDB_NAME", "{run}", "the run is found by the name of the launch"),
            Place("WANDB_RUN_GROUP", "{group}", _GROUP),
            Place("WANDB_TAGS", "{tags}", "the run says which commit and which key it has"),
            Place("WANDB_DIR", "{run_dir}", "what wandb writes is kept with the run"),
            Place("WANDB_PROJECT", "{project}", _CHOSEN, "project"),
            Place("WANDB_ENTITY", "{entity}", _CHOSEN, "entity"),
            Place("WANDB_BASE_URL", "{server}", _CHOSEN, "server"),
            Place("WANDB_MODE", "offline", "the nodes have no way out; wandb sync uploads the run", "offline"),
        ),
    ),
    Kind(
        MLFLOW,
        "MLflow",
        ("server", "project"),
        (
            Place("MLFLOW_TRACKING_URI", "{server}", _CHOSEN, "server"),
            Place("MLFLOW_EXPERIMENT_NAME", "{project}", _CHOSEN, "project"),
            Place("RANKZERO_TRACKER_COMMIT", "{commit}", "the run says which commit it has", "commit"),
        ),
    ),
    Kind(
        "tensorboard",
        "TensorBoard",
        (),
        (Place("TENSORBOARD_LOGGING_DIR", "{run_dir}/tensorboard", "one folder is one run of TensorBoard"),),
    ),
    Kind(
        "trackio",
        "trackio",
        ("server",),
        (
            Place("TRACKIO_DIR", "{run_dir}/trackio", "what trackio writes is kept with the run"),
            Place("TRACKIO_SERVER_URL", "{server}", _CHOSEN, "server"),
        ),
    ),
)
#: Variables of every job with a tracker, for programs that give the names themselves.
COMMON: tuple[Place, ...] = (
    Place("RANKZERO_TRACKER_RUN", "{run}", _RESUMED),
    Place("RANKZERO_TRACKER_GROUP", "{group}", _GROUP),
)


def _server(value: object) -> str:
    text = t.to_text(value)
    if not _SERVER.fullmatch(text):
        # The value is not shown: it may contain a password.
        raise t.Invalid("server must be an http or https address without user, password, query and fragment")
    return text.rstrip("/")


def _parse_kind(kind: Kind, value: object) -> Tracker:
    if value is None:
        return Tracker()
    known = ", ".join(kind.options) or "(none)"
    if not isinstance(value, Mapping):
        raise t.Invalid(f"{kind.name} must be a map of options, {{}} for none; known: {known}")
    for name in value:
        if name not in kind.options:
            hint = t.suggestion(str(name), kind.options)
            raise t.Invalid(f"{kind.name} has no option {t.shown(name)}{hint}; known: {known}")
    words = {name: str(_WORD.parse(value[name])) for name in ("project", "entity") if value.get(name) is not None}
    return Tracker(
        words.get("project", ""),
        words.get("entity", ""),
        _server(value["server"]) if value.get("server") is not None else "",
        bool(t.BOOLEAN.parse(value.get("offline", False))),
    )


def _parse(value: object) -> dict[str, Tracker]:
    if not isinstance(value, Mapping):
        raise t.Invalid(f"must be a map: the name of a tracker -> its options, not {t.shown(value)}")
    kinds = {kind.name: kind for kind in KINDS}
    for name in value:
        if name not in kinds:
            hint = t.suggestion(str(name), list(kinds))
            raise t.Invalid(f"{t.shown(name)} is not a tracker{hint}; known: {', '.join(kinds)}")
    return {str(name): _parse_kind(kinds[str(name)], options) for name, options in value.items()}


def _schema(kind: Kind) -> dict[str, object]:
    texts: dict[str, object] = {name: {"type": "string"} for name in kind.options if name != "offline"}
    flags = {"offline": dict(t.BOOLEAN.schema)} if "offline" in kind.options else {}
    return {"type": ["object", "null"], "properties": {**texts, **flags}, "additionalProperties": False}


TRACKERS = t.Type(
    "map of a tracker's options",
    _parse,
    {"type": "object", "properties": {kind.name: _schema(kind) for kind in KINDS}, "additionalProperties": False},
)


def settings(trackers: Mapping[str, Tracker], values: Mapping[str, str]) -> list[tuple[str, Place, str]]:
    """Return (tracker, variable, value) for all trackers of a job. `values`: run, group, tags, commit and run_dir."""
    if not trackers:
        return []
    result = [("trackers", place, place.text.format_map(values)) for place in COMMON]
    for kind in KINDS:
        tracker = trackers.get(kind.name)
        if tracker is None:
            continue
        texts = {**values, "project": tracker.project, "entity": tracker.entity, "server": tracker.server}
        result += [
            (kind.name, place, place.text.format_map(texts))
            for place in kind.places
            if not place.needs or texts.get(place.needs) or getattr(tracker, place.needs, False)
        ]
    return result
