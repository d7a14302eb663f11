# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests take the files of a run directory from their own writers (tests/writers.py).

Written by hand, a file says what its reader expects, and not what its writer writes: a report read a key that no
diagnosis has, and its test was green.
"""

from __future__ import annotations

import ast

from tests.repository import files, syntax_tree

NAMES = ("outcome.json", "started.json", "launch.json", "contract.json", "diagnosis.json", "journal.jsonl")
WRITES = ("write_text", "write_bytes")
#: Files of tests that write some of them by hand, and what they write: what no writer of ours would.
BY_HAND = {
    "tests/cluster/test_attacks_runs.py": "the files of an attacker",
    "tests/unit/core/test_state_files.py": "files of other users, links, and values that are none of ours",
    "tests/unit/course/test_checkoff.py": "the files of students who cheat",
    "tests/unit/run/test_directory.py": "half-written files",
    "tests/unit/run/test_history.py": "a verdict that somebody has changed",
    "tests/unit/run/test_launches.py": "half-written files",
    "tests/unit/runtime/test_again.py": "damaged verdicts",
    "tests/unit/runtime/test_outcome.py": "damaged contracts",
    "tests/unit/watch/test_poll.py": "half-written files",
}


def named(*nodes: ast.expr) -> bool:
    """Whether an expression ends a path with one of the names."""
    parts = [part for node in nodes for part in ast.walk(node)]
    return any(isinstance(part, ast.Constant) and str(part.value).endswith(NAMES) for part in parts)


def by_hand(path: str) -> bool:
    """Whether a file writes one of them: `(... / "outcome.json").write_text(...)`, a function `write...` of its own
    that is given the name and a content, or `make_run(..., outcome_json={...})`.
    """
    for call in (node for node in ast.walk(syntax_tree(path)) if isinstance(node, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if (name in WRITES and named(call.func)) or (name.startswith("write") and named(*call.args[:-1])):
            return True
        given = [word.value for word in call.keywords if (word.arg or "").replace("_", ".").endswith(NAMES)]
        if any(isinstance(value, (ast.Dict, ast.Constant, ast.JoinedStr)) for value in given):
            return True
    return False


def test_no_further_test_writes_the_files_of_a_launch_by_hand() -> None:
    found = {path for path in files("tests/", ".py") if by_hand(path)}
    assert found - set(BY_HAND) == set(), "take them from tests/writers.py"
    assert set(BY_HAND) - found == set(), "no longer by hand: remove the row"
