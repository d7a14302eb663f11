# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a wait says after a look at the ranks of its job. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import SLOWER, Metrics
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.event import Event
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.pace import SILENT_SECONDS

#: Events upon which the ranks are looked at.
LOOKED_AT = ("stalled", "quiet", "slow")


def _part(of: object, name: str) -> Mapping[str, Any]:
    """A part of what a look has found, which crossed the network as JSON; empty where it is no map."""
    part = of.get(name) if isinstance(of, Mapping) else None
    return part if isinstance(part, Mapping) else {}


def at_work(diagnosis: object, seconds: float, seen: Metrics | None = None) -> bool:
    """Whether a job that was silent for so long has made a step after the newest that the wait has seen, or its ranks
    evaluate or save, as far as a look can tell. A long time of that is said all the same.
    """
    facts, step = _part(diagnosis, "facts"), seen.step if seen else None
    newest, working = facts.get("step"), bool(_part(facts, "standstill").get("at_work"))
    return (step is not None and isinstance(newest, int) and newest > step) or (seconds < SILENT_SECONDS and working)


def culprit(diagnosis: object) -> str:
    """What a diagnosis says of the rank that the others wait for; empty where it names none."""
    return str(_part(_part(diagnosis, "facts"), "standstill").get("message") or "")


def why(event: Event, diagnosis: object) -> str:
    """What a diagnosis says of the ranks, for an event that made the wait look; empty where it shows nothing."""
    facts = _part(diagnosis, "facts")
    if event.kind == "slow":
        # Of steps that are only a little late the wait says nothing but who makes them so.
        slow = _part(facts, "slow")
        told = event.paces[1] >= SLOWER * event.paces[0] or _part(slow, "straggler").get("ranks")
        return str(slow.get("message")) if slow and told else ""
    named, stall = culprit(diagnosis), _part(diagnosis, "stall")
    if not named or (event.kind == "quiet" and not stall):
        return ""
    since = f"{stall.get('message')}: " if event.kind == "quiet" else ""
    return f"{since}{named}"
