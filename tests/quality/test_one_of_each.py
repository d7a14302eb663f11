# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What many files need is written once, in core: SHA-256 of a file, a file replaced, a duration, a size.

The programs in the job are a world of their own (plugins/runtime) and are not looked at.
"""

from __future__ import annotations

import ast
import functools
import re

from tests.repository import bullet_list, files, read, syntax_tree

PLACES = ("plugins/module_utils/", "plugins/plugin_utils/", "plugins/action/", "plugins/modules/", "python/")
CONTENT, TEXT = "plugins/module_utils/core/content.py", "plugins/module_utils/core/text.py"
#: Function -> why it reads blocks and digests them itself.
DIGESTS = {"core/extraction.py file": "it also counts down what an archive promised"}
#: Function -> why it writes a file and renames it itself.
REPLACES = {
    "core/module_cache.py write": "in an open folder, whose name nobody else can lead elsewhere",
    "lab/boot.py write_file": "it also changes the owner",
    "lab/roots.py _build": "what it renames is a folder",
    "store/publish.py publish_files": "what it renames is a folder",
    "store/uses.py register": "its permissions follow the folder's, and an existing file is kept",
}
#: Function -> why it has units of its own.
UNITS = {
    "fabric/words.py shown_speed": "the units of nccl-tests",
    "prune/plan.py _days": "ages, in words",
}


@functools.cache
def functions() -> tuple[tuple[str, ast.FunctionDef, str], ...]:
    """(`room/file.py name`, the function, its text) of all functions outside core's own two files."""
    functions = []
    for place in PLACES:
        for path in files(place, ".py"):
            if path in (CONTENT, TEXT):
                continue
            lines, name = read(path).splitlines(), "/".join(path.split("/")[2:])
            for node in ast.walk(syntax_tree(path)):
                if isinstance(node, ast.FunctionDef):
                    text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
                    functions.append((f"{name} {node.name}", node, text))
    return tuple(functions)


def called(node: ast.AST) -> set[str]:
    """The names of what is called below a node, as they are written."""
    return {ast.unparse(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)}


def offenders(found: set[str], allowed: dict[str, str]) -> list[str]:
    """What is not allowed, and what is allowed for nothing."""
    return sorted([*(found - set(allowed)), *(f"{name}: not needed" for name in set(allowed) - found)])


def test_the_sha256_of_content_is_computed_in_core() -> None:
    """A loop over blocks that a stream gives, each of which a digest takes."""
    found = set()
    for name, node, _text in functions():
        for loop in (each for each in ast.walk(node) if isinstance(each, (ast.For, ast.While))):
            reads = any(call.rpartition(".")[2] in ("read", "iter") for call in called(loop))
            if reads and any(call.endswith(".update") for call in called(loop)) and "sha256" in ast.unparse(node):
                found.add(name)
    assert not offenders(found, DIGESTS), bullet_list(offenders(found, DIGESTS))


def test_a_file_is_replaced_in_core() -> None:
    """A function that writes text or bytes to a new file and renames it."""
    found = set()
    for name, node, text in functions():
        names = called(node)
        writes = re.search(r"\bopen\([^\n]*\"[wx]b?\"", text) or "state_files.create" in names or "_new_file" in names
        if writes and names & {"os.replace", "os.rename"}:
            found.add(name)
    assert not offenders(found, REPLACES), bullet_list(offenders(found, REPLACES))


def test_durations_and_sizes_are_formatted_in_core() -> None:
    """Text with a unit after a number that was just divided or cut into parts."""
    unit = re.compile(
        r"\{[^{}]*(?:/ 1e[369]|// 3600|/ 3600|// 60|size[^{}]*:\.\df)[^{}]*\} ?(?:s|min|h|hours|kB|MB|GB|TB)\b"
    )
    found = {name for name, _node, text in functions() if unit.search(text)}
    assert not offenders(found, UNITS), bullet_list(offenders(found, UNITS))
