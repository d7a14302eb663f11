# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of this collection that are sent as text with a command, so that no file of the cluster is executed."""

from __future__ import annotations

import ast
import base64
import functools
import json
import os
import zlib
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import TaskVariables

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_PLUGINS = "ansible_collections.rankzero.slurm.plugins."
_GLANCE = f"{_PLUGINS}module_utils.watch.glance"
_RUNTIME = f"{_PLUGINS}runtime."
# The modules that check an artifact in a job.
_CHECKER = tuple(
    f"{_RUNTIME}{name}"
    for name in ("core.log", "core.files", "artifact.formats", "artifact.together", "artifact.outcome")
)

# Each module keeps its own name, in packages that contain nothing else. Modules of the runtime import each other by
# room (artifact.formats). The last module is the program.
_LOADER = """import base64, json, sys, types, zlib
modules = json.loads(zlib.decompress(base64.b64decode("SOURCES")))
for name, text in modules:
    parts = name.split(".")
    for number in range(1, len(parts)):
        package = sys.modules.setdefault(".".join(parts[:number]), types.ModuleType(".".join(parts[:number])))
        package.__path__ = []
    module = sys.modules[name] = types.ModuleType(name)
    setattr(package, parts[-1], module)
    module.__file__ = "/nonexistent/" + name + ".py"
    module.__name__ = "__main__" if name == modules[-1][0] else name
    exec(compile(text, module.__file__, "exec"), module.__dict__)
"""


def glance(*, judges: bool) -> str:
    """The program of module_utils/watch/glance.py, to be sent on stdin. `judges`: include the artifact checker."""
    return _program((*(_CHECKER if judges else ()), _GLANCE))


def interpreter(action: Any, task_vars: TaskVariables) -> str:
    """The Python interpreter that modules use on the host of an action."""
    chosen = str(action._templar.template(task_vars.get("ansible_python_interpreter", "auto")))
    if not chosen.startswith("auto"):
        return chosen
    known = task_vars.get("ansible_facts", {}).get("discovered_interpreter_python", "python3")
    return str(action._discovered_interpreter or known)


@functools.cache
def _program(names: tuple[str, ...]) -> str:
    sources: dict[str, str] = {}
    for name in names:
        _gather(name, sources)
    modules = [(name.removeprefix(_RUNTIME), text) for name, text in sources.items()]
    packed = base64.b64encode(zlib.compress(json.dumps(modules).encode(), 9)).decode()
    return _LOADER.replace("SOURCES", packed)


def _gather(name: str, sources: dict[str, str]) -> None:
    """Add a module's source, after the sources of the collection's modules that it imports."""
    path = _path(name)
    if name in sources or not os.path.isfile(path):
        return
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_PLUGINS):
            for wanted in (str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)):
                _gather(wanted, sources)
    sources[name] = text


def _path(name: str) -> str:
    return os.path.join(ROOT, *name.removeprefix(_PLUGINS).split(".")) + ".py"
