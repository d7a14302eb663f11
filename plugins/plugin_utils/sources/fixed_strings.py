# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fixed strings of a regular expression: each text that it matches contains one of them.

They are searched first, because a search for them costs a hundredth of that for the expression.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from typing import Any

_PARSER: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
# A longer string is not searched for any faster. Alternatives that make more strings are searched without what differs.
_LONG, _MOST = 12, 24
_EMPTY = {""}


def fixed_strings(regex: str) -> list[str]:
    """The strings in order, none within another; empty where some match has no string in common with the others."""
    return sorted(_without_longer(_required(_PARSER.parse(regex))))


def _without_longer(strings: Iterable[str]) -> list[str]:
    """Of strings of which one contains another, the shorter."""
    kept: list[str] = []
    for string in sorted(strings, key=lambda string: (len(string), string)):
        if not any(other in string for other in kept):
            kept.append(string)
    return kept


def _worth(strings: set[str]) -> tuple[int, int, float]:
    """How good a choice is: long strings first, then few of them."""
    kept = _without_longer(strings)
    return min(_LONG, *map(len, kept), _LONG), -len(kept), sum(map(len, kept)) / len(kept)


def _exact(code: Any, given: Any) -> set[str] | None:
    """All texts that one item of a parsed expression stands for; None where they are many."""
    name = str(code)
    if name == "LITERAL":
        return {chr(given)}
    if name == "AT":
        return _EMPTY
    if name == "IN" and len(given) <= 3 and all(str(kind) == "LITERAL" for kind, _value in given):
        return {chr(value) for _kind, value in given}
    if name == "SUBPATTERN" and not given[1] and not given[2]:
        return _exact_all(given[3])
    if name == "BRANCH":
        texts = [_exact_all(branch) for branch in given[1]]
        exact = {text for some in texts for text in some or ()}
        return None if None in texts or len(exact) > _MOST else exact
    if name in ("MAX_REPEAT", "MIN_REPEAT") and given[1] == 1:
        once = _exact_all(given[2])
        return once if once is None or given[0] == 1 else once | _EMPTY
    return None


def _exact_all(items: Any) -> set[str] | None:
    """All texts that a sequence of items stands for."""
    texts = _EMPTY
    for item in items:
        exact = _exact(*item)
        texts = {before + text for before in texts for text in exact or ()}
        if exact is None or len(texts) > _MOST:
            return None
    return texts


def _within(code: Any, given: Any) -> set[str]:
    """Strings of which one is in each match of an item that stands for many texts."""
    name = str(code)
    if name == "SUBPATTERN":
        return _required(given[3])
    if name == "ASSERT" and given[0] > 0:
        return _required(given[1])
    if name in ("MAX_REPEAT", "MIN_REPEAT") and given[0]:
        return _required(given[2])
    if name == "BRANCH":
        branches = [_required(branch) for branch in given[1]]
        return set().union(*branches) if all(branches) else set()
    return set()


def _required(items: Any) -> set[str]:
    """Strings of which one is in each match of a sequence of items: the best of those that its parts allow."""
    choices: list[set[str]] = []
    run = _EMPTY
    for item in [*items, (None, None)]:
        exact = _exact(*item)
        longer = {before + text for before in run for text in exact or ()}
        if exact is not None and len(longer) <= _MOST:
            if len(exact) > 1:
                choices.append(run)
            run = longer
        elif str(item[0]) != "ASSERT_NOT":
            choices += [run, _within(*item)]
            run = exact or _EMPTY
    # A first letter that is large or small makes two strings of one.
    choices += [{string[1:] for string in run} for run in choices if len({string[1:] for string in run}) < len(run)]
    return max((strings for strings in choices if strings and "" not in strings), key=_worth, default=set())
