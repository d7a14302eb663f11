# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The data model of a signature: one family of failures, the patterns of its log lines, and its remedy.

A family is declared in YAML, ours and a site's alike (contributing/diagnosis-rules.md). The controller compiles it
(plugin_utils/sources/failure_families.py) into plain data, which `signature` reads: the cluster reads no YAML. Each
way to recognise a family is a `Match`: a regular expression, fixed strings of which any matching line contains at least
one, and how much the line proves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject

# How much a line proves. From CAUSE on it explains the failure by itself; the earliest such line is the root.
DECISIVE = 40  # Slurm or the kernel reports who was killed and why: takes precedence over any exception
CAUSE = 30  # a library's wording for one failure
LIMIT = 25  # a limit or a person ended the job
RAISED = 20  # any exception that ended a traceback
MEANT = RAISED + 1  # an exception that vague words assign to a family
WEAK = 10  # a symptom: the cause only if nothing better is found
HINT = 1  # a complaint that names its own fallback: explains a failure only where nothing else does
ECHO = 0  # always follows from something else

# Where a pattern may match: on any line, or only on the last line of an exception.
ANYWHERE = "anywhere"
EXCEPTION = "exception"


@dataclass(frozen=True)
class Match:
    """One wording. `needles`: fixed strings; each matching line contains at least one.

    `what`, `remedy`: what this wording means and what helps against it, where that is not what its family says; a
    wording with its own remedy blames no node. `retry`: whether the same launch can succeed if it is tried again; None:
    as its family says, and not at all where the wording has its own remedy.
    """

    regex: re.Pattern[str]
    needles: tuple[str, ...]
    strength: int
    where: str = ANYWHERE
    frames: re.Pattern[str] | None = None
    remedy: str = ""
    what: str = ""
    retry: bool | None = None


@dataclass(frozen=True)
class Signature:
    """One family. `remedy` uses the terms of the job spec; `{name}` in it is a group that a pattern captured.

    `retry`: whether the same launch can succeed if it is tried again. `blames_node`: whether the node that reported
    the failure should be excluded, if a witness reported it (event.py); a site's own family may trust lines of logs.
    `look`: what to look at where the family is not certain, in place of the remedy.
    """

    family: str
    what: str
    remedy: str
    matches: tuple[Match, ...] = ()
    retry: bool = False
    blames_node: bool = False
    look: str = ""


def signature(data: JsonObject) -> Signature:
    """The family that compiled data describes: {"family", "what", "remedy", "look", "retry", "blames_node", "says":
    [{"regex", "needles", "strength", "what", "remedy", "retry"}], "raises": [the same; "frames", no "needles"]}.
    """
    matches = [_match(match, where) for kind, where in WHERE.items() for match in data.get(kind) or []]
    known = {name: data[name] for name in ("retry", "blames_node", "look") if name in data}
    return Signature(data["family"], data["what"], data["remedy"], tuple(matches), **known)


# Where the wordings of a key may match.
WHERE = {"says": ANYWHERE, "raises": EXCEPTION}


def _match(data: JsonObject, where: str) -> Match:
    frames = data.get("frames")
    return Match(
        re.compile(data["regex"]),
        tuple(data.get("needles") or ()),
        data["strength"],
        where,
        re.compile(frames) if frames else None,
        data.get("remedy", ""),
        data.get("what", ""),
        data.get("retry"),
    )
