# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cause as people and machines read it: where, evidence, what followed, what to do. Pure."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.cause import HEALTHY, Cause
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.events import (
    ARTIFACT,
    DRAINED,
    LAUNCHER,
    PENDING,
    SETUP,
    UNEXPLAINED,
    Event,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.scan import Scan
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import WEAK, Signature
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.registry import SIGNATURES

_MARKS = {True: "ok", False: "BAD", None: "?"}
_STALLED = (
    "Look at what that rank does: playbook `rankzero.slurm.shell` enters its node (`py-spy dump`, `nvidia-smi`). "
    "The others wait for it in a collective."
)
_LOST = "peer_lost"
# What a screen is given: cause, where, evidence, remedy, the full story.
SCREEN_LINES = 15
# So many of them are the state of a running job where its logs show a failure already.
RUNNING_LINES = 3
EVIDENCE_KEPT = 12
SHOWN = 2
NAMED = 8
WIDTH = 110
_HOLE = re.compile(r"(?::? ?)\{(\w+)\}")

Families = Mapping[str, Signature]
_FAMILIES: Families = {signature.family: signature for signature in SIGNATURES}
_OWN = Signature(
    family=UNEXPLAINED,
    what="the program raised an exception",
    remedy="The traceback above that line shows where. The collection does not know this message.",
    matches=(),
    examples=(),
)
_NOTHING = Signature(
    family=LAUNCHER,
    what="a rank ended with an error that no log explains",
    remedy="Look for a rank without a log, or with one that ends early. `debug: true` makes the ranks say more.",
    matches=(),
    examples=(),
)

_OF_THE_JOB = {
    UNEXPLAINED: _OWN,
    LAUNCHER: _NOTHING,
    PENDING: Signature(family=PENDING, what="{meaning}", remedy="{remedy}", matches=(), examples=()),
    DRAINED: Signature(
        family=DRAINED,
        what="Slurm took the node out of service: {meaning}",
        remedy="An administrator brings it back, once it is in order, with `{command}`. Launch again.",
        matches=(),
        examples=(),
        retry=True,
        blames_node=True,
    ),
    SETUP: Signature(
        family=SETUP,
        what="the job refused to start its ranks",
        remedy="The table of the preflight says which node lacks what; `resources.exclude` leaves one out.",
        matches=(),
        examples=(),
        blames_node=True,
    ),
    ARTIFACT: Signature(
        family=ARTIFACT,
        what="the program ended well, and its artifact does not prove a result",
        remedy=(
            "Did the program write `artifact.path`, whole, below its working directory? `artifact.require` "
            "says what it must hold."
        ),
        matches=(),
        examples=(),
    ),
}


def signature_of(family: str, families: Families = _FAMILIES) -> Signature:
    """The family of that name; what is no family of the registry is an exception nobody knows, or a bare failure."""
    return families.get(family) or _OF_THE_JOB.get(family, _OWN)


def filled(text: str, event: Event | None) -> str:
    """`text` with what the pattern captured; a hole for which nothing was captured goes, with its colon."""
    known = dict(event.captured) if event else {}
    if event and event.node:
        known.setdefault("node", event.node)
    spare = next(iter(known.values()), "")
    return _HOLE.sub(lambda hole: hole[0].replace(f"{{{hole[1]}}}", known.get(hole[1], spare)) if known else "", text)


def report(cause: Cause, scan: Scan, base: str = "") -> dict[str, Any]:
    """The diagnosis as data. Paths are relative to `base` where it is given."""
    files = {log.file: _relative(log.file, base) for log in scan.logs}
    found: dict[str, Any] = {
        "healthy": cause.family == HEALTHY,
        "family": cause.family,
        "what": "no failure is to be seen in the logs",
        "confidence": cause.confidence,
        "root": None,
        "ranks": [],
        "nodes": [],
        "evidence": [],
        "chain": [],
        "remedy": "",
        "retry": False,
        "blame": [],
        "files": len(scan.logs),
        "bytes": scan.bytes,
        "unreadable": [{"file": _relative(path, base), "why": why} for path, why in sorted(scan.unreadable.items())],
    }
    root = cause.root
    if root is None:
        return found
    families = {signature.family: signature for signature in scan.signatures}
    family = signature_of(cause.family, families)
    # A launcher's echo of the same family says who was ended, not who ended first.
    alike = (event for event in cause.followed if (event.family, event.strength) == (root.family, root.strength))
    same = [root, *alike]
    nodes = _unique(event.node for event in same)
    found.update(
        what=filled(family.what, root),
        root=_shown(root, files),
        ranks=sorted({event.rank for event in same if event.rank is not None}),
        nodes=nodes,
        evidence=[_shown(event, files) for event in [root, *_others(root, cause.followed)][:EVIDENCE_KEPT]],
        chain=_chain(root, cause.followed, families),
        remedy=filled(family.remedy, root),
        retry=family.retry,
        blame=nodes[:1] if family.blames_node and len(nodes) == 1 else [],
    )
    return found


def with_rank(event: Event, rank: int | None, node: str | None = None) -> Event:
    """The event with the rank and node that its file's name says, where its line said none."""
    return replace(event, rank=rank if event.rank is None else event.rank, node=event.node or node)


def screen(found: dict[str, Any], story: str = "") -> list[str]:
    """A diagnosis in at most SCREEN_LINES lines. `story`: where all of it is."""
    running = _running(found)
    if running:
        running = [*running[: SCREEN_LINES - 1], *_row("story", story, 1)]
    if found["healthy"] and running:
        return running
    if found["healthy"]:
        read = f"{found['files']} log{'s' if found['files'] != 1 else ''} read"
        said = [f"no cause found: {read}, and none of them shows a failure", *_unread(found)]
        return [*said, *_checks(found)][:SCREEN_LINES]
    root = found["root"]
    lines = running[:RUNNING_LINES] + _row(
        "cause", f"{found['what']} ({found['family']}, confidence {found['confidence']})", 2
    )
    lines += _row("where", _where(found), 2)
    lines += _row("evidence", f"{root['file']}:{root['line']}  {root['text']}", 3)
    for event in found["evidence"][1:SHOWN]:
        lines += _row("", f"{event['file']}:{event['line']}  {event['text']}", 1)
    if len(found["chain"]) > 1:
        lines += _row("then", " -> ".join(found["chain"][1:]), 1)
    lines += _row("remedy", found["remedy"], 4)
    lines += _row("retry", "the same launch may succeed when it is tried again" if found["retry"] else "", 1)
    lines += [*_unread(found), *_row("story", story, 1)]
    return lines[:SCREEN_LINES]


def _running(found: dict[str, Any]) -> list[str]:
    """Of a job that runs: its state, the check-list, and whether it stands still."""
    launch = found.get("launch") or {}
    if "stall" not in found:
        return []
    lines = _row("state", f"{launch['message']} (job {launch['job_id']}, attempt {launch['attempt'] + 1})", 1)
    lines += _checks(found)
    if found["stall"]:
        lines += _row("stalled", found["stall"]["message"], 2) + _row("", _STALLED, 2)
    return lines


def _checks(found: dict[str, Any]) -> list[str]:
    """The launch check-list, a line each."""
    rows = []
    for number, one in enumerate(found.get("checklist") or []):
        words = f"{_MARKS[one['ok']]:<4}{one['question']}: {one['answer']}"
        rows += _row("" if number else "check", words, 1)
    return rows


def _row(title: str, text: str, most: int) -> list[str]:
    if not text:
        return []
    shown = textwrap.wrap(text, WIDTH, max_lines=most, placeholder=" ...", break_on_hyphens=False)
    return [f"{title if index == 0 else '':<10}{line}" for index, line in enumerate(shown)]


def _unread(found: dict[str, Any]) -> list[str]:
    unread = found["unreadable"]
    if not unread:
        return []
    more = f" and {len(unread) - 1} more" if len(unread) > 1 else ""
    return _row("not read", f"{unread[0]['file']}: {unread[0]['why']}{more}", 1)


def _where(found: dict[str, Any]) -> str:
    ranks, nodes = found["ranks"], found["nodes"]
    words = []
    if ranks:
        more = f" and {len(ranks) - NAMED} more" if len(ranks) > NAMED else ""
        words.append(f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks[:NAMED]))}{more}")
    if nodes:
        words.append(f"on {', '.join(nodes[:NAMED])}")
    root = found["root"]
    if ranks and root["rank"] is not None and len(ranks) > 1:
        words.append(f"(first rank {root['rank']})")
    return " ".join(words)


def _chain(root: Event, followed: Sequence[Event], families: Families) -> list[str]:
    """What led to what: the root, then each other family once, in order, with how many ranks said it."""
    links = [_link(root.family, [root], families)]
    # What always follows from something else is the launcher's doing, however it sounds; but who was lost matters.
    followed = [
        replace(event, family=LAUNCHER) if event.strength < WEAK and event.family != _LOST else event
        for event in followed
    ]
    for family in _unique(event.family for event in followed if event.family != root.family):
        links.append(_link(family, [event for event in followed if event.family == family], families))
    return links


def _link(family: str, events: Sequence[Event], families: Families) -> str:
    ranks = {event.rank for event in events if event.rank is not None}
    if family == LAUNCHER:
        return "the launcher ended the other ranks"
    who = f"rank {ranks.pop()}" if len(ranks) == 1 else f"{len(ranks)} ranks" if ranks else ""
    what = filled(signature_of(family, families).what, events[0])
    return f"{who}: {what}" if who else what


def _others(root: Event, followed: Sequence[Event]) -> list[Event]:
    """One event of each other family, and what each other witness says, the strongest first."""
    seen = {root.family, root.file}
    chosen = []
    for event in sorted(followed, key=lambda event: -event.strength):
        # Accounting and the like have no folder.
        key = event.family if os.sep in event.file else event.file
        if key not in seen:
            seen.add(key)
            chosen.append(event)
    return chosen


def _shown(event: Event, files: dict[str, str]) -> dict[str, Any]:
    return {
        "file": files.get(event.file, event.file),
        "line": event.line,
        "text": event.text[:500],
        "family": event.family,
        "rank": event.rank,
        "node": event.node,
    }


def _relative(path: str, base: str) -> str:
    """What lies in no folder is no file but a witness: Slurm, sacct, squeue."""
    return os.path.relpath(path, base) if base and os.sep in path else path


def _unique(values: Any) -> list[Any]:
    return list(dict.fromkeys(value for value in values if value is not None))
