# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a wait says after a look at the ranks of its job. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import SLOWER
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.event import Event
from ansible_collections.rankzero.slurm.plugins.module_utils.watch.pace import SILENT_SECONDS

#: Events upon which the ranks are looked at.
LOOKED_AT = ("stalled", "quiet", "slow")


def at_work(diagnosis: object, seconds: float) -> bool:
    """Whether the ranks of a job that is silent for so long evaluate or save, as far as a look can tell. A long time of
    it is said all the same.
    """
    facts = diagnosis.get("facts") if isinstance(diagnosis, Mapping) else None
    if not isinstance(diagnosis, Mapping) or not isinstance(facts, Mapping):
        return False
    culprit = facts.get("standstill")
    return seconds < SILENT_SECONDS and isinstance(culprit, Mapping) and bool(culprit.get("at_work"))


def why(event: Event, diagnosis: object) -> str:
    """What a diagnosis says of the ranks, for an event that made the wait look; empty where it shows nothing."""
    facts = diagnosis.get("facts") if isinstance(diagnosis, Mapping) else None
    if not isinstance(diagnosis, Mapping) or not isinstance(facts, Mapping):
        return ""
    slow, culprit, stall = facts.get("slow"), facts.get("standstill"), diagnosis.get("stall")
    if event.kind == "slow":
        # Of steps that are only a little late the wait says nothing but who makes them so.
        late = slow.get("straggler") if isinstance(slow, Mapping) else None
        certain = isinstance(late, Mapping) and late.get("ranks")
        much = event.paces[1] >= SLOWER * event.paces[0]
        return str(slow.get("message")) if isinstance(slow, Mapping) and (certain or much) else ""
    if not isinstance(culprit, Mapping) or (event.kind == "quiet" and not isinstance(stall, Mapping)):
        return ""
    since = f"{stall.get('message')}: " if event.kind == "quiet" and isinstance(stall, Mapping) else ""
    return f"{since}{culprit.get('message')}"
