# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages and roles are written in plain English: phrases that may not return, each with what to
write instead. Variables and parameters have names that say what they hold.
"""

from __future__ import annotations

import ast
import re

from tests.repository import bullet_list, files, read

#: Phrase -> what to write instead.
INSTEAD = {
    "and the like": "such as, with examples",
    "anew": "again",
    "beneath": "below",
    "beside it": "next to it, in the same folder, at the same time",
    "beside them": "next to them",
    "goes with": "requires",
    "has to": "must",
    "have to": "must",
    "holds no": "contains no",
    "knows no": "has no",
    "leads out": "is a link to a path outside",
    "of its own": "its own, a separate",
    "stands here": "appears",
    "whom": "the user, the host",
}
PHRASE = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, INSTEAD))})(?!\w)", re.IGNORECASE)
PLACES = ("README.md", "CONTRIBUTING.md", "docs/", "contributing/", "roles/", "playbooks/", "plugins/doc_fragments/")
ENDINGS = (".md", ".rst", ".yml", ".py")
#: Names of variables and parameters that say nothing about what they hold.
GRAMMAR = ("found", "one", "said")


def test_pages_and_roles_are_in_plain_english() -> None:
    found = [
        f"{path}:{number}: {match[0]!r}; write: {INSTEAD[match[0].lower()]}"
        for path in files()
        if path.startswith(PLACES) and path.endswith(ENDINGS) and "/files/" not in path
        for number, line in enumerate(read(path).splitlines(), 1)
        for match in PHRASE.finditer(line)
    ]
    assert not found, bullet_list(found)


def test_variables_and_parameters_say_what_they_hold() -> None:
    offenders = {
        f"{path}:{node.lineno}: {name}"
        for path in files()
        if path.startswith("plugins/") and path.endswith(".py")
        for function in ast.walk(ast.parse(read(path)))
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for node in ast.walk(function)
        if isinstance(node, (ast.arg, ast.Name))
        for name in [node.arg if isinstance(node, ast.arg) else node.id]
        if name in GRAMMAR
    }
    assert not offenders, "Name what it holds, such as findings, launch, message:\n" + bullet_list(sorted(offenders))
