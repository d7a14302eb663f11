# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what can be removed from a store, and why the rest is kept. Pure.

A launch uses everything that its files name: every long hexadecimal word in its manifest and script counts as a key.
So entries that a later release adds to a store are protected by the runs of that release, without a list of kinds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import RUNTIME, STORED

# Kinds that launches of other state roots may use as well.
SHARED = tuple(kind.name for kind in STORED)
KINDS = (*SHARED, "container_environment", RUNTIME.name, "archive", "run", "shell", "cache")
# An entry that was used this recently (seconds) is always kept: a launch may be about to submit.
SHORTEST = 3600.0
DAY = 86400.0
_KEY = re.compile(r"(?<![0-9a-f])[0-9a-f]{32,64}(?![0-9a-f])")
_RUN = re.compile(r"/runs/([^/\s\"']+/[0-9a-f]{16}/[0-9]+)(?![0-9])")


@dataclass(frozen=True)
class Names:
    """What some files name: keys of entries, and run directories as NAME/KEY/GENERATION."""

    keys: frozenset[str] = frozenset()
    runs: frozenset[str] = frozenset()

    def __or__(self, other: Names) -> Names:
        return Names(self.keys | other.keys, self.runs | other.runs)


def named_in(text: str) -> Names:
    """All keys and run directories in the text of a launch's files."""
    return Names(frozenset(_KEY.findall(text)), frozenset(_RUN.findall(text)))


@dataclass(frozen=True)
class Run:
    """A run directory. `end`: why it is over, None while it is not (or that is unknown).

    `last`: the time of its last activity, epoch seconds; `why`: who still needs a run that is not over; `names`: what
    its files name.
    """

    path: str
    last: float
    end: str | None
    why: str = ""
    names: Names = field(default_factory=Names)


@dataclass(frozen=True)
class Thing:
    """An entry that may be removed: of a store, a shell's folder, or a cache file. `used`: like `Run.last`."""

    kind: str
    path: str
    key: str
    used: float


@dataclass(frozen=True)
class Removal:
    """An entry to remove, and the reason."""

    kind: str
    path: str
    key: str
    reason: str
    used: float


@dataclass
class Plan:
    """`going`: what to remove; `staying`: path -> reason; `over`: kept run directories of launches that ended."""

    going: list[Removal] = field(default_factory=list)
    staying: dict[str, str] = field(default_factory=dict)
    over: list[str] = field(default_factory=list)


def decide(
    runs: Sequence[Run],
    things: Iterable[Thing],
    *,
    days: float,
    now: float,
    shells_since: float,
    blind: str = "",
) -> Plan:
    """Decide what to remove. Kept is what was used in the last `days` days or is needed by a launch that was.

    `shells_since`: the earliest start of a job that may run a session now. `blind`: why some launches that use the
    store are unknown; if it is not empty, nothing of SHARED is removed.
    """
    plan = Plan()
    horizon = now - days * DAY
    kept = [run for run in runs if run.end is None or run.last > horizon]
    used: dict[str, str] = {}
    needed: dict[str, str] = {}
    for run in kept:
        used.update(dict.fromkeys(run.names.keys, run.path))
        needed.update({name: run.path for name in run.names.runs if not run.path.endswith(f"/{name}")})
    for run in runs:
        short = "/".join(run.path.split("/")[-3:])
        plan.over += [run.path] if run.end is not None else []
        if run.end is None:
            plan.staying[run.path] = run.why
        elif run.last > horizon:
            plan.staying[run.path] = f"ended {_days(now - run.last)} ago"
        elif short in needed:
            plan.staying[run.path] = f"named by {needed[short]}"
        else:
            plan.going.append(Removal("run", run.path, short, f"{run.end}, {_days(now - run.last)} ago", run.last))
    for thing in things:
        since = min(horizon, now - SHORTEST)
        if thing.kind == "shell":
            since = min(since, shells_since - days * DAY)
        reason = f"not used for {_days(now - thing.used)}"
        if thing.key in used:
            plan.staying[thing.path] = f"named by {used[thing.key]}"
        elif thing.used > since:
            plan.staying[thing.path] = f"used {_days(now - thing.used)} ago"
        elif blind and thing.kind in SHARED:
            plan.staying[thing.path] = blind
        else:
            plan.going.append(Removal(thing.kind, thing.path, thing.key, reason, thing.used))
    order = {kind: number for number, kind in enumerate(KINDS)}
    plan.going.sort(key=lambda thing: (order[thing.kind], thing.path))
    return plan


def _days(seconds: float) -> str:
    if seconds < 2 * 3600:
        minutes = round(max(seconds, 0) / 60)
        return f"{minutes} minute{'' if minutes == 1 else 's'}"
    return f"{seconds / 3600:.0f} hours" if seconds < 2 * DAY else f"{seconds / DAY:.0f} days"
