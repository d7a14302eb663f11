# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages and roles are written in plain English: phrases that may not return, each with what to
write instead. Variables and parameters have names that say what they hold. Messages end alike.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.repository import bullet_list, files, read, syntax_tree

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
#: Names of variables that ansible-test refuses, a quarter of an hour later.
REFUSED = ("bar", "baz", "foo", "tata", "toto", "tutu")
#: Names of functions and methods that do not say what is done with what. A property is named as a field is.
VAGUE = ("ask", "glance", "look", "place", "say", "take", "tell")
#: A class that reads as a file does has its methods.
AS_FILES = ("core/extraction.py", "logs/redact.py")


def test_pages_and_roles_are_in_plain_english() -> None:
    found = [
        f"{path}:{number}: {match[0]!r}; write: {INSTEAD[match[0].lower()]}"
        for path in files()
        if path.startswith(PLACES) and path.endswith(ENDINGS) and "/files/" not in path
        for number, line in enumerate(read(path).splitlines(), 1)
        for match in PHRASE.finditer(line)
    ]
    assert not found, bullet_list(found)


def outermost_functions(node: ast.AST) -> Iterator[ast.AST]:
    """The functions of a file that are in no other one."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield child
        else:
            yield from outermost_functions(child)


def test_variables_and_parameters_say_what_they_hold() -> None:
    offenders = {
        f"{path}:{node.lineno}: {name}"
        for path in files()
        if path.startswith("plugins/") and path.endswith(".py")
        for function in outermost_functions(syntax_tree(path))
        for node in ast.walk(function)
        if isinstance(node, (ast.arg, ast.Name))
        for name in [node.arg if isinstance(node, ast.arg) else node.id]
        if name in GRAMMAR or (name in REFUSED and isinstance(getattr(node, "ctx", None), ast.Store))
    }
    assert not offenders, "Name what it holds, such as findings, launch, message:\n" + bullet_list(sorted(offenders))


def test_functions_and_methods_say_what_they_do() -> None:
    named = [
        (f"{path}:{node.lineno}: {node.name}", node.name)
        for path in files()
        if path.startswith(("plugins/", "python/", "extensions/")) and path.endswith(".py")
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        if "property" not in map(ast.unparse, node.decorator_list)
        if not (node.name == "tell" and path.endswith(AS_FILES))
    ]
    assert len(named) > 4000, "the functions were not found: this test would pass on anything"
    vague = [place for place, name in named if name in VAGUE]
    assert not vague, "Name what it does with what, such as query_nvidia_smi, log_line:\n" + bullet_list(vague)


#: The end of a sentence inside a message, whose values stand as {}.
ANOTHER_SENTENCE = re.compile(r"(?<!\.\.)[.?!]\)? |\{\} [A-Z][a-z]|\n")


#: What lists of problems are called.
LISTS = ("problems", "mistakes")


def message(node: ast.expr) -> str | None:
    """The text of a message, its values as {}; None if none of it is written down there."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = [message(node.left), message(node.right)]
        return None if sides == [None, None] else "".join("{}" if side is None else side for side in sides)
    return None


def messages(path: str) -> Iterator[ast.expr]:
    """The messages of a file: those that are raised, and those of lists of problems, which are raised together."""
    for node in ast.walk(syntax_tree(path)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            yield node.exc.args[0]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {f"{name}.append" for name in LISTS}:
            yield node.args[0]
        elif isinstance(node, ast.AugAssign) and ast.unparse(node.target) in LISTS and isinstance(node.value, ast.List):
            yield from node.value.elts
        elif (
            isinstance(node, ast.AugAssign)
            and ast.unparse(node.target) in LISTS
            and isinstance(node.value, ast.ListComp)
        ):
            yield node.value.elt


def test_messages_end_alike() -> None:
    """One sentence ends without a full stop, as Ansible's own: another part may go on with it. Several end with one."""
    offenders = []
    for path in files():
        if not (path.startswith(("plugins/", "python/")) and path.endswith(".py")):
            continue
        for node in messages(path):
            text = message(node)
            if not text or text.endswith(("{}", "...", "...)")):
                continue
            several = bool(ANOTHER_SENTENCE.search(text))
            if several != bool(re.search(r"[.?!]\)?$", text)):
                rule = "several sentences end with a full stop" if several else "one sentence ends without a full stop"
                offenders.append(f"{path}:{node.lineno}: {rule}: {text[-60:]!r}")
    assert not offenders, bullet_list(offenders)
