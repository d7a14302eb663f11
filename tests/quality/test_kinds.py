# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kind of input is declared in inputs/kinds.py. No other code asks which kind it has: it reads the declaration."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import BY_NAME
from tests.repository import bullet_list, files, read

DECLARED = "plugins/module_utils/inputs/kinds.py"
#: Repositories of a hub have kinds, too: models, datasets and spaces.
OTHER_KINDS = ("plugins/module_utils/hub/", "plugins/modules/hub_cache.py")


def texts(node: ast.AST) -> set[str]:
    """The strings of an expression, those of a tuple, list or set included."""
    return {each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)}


def asks(node: ast.AST) -> bool:
    """Whether an expression is the kind of something: `kind`, `x.kind`, `x["kind"]`, `x.get("kind")`."""
    if isinstance(node, ast.Name):
        return node.id == "kind"
    if isinstance(node, ast.Attribute):
        return node.attr == "kind" or (node.attr == "name" and asks(node.value))
    if isinstance(node, ast.Call):
        return bool(node.args) and (asks(node.args[0]) or texts(node.args[0]) == {"kind"})
    return isinstance(node, ast.Subscript) and texts(node.slice) == {"kind"}


def comparisons(source: str) -> Iterator[int]:
    """The lines that compare a kind with the name of one, go through some of them, or are a further table of them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
            if any(asks(part) for part in parts) and any(texts(part) & BY_NAME.keys() for part in parts):
                yield node.lineno
        elif isinstance(node, (ast.For, ast.comprehension)) and asks(node.target):
            if texts(node.iter) and texts(node.iter) <= BY_NAME.keys():
                yield node.iter.lineno
        elif isinstance(node, ast.Dict) and {"kind"} == {text for key in node.keys if key for text in texts(key)} & {
            "kind"
        }:
            for key, value in zip(node.keys, node.values):
                if key and texts(key) == {"kind"} and isinstance(value, ast.Constant) and value.value in BY_NAME:
                    yield node.lineno


@pytest.mark.parametrize(
    "line",
    [
        'ref["kind"] == "image"',
        'ref.get("kind") != "code"',
        'ref.kind in ("environment", "runtime")',
        '[x for kind in ("environment", "code")]',
        '{"kind": "dataset", "key": k}',
    ],
)
def test_what_counts(line: str) -> None:
    assert list(comparisons(line)) == [1]


def test_no_code_compares_kinds_of_inputs() -> None:
    found = []
    for path in files("plugins/", ".py"):
        if path != DECLARED and not path.startswith(OTHER_KINDS):
            source = read(path)
            found += [f"{path}:{line}" for line in (comparisons(source) if "kind" in source else ())]
    assert not found, bullet_list(found)
