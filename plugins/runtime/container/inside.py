# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the job's Python finds in its container: versions, and packages of the code that the image has.

    inside.py CODE [IMPORT ...]       prints one JSON object {columns, problems, absent, prefix} as its last line

An import `?NAME:LAUNCHER` is only looked for.

Standard library only; any Python from 3.6 on that an image may have.
"""

import importlib.util
import json
import os
import platform
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


def packages(folder: str) -> "list[str]":
    """Names that the code offers for import at its top."""
    try:
        entries = sorted(os.listdir(folder))
    except OSError:
        return []
    return [name for name in entries if os.path.isfile(os.path.join(folder, name, "__init__.py"))]


def shadowed(code: str) -> "list[str]":
    """A sentence for each package of the code that would come from elsewhere: an editable install in the image."""
    lines = []
    for folder in (code, os.path.join(code, "src")):
        for name in packages(folder):
            try:
                spec = importlib.util.find_spec(name)
            except (ImportError, ValueError):
                continue
            origin = os.path.realpath(spec.origin) if spec and spec.origin else ""
            if origin and not origin.startswith(os.path.realpath(code) + os.sep):
                lines.append(
                    f"the package {name} comes from {origin}, not from the job's code: uninstall it in the image, or "
                    "set env.PYTHONPATH"
                )
    return lines


def import_check() -> "ModuleType":
    """The module node/imports.py of this runtime, under a name that no package has."""
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "node", "imports.py")
    spec = importlib.util.spec_from_file_location("rankzero_imports", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    code, imports = sys.argv[1], sys.argv[2:]
    # Its own folder is no place of the job's.
    sys.path.pop(0)
    # A job that sets PYTHONPATH itself has decided what comes first.
    looked_at = code and code in os.environ.get("PYTHONPATH", "").split(os.pathsep)
    columns, problems = {"python": platform.python_version()}, shadowed(code) if looked_at else []
    absent, checked = [], import_check()
    for name in imports:
        if name.startswith("?"):
            absent += [name] if checked.absent(name) else []
            continue
        try:
            columns[name.partition("@")[0]] = checked.version(name)
        except Exception as error:  # whatever a package does when it is imported
            problems.append(f"cannot import {name.partition('@')[0]}: {error}")
    print(json.dumps({"columns": columns, "problems": problems, "absent": absent, "prefix": sys.prefix}))


if __name__ == "__main__":
    main()
