# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cause with its evidence, its consequences and its remedy. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.cause import UNKNOWN, Cause, complained_often
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.diagnosis import Diagnosis, Evidence, Unread
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.event import (
    ARTIFACT,
    CANCELLED,
    DRAINED,
    HANG,
    LAUNCHER,
    PENDING,
    SETUP,
    STATE_ROOT,
    UNEXPLAINED,
    Event,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.scan import Scan
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    MEANT,
    WEAK,
    Signature,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.registry import SIGNATURES

_LOST = "peer_lost"
# What a launcher says as it ends the others. That one has failed is no more than a report.
_ENDS_OTHERS = re.compile(r"[Tt]erminat|[Aa]bort|[Kk]ill|closing signal|CANCELLED|SIGTERM|[Ss]topping|[Ee]nding")
# Exceptions of a program that does the same the next time: an argument, a file, a module, a setting is wrong.
THE_SAME_AGAIN = re.compile(
    r"(?:\w+\.)*(?:Assertion|Attribute|FileNotFound|Import|Indentation|Index|IsADirectory|Key|ModuleNotFound|Name"
    r"|NotADirectory|NotImplemented|Syntax|Type|UnboundLocal|Misconfiguration)(?:Error|Exception)\b"
)
EVIDENCE_KEPT = 12
_HOLE = re.compile(r"(?::? ?)\{(\w+)\}")

Families = Mapping[str, Signature]
_FAMILIES: Families = {signature.family: signature for signature in SIGNATURES}
_OWN = Signature(
    family=UNEXPLAINED,
    what="the program raised an exception",
    remedy="The traceback above that line shows where. The collection does not know this message.",
)
_NO_CAUSE = "these logs have no line that is known as a failure or a normal end"
_NOTHING = Signature(
    family=LAUNCHER,
    what="a launcher reported a failure, and no known cause is in these logs",
    remedy=(
        "Read the lines above that one. If they do not say why, look for a rank without a log, or with one that ends "
        "early; `debug: true` makes the ranks print more."
    ),
)

_OF_THE_JOB = {
    UNEXPLAINED: _OWN,
    LAUNCHER: _NOTHING,
    PENDING: Signature(family=PENDING, what="{meaning}", remedy="{remedy}"),
    DRAINED: Signature(
        family=DRAINED,
        what="Slurm took the node out of service: {meaning}",
        remedy="After the repair, an administrator resumes it with `{command}`. Launch again.",
        retry=True,
        blames_node=True,
    ),
    HANG: Signature(family=HANG, what="the job stood still: {message}", remedy="{remedy}"),
    SETUP: Signature(
        family=SETUP,
        what="the job refused to start its ranks",
        remedy=(
            "The preflight table shows what each node lacks. `resources.exclude: [{nodes}]` leaves out what lacks "
            "something that the others have."
        ),
        blames_node=True,
    ),
    STATE_ROOT: Signature(
        family=STATE_ROOT,
        what="the nodes do not see {state_root}: the job never started",
        remedy=(
            "Set `launch_cluster.state_root` and `store_root` to folders that all nodes mount and this user may write, "
            "and launch again. On some clusters the home directory is not shared. If this folder is, look for it on "
            "{node}: its mount may be missing there."
        ),
    ),
    ARTIFACT: Signature(
        family=ARTIFACT,
        what="the program ended well, and its artifact does not prove a result",
        remedy=(
            "Check that the program writes a complete `artifact.path` below its working directory. `artifact.require` "
            "lists the required values."
        ),
    ),
}


def signature_of(family: str, families: Families = _FAMILIES) -> Signature:
    """The family of that name. A name outside the registry is an unexplained exception or a failure without a log."""
    return families.get(family) or _OF_THE_JOB.get(family, _OWN)


def filled(text: str, event: Event | None) -> str:
    """`text` with its placeholders replaced by what the pattern captured.

    Without any capture, each placeholder is removed together with a colon before it.
    """
    known = dict(event.captured) if event else {}
    if event and event.node:
        known.setdefault("node", event.node)
    spare = next(iter(known.values()), "")
    return _HOLE.sub(lambda hole: hole[0].replace(f"{{{hole[1]}}}", known.get(hole[1], spare)) if known else "", text)


def diagnosis_of(cause: Cause, scan: Scan, base: str = "") -> Diagnosis:
    """A cause with its evidence and remedy. Paths are relative to `base` where it is given."""
    files = {log.file: _relative(log.file, base) for log in scan.logs}
    unreadable = [Unread(_relative(path, base), why) for path, why in sorted(scan.unreadable.items())]
    diagnosis = Diagnosis(
        cause.family, confidence=cause.confidence, files=len(scan.logs), bytes=scan.bytes, unreadable=unreadable
    )
    root = cause.root
    if root is None:
        return replace(diagnosis, what=_NO_CAUSE) if cause.family == UNKNOWN else diagnosis
    families = {signature.family: signature for signature in scan.signatures}
    family = signature_of(cause.family, families)
    # An echo of the same family names ranks that the launcher ended, not the rank that failed first.
    alike = (event for event in cause.followed if (event.family, event.strength) == (root.family, root.strength))
    same = [root, *alike]
    nodes = _unique(event.node for event in same)
    # Who prints the right words into a log would have nodes excluded. A site decides so for its own families.
    own = family.family not in _FAMILIES and family.family not in _OF_THE_JOB
    proven = _unique(event.node for event in same if event.witness or own)
    blames = family.blames_node and not root.remedy and nodes == proven
    return replace(
        diagnosis,
        what=filled(root.what or family.what, root),
        root=_shown(root, files),
        ranks=sorted({event.rank for event in same if event.rank is not None}),
        nodes=nodes,
        evidence=[_shown(event, files) for event in [root, *_others(root, cause.followed)][:EVIDENCE_KEPT]],
        chain=_chain(root, cause.followed, families),
        remedy=filled(_advice(cause.confidence, root, family), root),
        retry=_may_help(root, family, own) and not _in_vain(root, cause, scan),
        blame=nodes[:1] if blames and len(nodes) == 1 and cause.confidence == "high" else [],
    )


def _may_help(root: Event, family: Signature, own: bool) -> bool:
    """Whether the same launch can succeed if it is tried again: as its wording says, else as its family does.

    A family of the collection (not `own` of a site) does not speak for the exceptions of THE_SAME_AGAIN.
    """
    if root.retry is not None:
        return root.retry
    return family.retry and not root.remedy and (own or not THE_SAME_AGAIN.match(root.text))


def _in_vain(root: Event, cause: Cause, scan: Scan) -> bool:
    """Whether another try is no help: a person has cancelled the launch, or one process tried again and again."""
    # In a file of several processes without prefixes, equal lines may be one of each.
    shared = any(log.file == root.file and (log.ranks or log.several) for log in scan.logs) and root.rank is None
    cancelled = root.family == CANCELLED and root.witness and bool(root.remedy)
    return cancelled or (not shared and complained_often(root, cause.followed))


def _advice(confidence: str, root: Event, family: Signature) -> str:
    """What to change where the family is certain, else what to look at first: a wrong remedy costs more than none.

    What is not sure at all, or known by its meaning only, gets no remedy.
    """
    remedy = root.remedy or family.remedy
    if confidence == "high" or family.family in _OF_THE_JOB:
        return remedy
    guessed = confidence == "low" or root.strength == MEANT
    look = (root.remedy and "Read that line.") or family.look or "Read that line and those around it."
    return f"Not certain. {look}" + ("" if guessed else f" If it is that: {remedy}")


def with_rank(event: Event, rank: int | None, node: str | None = None) -> Event:
    """The event with the rank and node from its file's name, where its line names none."""
    return replace(event, rank=rank if event.rank is None else event.rank, node=event.node or node)


def _chain(root: Event, followed: Sequence[Event], families: Families) -> list[str]:
    """The chain of events: the root, then each other family once, in order, with the number of its ranks."""
    links = [_link(root.family, [root], families)]
    # What only follows from another says nothing of its own: the launcher's signal, or a log that ends. A lost peer is
    # kept, as its name matters.
    followed = [event for event in followed if event.strength >= WEAK or event.family in (_LOST, LAUNCHER)]
    # Nor did a warning follow that stands before the cause. A launcher or a peer may write before Slurm says why.
    followed = [
        event
        for event in followed
        if event.file != root.file or event.line >= root.line or event.family in (_LOST, LAUNCHER)
    ]
    for family in _unique(event.family for event in followed if event.family != root.family):
        links.append(_link(family, [event for event in followed if event.family == family], families))
    return links


def _link(family: str, events: Sequence[Event], families: Families) -> str:
    ranks = {event.rank for event in events if event.rank is not None}
    if family == LAUNCHER:
        ended = any(_ENDS_OTHERS.search(event.text) for event in events)
        return "the launcher ended the other ranks" if ended else "the launcher reported that it failed"
    who = f"rank {ranks.pop()}" if len(ranks) == 1 else f"{len(ranks)} ranks" if ranks else ""
    what = filled(events[0].what or signature_of(family, families).what, events[0])
    return f"{who}: {what}" if who else what


def _others(root: Event, followed: Sequence[Event]) -> list[Event]:
    """One event of each other family, and one of each other source that is no file, the strongest first."""
    seen = {root.family, root.file}
    chosen = []
    for event in sorted(followed, key=lambda event: -event.strength):
        # Accounting and similar sources have no folder in their name.
        key = event.family if os.sep in event.file else event.file
        if key not in seen:
            seen.add(key)
            chosen.append(event)
    return chosen


def _shown(event: Event, files: Mapping[str, str]) -> Evidence:
    file = files.get(event.file, event.file)
    return Evidence(file, event.line, event.text[:500], event.family, event.rank, event.node)


def _relative(path: str, base: str) -> str:
    """`path` relative to `base`. A name without a folder is no file but a source: Slurm, sacct, squeue."""
    return os.path.relpath(path, base) if base and os.sep in path else path


def _unique(values: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(value for value in values if value is not None))
