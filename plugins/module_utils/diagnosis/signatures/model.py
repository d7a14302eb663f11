# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The data model of a signature: one family of failures, the patterns of its log lines, and its remedy. Pure data.

A family is one file in this folder and one line in `registry.py`. Each way to recognise it is a `Match`: a regular
expression, fixed strings of which any matching line contains at least one (the prefilter searches for those), and how
much the line proves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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
    wording with its own remedy blames no node.
    """

    regex: re.Pattern[str]
    needles: tuple[str, ...]
    strength: int
    where: str = ANYWHERE
    frames: re.Pattern[str] | None = None
    remedy: str = ""
    what: str = ""


@dataclass(frozen=True)
class Signature:
    """One family. `remedy` uses the terms of the job spec; `{name}` in it is a group that a pattern captured.

    `retry`: whether the same launch can succeed if it is tried again. `blames_node`: whether the node that reported
    the failure should be excluded, if a witness reported it (event.py); a site's own family may trust lines of logs.
    `look`: what to look at where the family is not certain, in place of the remedy.
    `examples`: lines as the libraries write them; a test checks that each is recognised
    as this family.
    """

    family: str
    what: str
    remedy: str
    matches: tuple[Match, ...]
    examples: tuple[str, ...]
    retry: bool = False
    blames_node: bool = False
    look: str = ""


def says(regex: str, *needles: str, strength: int = CAUSE, remedy: str = "", what: str = "") -> Match:
    """A wording that counts on any line."""
    return Match(re.compile(regex), needles, strength, remedy=remedy, what=what)


def raises(regex: str, *, frames: str = "", strength: int = CAUSE, remedy: str = "", what: str = "") -> Match:
    """A wording that counts as the last line of an exception, where its traceback passed through `frames`, if given.

    It needs no fixed strings: every line that may end a traceback is checked.
    """
    return Match(re.compile(regex), (), strength, EXCEPTION, re.compile(frames) if frames else None, remedy, what)
