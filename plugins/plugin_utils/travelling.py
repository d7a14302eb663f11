# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of this collection that travel as text with a command: nothing that lies on the cluster is executed."""

from __future__ import annotations

import base64
import functools
import json
import os
import zlib
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LIBRARY = "ansible_collections.rankzero.slurm.plugins.module_utils"
# In the order in which they import each other.
GLANCE = (
    f"{_LIBRARY}.errors",
    f"{_LIBRARY}.staging.owned",
    f"{_LIBRARY}.staging.beneath",
    f"{_LIBRARY}.slurm.state",
    f"{_LIBRARY}.slurm.glance",
)
# What judges an artifact in a job.
CHECKER = ("formats", "outcome")

# Each module under its own name; the last one is the program.
_LOADER = """import base64, json, sys, types, zlib
modules = json.loads(zlib.decompress(base64.b64decode("SOURCES")))
for name, text in modules:
    module = sys.modules[name] = types.ModuleType(name)
    module.__file__ = "/nonexistent/" + name + ".py"
    if name == modules[-1][0]:
        module.__name__ = "__main__"
    exec(compile(text, module.__file__, "exec"), module.__dict__)
"""


def glance(*, judges: bool) -> str:
    """The program of module_utils/slurm/glance.py, for Python's standard input. `judges`: with the checker."""
    return _program((*(CHECKER if judges else ()), *GLANCE))


def interpreter(action: Any, task_vars: dict[str, Any]) -> str:
    """The Python of the modules on the host that an action works on."""
    chosen = str(action._templar.template(task_vars.get("ansible_python_interpreter", "auto")))
    if not chosen.startswith("auto"):
        return chosen
    known = task_vars.get("ansible_facts", {}).get("discovered_interpreter_python", "python3")
    return str(action._discovered_interpreter or known)


@functools.cache
def _program(names: tuple[str, ...]) -> str:
    sources = []
    for name in names:
        path = name.removeprefix("ansible_collections.rankzero.slurm.plugins.").replace(".", os.sep) + ".py"
        with open(os.path.join(ROOT, path if os.sep in path else f"runtime/{path}"), encoding="utf-8") as stream:
            sources.append((name, stream.read()))
    packed = base64.b64encode(zlib.compress(json.dumps(sources).encode(), 9)).decode()
    return _LOADER.replace("SOURCES", packed)
