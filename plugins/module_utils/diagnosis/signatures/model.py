# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a signature is: one family of failures, a pattern of its log lines, and what to do about it. Pure data.

A family is one file in this folder and one line in `registry.py`. Each way to recognise it is a `Match`: a regular
expression, the fixed strings of which any matching line holds at least one (the prefilter greps for those), and how
much the line proves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# How much a line proves. At CAUSE or above it explains the failure by itself; the earliest one is the root.
DECISIVE = 40  # Slurm or the kernel says who was killed and why: goes before any exception.
CAUSE = 30  # the wording of a library for one failure
LIMIT = 25  # a limit or a person ended the job
RAISED = 20  # some exception that ended a traceback
WEAK = 10  # a symptom: the cause only where nothing better is found
ECHO = 0  # always follows from something else

# Where a pattern may match: on any line, or only on the last line of an exception.
ANYWHERE = "anywhere"
EXCEPTION = "exception"


@dataclass(frozen=True)
class Match:
    """One wording. `needles`: fixed strings, at least one of which each matching line holds."""

    regex: re.Pattern[str]
    needles: tuple[str, ...]
    strength: int
    where: str = ANYWHERE
    frames: re.Pattern[str] | None = None


@dataclass(frozen=True)
class Signature:
    """One family. `remedy` speaks in the job spec's words; `{name}` in it is a group that a pattern captured.

    `retry`: whether the same launch can succeed when it is tried again. `blames_node`: whether the node that said it
    should be left out. `examples`: lines as the libraries write them, each recognised as this family (a test checks).
    """

    family: str
    what: str
    remedy: str
    matches: tuple[Match, ...]
    examples: tuple[str, ...]
    retry: bool = False
    blames_node: bool = False


def says(regex: str, *needles: str, strength: int = CAUSE) -> Match:
    """A wording that counts on any line."""
    return Match(re.compile(regex), needles, strength)


def raises(regex: str, *, frames: str = "", strength: int = CAUSE) -> Match:
    """A wording that counts as the last line of an exception, where its traceback passed through `frames`, if given.

    It needs no fixed strings: every line that may end a traceback is looked at.
    """
    return Match(re.compile(regex), (), strength, EXCEPTION, re.compile(frames) if frames else None)
