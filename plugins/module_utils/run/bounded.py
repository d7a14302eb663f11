# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limit what a module returns about each of many launches, or of many other things: Ansible copies and prints a result
several times. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult

# Up to this many launches are returned with everything that is known about them.
FEW = 20
# The limit in bytes (JSON) for each of more launches.
MOST_BYTES = 4096
# What is kept of long lists and texts.
EVENTS, ATTEMPTS, NODES, PARAMETERS, CHARACTERS = 4, 2, 16, 8, 200


def bounded(launches: Sequence[ModuleResult]) -> list[ModuleResult]:
    """Return the reports on launches, each of many with at most MOST_BYTES.

    A report that is too large gets `left_out`, the names of the fields of which values are missing.
    """
    if len(launches) <= FEW:
        return list(launches)
    return [launch if _size(launch) <= MOST_BYTES else _shortened(launch) for launch in launches]


def _size(launch: ModuleResult) -> int:
    return len(json.dumps(launch, default=str))


def _shortened(launch: ModuleResult) -> ModuleResult:
    short: ModuleResult = dict(launch)
    left_out: list[str] = []
    for name, shorten in _STEPS:
        if name not in short:
            continue
        value = shorten(short)
        if value != short.get(name):
            short[name] = value
            left_out += [] if name in left_out else [name]
            if _size({**short, "left_out": left_out}) <= MOST_BYTES:
                break
    return {**short, "left_out": left_out}


def _outcome(launch: ModuleResult) -> object:
    """The artifact is a field of its own."""
    outcome = launch.get("outcome")
    return {**outcome, "artifact": None} if isinstance(outcome, dict) and outcome.get("artifact") else outcome


def _artifact(launch: ModuleResult) -> object:
    artifact = launch.get("artifact")
    if not isinstance(artifact, dict):
        return artifact
    known = {name: artifact[name] for name in ("path", "valid", "sha256", "bytes") if name in artifact}
    errors = [_text(error) for error in (artifact.get("errors") or [])[:2]]
    return {**known, "scalars": {}, "errors": errors}


def _verdict(launch: ModuleResult) -> object:
    """What the job wrote about its end, without long values."""
    outcome = launch.get("outcome")
    if not isinstance(outcome, dict):
        return outcome
    return {name: _text(value) for name, value in outcome.items() if isinstance(value, (str, int, float, type(None)))}


def _attempts(launch: ModuleResult) -> object:
    attempts = list(launch.get("attempts") or [])[-ATTEMPTS:]
    return [{**attempt, "nodes": None, "reason": _text(attempt.get("reason"))} for attempt in attempts]


def _texts(name: str) -> Callable[[ModuleResult], object]:
    return lambda launch: _text(launch.get(name))


def _text(value: object) -> object:
    return value[:CHARACTERS] if isinstance(value, str) else value


def _parameters(launch: ModuleResult) -> object:
    """Of the point of a sweep's element, the first values."""
    given = launch.get("parameters")
    return {name: _text(given[name]) for name in list(given)[:PARAMETERS]} if isinstance(given, dict) else given


def _lines(items: Sequence[ModuleResult]) -> object:
    return [{key: _text(value) for key, value in item.items()} for item in items]


# The order in which values are left out.
_STEPS: tuple[tuple[str, Callable[[ModuleResult], object]], ...] = (
    ("outcome", _outcome),
    ("artifact", _artifact),
    ("journal", lambda launch: _lines(list(launch.get("journal") or [])[-EVENTS:])),
    ("attempts", _attempts),
    ("nodes", lambda launch: list(launch.get("nodes") or [])[:NODES]),
    ("outcome", _verdict),
    ("drained", lambda launch: _lines(list(launch.get("drained") or [])[:1])),
    ("scalars", lambda _launch: {}),
    ("message", _texts("message")),
    ("reason", _texts("reason")),
    ("why", _texts("why")),
    ("parameters", _parameters),
)
