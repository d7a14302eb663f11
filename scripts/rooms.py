# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of contributing/architecture.md: rooms from contributing/rooms.yml, imports from the code."""

from __future__ import annotations

import ast
import functools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PLUGINS = "ansible_collections.rankzero.slurm.plugins."
FOLDERS = {
    "module_utils": "on the cluster and on the controller",
    "plugin_utils": "on the controller only",
    "runtime": "in the job",
}
PAGE = "contributing/architecture.md"


@dataclass(frozen=True)
class Room:
    """A folder of one of FOLDERS, and the other rooms of it that its files import."""

    name: str
    does: str
    imports: frozenset[str]


@functools.cache
def rooms(folder: str) -> tuple[Room, ...]:
    """The rooms of a folder, each after all rooms that it imports."""
    with open(os.path.join(ROOT, "contributing", "rooms.yml"), encoding="utf-8") as stream:
        listed = [room for room in yaml.safe_load(stream) if room.get("of", "module_utils") == folder]
    left = [Room(room["room"], room["does"], frozenset(_imports(folder, room["room"]))) for room in listed]
    ordered: list[Room] = []
    while left:
        placed = {room.name for room in ordered}
        # Rooms that import each other would never be placed; test_imports.py forbids them.
        following = next((room for room in left if room.imports <= placed), left[0])
        ordered.append(following)
        left.remove(following)
    return tuple(ordered)


@functools.cache
def _declared(folder: str) -> frozenset[str]:
    with open(os.path.join(ROOT, "contributing", "rooms.yml"), encoding="utf-8") as stream:
        return frozenset(row["room"] for row in yaml.safe_load(stream) if row.get("of", "module_utils") == folder)


def _imports(folder: str, room: str) -> Iterator[str]:
    top = os.path.join(ROOT, "plugins", folder, room)
    for place, _folders, names in os.walk(top):
        for name in names:
            if name.endswith(".py"):
                with open(os.path.join(place, name), encoding="utf-8") as stream:
                    imports = _names(ast.parse(stream.read()))
                # The rooms of the runtime import each other by their own names.
                prefix = "" if folder == "runtime" else f"{PLUGINS}{folder}."
                used = {dotted[len(prefix) :].split(".")[0] for dotted in imports if dotted.startswith(prefix)}
                yield from used & _declared(folder) - {room}


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def table(folder: str) -> list[str]:
    """The rooms as a Markdown table."""
    return ["| room | what it does |", "| --- | --- |", *(f"| `{room.name}` | {room.does} |" for room in rooms(folder))]


def matrix(folder: str) -> list[str]:
    """Who imports whom: one row a room, one column a room under the row's number."""
    listed = rooms(folder)
    width = max(len(room.name) for room in listed)
    lines = [" " * (width + 4) + "".join(f"{number:>3}" for number in range(1, len(listed) + 1))]
    for number, room in enumerate(listed, 1):
        marks = ["  x" if other.name in room.imports else "  ." for other in listed[: number - 1]]
        lines.append(f"{number:>2}  {room.name:<{width}}{''.join(marks)}  -")
    return lines


def architecture() -> str:
    """contributing/architecture.md with its generated parts written anew."""
    with open(os.path.join(ROOT, PAGE), encoding="utf-8") as stream:
        text = stream.read()
    for folder in FOLDERS:
        text = _filled(text, f"rooms of {folder}", table(folder))
        text = _filled(text, f"imports of {folder}", ["```text", *matrix(folder), "```"])
    return text


def _filled(text: str, name: str, lines: list[str]) -> str:
    start, end = f"<!-- {name}: written by make reference -->", f"<!-- end of {name} -->"
    if text.count(start) != 1 or text.count(end) != 1:
        raise SystemExit(f"{PAGE}: `{start}` and `{end}` must stand in it once each")
    body = "\n".join([start, "", *lines, "", end])
    return re.sub(re.escape(start) + ".*?" + re.escape(end), lambda _match: body, text, flags=re.DOTALL)
