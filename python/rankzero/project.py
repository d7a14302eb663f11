# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the files of a project say of its job: program, packages, launcher and result. Reads only, runs nothing."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

import tomllib

PYPROJECT, REQUIREMENTS = "pyproject.toml", "requirements.txt"
#: The usual names of programs that train, the first one there wins over other files.
PROGRAMS = ("train.py", "pretrain.py", "main.py", "run.py")
_MOST_BYTES = 1_000_000
_RESULT = re.compile(r"""["'](\w*(?:result|metrics|summary)\w*\.json)["']""")
_TORCH = re.compile(r"^\s*(?:import|from)\s+torch\b", re.MULTILINE)


@dataclass(frozen=True)
class Project:
    """`packages`: the file that lists them, empty without one. `torch`: whether it uses torch. `result`: the file that
    the program names as its result; empty if it names none. `notes`: what the user must look at.
    """

    program: str
    packages: str
    torch: bool
    result: str
    notes: tuple[str, ...]


def project_of(folder: str) -> Project:
    """Read a project. A file that cannot be read says nothing."""
    names = sorted(name for name in _names(folder) if name.endswith(".py") and not name.startswith(("test_", "setup.")))
    known = [name for name in PROGRAMS if name in names]
    program = (known or (names if len(names) == 1 else []) or [PROGRAMS[0]])[0]
    text = _text(os.path.join(folder, program))
    listed = {PYPROJECT: _dependencies(folder), REQUIREMENTS: _text(os.path.join(folder, REQUIREMENTS)).splitlines()}
    packages = next((file for file, lines in listed.items() if any(map(_name, lines))), "")
    torch = "torch" in map(_name, listed.get(packages, ())) or bool(_TORCH.search(text))
    result = _RESULT.search(text)
    notes = []
    if program not in names:
        notes.append(f"there is no {program} in {folder}: name your program in `command`")
    if torch and not packages:
        notes.append(
            f"{program} uses torch, and no {PYPROJECT} or {REQUIREMENTS} lists it: add one and `environment`, or name "
            "an environment of the site (mode: path) or a container"
        )
    if not result:
        notes.append("no artifact proves a result yet: let the program write one, and name it in `artifact`")
    return Project(program, packages, torch, result[1] if result else "", tuple(notes))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _dependencies(folder: str) -> list[str]:
    try:
        project = tomllib.loads(_text(os.path.join(folder, PYPROJECT))).get("project")
    except tomllib.TOMLDecodeError:
        return []
    lines = project.get("dependencies") if isinstance(project, dict) else None
    return [line for line in lines if isinstance(line, str)] if isinstance(lines, list) else []


def _name(line: str) -> str:
    """The package that a line of requirements names; empty for a comment or an option."""
    match = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", line)
    return match[1].lower() if match else ""


def _text(path: str) -> str:
    try:
        if not os.path.isfile(path) or os.path.islink(path) or os.path.getsize(path) > _MOST_BYTES:
            return ""
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(_MOST_BYTES)
    except OSError:
        return ""
