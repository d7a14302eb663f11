# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mutants of `make mutants`: what is changed, and that a rule without a test is told from one that has one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from scripts.mutants import candidates, copy_of, mutants_of, survives
from tests.repository import ROOT, run

RULES = '''\
"""A room of one file."""
LIMIT = 3


def fits(size: int, known: bool = True) -> bool:
    """Größe."""
    return size > 3 and known


def shown(name: str) -> str | None:
    if name == "a":
        return f"{name == 'b'}"
    return None
'''
TEST = """\
from ansible_collections.rankzero.slurm.plugins.module_utils.room.rules import fits

def test_rule() -> None:
    assert [fits(3), fits(4), fits(4, False)] == [False, True, False]
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for path, text in {
        "plugins/module_utils/room/rules.py": RULES,
        "tests/unit/room/test_rules.py": TEST,
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = ["--import-mode=importlib"]\n'
        'pythonpath = [".cache/collections"]\n',
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    run("git", "init", "-q", str(root))
    return root


def test_what_is_changed() -> None:
    found = [(mutant.line, mutant.before, mutant.after) for mutant in mutants_of("rules.py", RULES)]
    assert found == [
        (5, "True", "False"),
        (7, "size > 3", "size <= 3"),
        (7, "size > 3", "size >= 3"),
        (7, "size > 3 and known", "None"),
        (7, "size > 3 and known", "known"),
        (7, "size > 3 and known", "size > 3"),
        (7, "size > 3 and known", "size > 3 or known"),
        (7, "3", "4"),
        (11, "name == 'a'", "name != 'a'"),
        (12, "f\"{name == 'b'}\"", "None"),
    ]  # fmt: skip


def test_each_change_is_one_expression_at_its_place() -> None:
    path = "plugins/module_utils/run/status.py"
    text = (ROOT / path).read_text(encoding="utf-8")
    for mutant in mutants_of(path, text):
        changed = mutant.applied(text)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text)), mutant
        above = mutant.line - 1
        assert changed.splitlines()[:above] == text.splitlines()[:above], mutant


@pytest.mark.more
def test_a_rule_without_a_test_survives(tree: Path, tmp_path: Path) -> None:
    copy = copy_of(tree, tmp_path / "place")
    some = [mutant for mutant in candidates(copy, ["room"]) if mutant.after in ("size >= 3", "name != 'a'")]
    assert [(mutant.line, survives(copy, mutant, 120)) for mutant in some] == [(7, False), (11, True)]
    assert (copy / "plugins/module_utils/room/rules.py").read_text(encoding="utf-8") == RULES
