# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The receivers of messages about a launch (`notify` in the job spec). Pure; no I/O.

The address of a webhook is a secret: whoever knows it can post there. A spec contains only where the address is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.spec import types as t

EVENTS = ("started", "first_step", "stalled", "failed", "proven")
FORMATS = ("slack", "teams", "ntfy", "json")
PREFIX = "RANKZERO_NOTIFY_"
# The file of the run directory that lists the receivers; only launches that notify somebody have it.
FILE = "notify.json"
_PLACES = ("url_env", "url_file", "mail")
_KEYS = (*_PLACES, "format", "events", "from_job")
_VARIABLE = t.text(rf"{PREFIX}[A-Z0-9_]{{1,64}}", f"a variable of the environment whose name begins with {PREFIX}")
_FILE = t.text(r"[~/][^\0\n]*", "a path on the login node, absolute or beginning with ~")
_MAIL = t.text(
    r"[A-Za-z0-9_][A-Za-z0-9._+=-]{0,63}(?:@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?)?",
    "a mail address, or a user's name",
)
_FORMAT = t.choice(*FORMATS)
_EVENT = t.choice(*EVENTS)


@dataclass(frozen=True)
class Receiver:
    """Who is told, of which events, and how. One of `url_env`, `url_file` and `mail` is set."""

    url_env: str = ""
    url_file: str = ""
    mail: str = ""
    format: str = "json"
    events: tuple[str, ...] = ("stalled", "failed", "proven")
    from_job: bool = False


def _parse(value: object) -> Receiver:
    if not isinstance(value, Mapping):
        # The value is not shown: it may be the address itself.
        raise t.Invalid("must be a map with one of url_env, url_file and mail; an address does not belong into a spec")
    for name in value:
        if name in ("url", "webhook"):
            raise t.Invalid(
                f"has the key {name}: the address of a webhook is a secret and does not belong into a spec; put it "
                "into a file on the login node that only you may read (url_file), or into a variable of the "
                f"environment (url_env, {PREFIX}...)"
            )
        if name not in _KEYS:
            hint = t.suggestion(str(name), _KEYS)
            raise t.Invalid(f"has the key {t.shown(name)}{hint}; known: {', '.join(_KEYS)}")
    places = [name for name in _PLACES if value.get(name) is not None]
    if len(places) != 1:
        raise t.Invalid(f"needs exactly one of url_env, url_file and mail, and has {', '.join(places) or 'none'}")
    given = {name: value[name] for name in _KEYS if value.get(name) is not None}
    return _receiver(places[0], given)


def _receiver(place: str, given: Mapping[str, object]) -> Receiver:
    """The receiver from values whose names are known."""
    if place == "mail" and "format" in given:
        raise t.Invalid("has mail and format: a mail is plain text; omit format")
    if place != "url_file" and t.BOOLEAN.parse(given.get("from_job", False)):
        raise t.Invalid("has from_job, which needs url_file: a job can read neither your environment nor send mail")
    kind = {"url_env": _VARIABLE, "url_file": _FILE, "mail": _MAIL}[place]
    try:
        where = str(kind.parse(given[place]))
    except t.Invalid:
        # Whoever puts the address here must not find it in a log.
        raise t.Invalid(f"{place} must be {kind.title}") from None
    events = t.listed(_EVENT, filled=True).parse(given["events"]) if "events" in given else Receiver.events
    return Receiver(
        url_env=where if place == "url_env" else "",
        url_file=where if place == "url_file" else "",
        mail=where if place == "mail" else "",
        format="mail" if place == "mail" else str(_FORMAT.parse(given.get("format", Receiver.format))),
        events=tuple(event for event in EVENTS if event in events),
        from_job=bool(t.BOOLEAN.parse(given.get("from_job", False))),
    )


def receivers(value: object) -> tuple[Receiver, ...]:
    """Parse the list of receivers. Raises Invalid."""
    if not isinstance(value, (list, tuple)):
        # The value is not shown: it may be an address.
        raise t.Invalid("must be a list of receivers, such as [{url_file: ~/.rankzero/slack, format: slack}]")
    return tuple(t.listed(t.Type("receiver", _parse, {})).parse(value))


def document(receivers: Sequence[Receiver]) -> JsonObject:
    """Return the content of notify.json."""
    return {"receivers": [dataclasses.asdict(receiver) for receiver in receivers]}
