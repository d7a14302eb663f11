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
#: Files whose tests write some of them by hand. Nothing joins this list but a test of what no writer writes: corrupt,
#: hostile or foreign files. The other half waits to be moved to the writers.
BY_HAND = {
    "tests/cluster/watching.py",
    "tests/unit/core/test_state_files.py",
    "tests/unit/course/test_checkoff.py",
    "tests/unit/runtime/test_again.py",
    "tests/unit/runtime/test_outcome.py",
    "tests/unit/watch/test_poll.py",
}


def by_hand(path: str) -> bool:
    """Whether a file writes one of them: `(... / "outcome.json").write_text(...)`."""
    for node in ast.walk(syntax_tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITES:
            told = ast.walk(node.func.value)
            if any(isinstance(part, ast.Constant) and str(part.value).endswith(NAMES) for part in told):
                return True
    return False


def test_no_further_test_writes_the_files_of_a_launch_by_hand() -> None:
    found = {path for path in files("tests/", ".py") if by_hand(path)}
    assert found - BY_HAND == set(), "take them from tests/writers.py"
    assert BY_HAND - found == set(), "no longer by hand: remove the row"
