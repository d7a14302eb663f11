# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a line of the wait blames, compared with what was provoked."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from benchmarks.hangs.cases import KINDS, Case

LINK = "unsent data"
#: A rank that a line blames, with its node. Of the others it gives the number only.
BLAMES = re.compile(r"\branks? (\d+)(?: on (\S+?))?(?=[ ,;:])")
#: A place as a person can click it, and the function there.
_PLACE = re.compile(r"(?<!\S)\(?work/train\.py:(\d+), in (\w+)")
_PROGRAM = ast.parse(Path(__file__).with_name("train.py").read_text(encoding="utf-8"))
#: Function of the program -> its first and its last line.
_LINES = {
    node.name: (node.lineno, node.end_lineno or node.lineno)
    for node in ast.walk(_PROGRAM)
    if isinstance(node, ast.FunctionDef)
}


def named_in(message: str) -> dict[int, str]:
    """Rank -> node of the ranks that a line of the wait blames."""
    return {int(rank): node for rank, node in BLAMES.findall(message)}


def judged(case: Case, node: str, message: str) -> dict[str, bool | None]:
    """`right`: it names the ranks at fault and no others, and their node, line and reason; `rank`, `node`, `line` and
    `reason`: each alone. None where the case has none: a process that is stopped or blocked tells no line.
    """
    function, words = KINDS[case.kind][1:]
    places = {name: int(line) for line, name in _PLACE.findall(message)}
    parts: dict[str, bool | None] = {
        "rank": None if case.kind == "link" else sorted(named_in(message)) == sorted(case.ranks),
        "node": node in message if case.kind in ("link", "gone") else node in named_in(message).values(),
        "line": _within(function, places.get(function, 0)) if function else None,
        "reason": words in message,
    }
    return {"right": all(part is not False for part in parts.values()), **parts}


def _within(function: str, line: int) -> bool:
    first, last = _LINES[function]
    return first <= line <= last
