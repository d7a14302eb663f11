# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The alternatives of a regular expression, by its text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?(?:P<\w+>|<?[=!]|:|P=\w+))?|[)|]|[^\\\[()|]+", re.S)


class Alternative(NamedTuple):
    """One of the alternatives of a group: the group with all of them, this one, and the pattern with this one alone."""

    group: str
    text: str
    alone: str


def alternatives(pattern: str) -> Iterator[Alternative]:
    """Of all groups, and of the pattern itself. What must not follow or precede (`(?!`, `(?<!`) has none."""
    # Of each open group: where its content begins, where its bars are, and whether it must not match.
    opened: list[tuple[int, list[int], bool]] = [(0, [], False)]
    pieces = [(found[0], found.start(), found.end()) for found in _TOKEN.finditer(pattern)]
    for piece, start, end in [*pieces, (")", len(pattern), len(pattern))]:
        if piece.startswith("("):
            opened.append((end, [], opened[-1][2] or piece.endswith("!")))
        elif piece == "|":
            opened[-1][1].append(start)
        elif piece == ")":
            begin, bars, refused = opened.pop()
            edges = [begin - 1, *bars, start]
            for left, right in zip(edges, edges[1:]) if bars and not refused else ():
                text = pattern[left + 1 : right]
                yield Alternative(pattern[begin:start], text, pattern[:begin] + text + pattern[start:])
