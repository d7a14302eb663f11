# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The versions of Python and of some packages, as the job's own interpreter imports them: run as `python -c` with the
names as arguments, prints one JSON list [versions, whether there is torch, the absent names, sys.prefix]. A name
`?NAME:LAUNCHER` is only looked for; NAME@code and NAME@/FOLDER must come from there. Standard library only; any
Python from 3.6 on, which a job may have though its programs of the runtime have a newer one.
"""

import importlib
import importlib.util
import json
import os
import platform
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


def version(name: str) -> str:
    """Import a package; its version, or `ok`. Raises whatever the package raises."""
    name, _at, origin = name.partition("@")
    module = importlib.import_module(name)
    if origin:
        check_origin(module, os.environ.get("RANKZERO_CODE", "") if origin == "code" else origin)
    if name == "datasets":
        check_datasets(module)
    return str(getattr(module, "__version__", "ok"))


def check_origin(module: "Any", folder: str) -> None:
    """Raise ImportError if the module is another copy than that of a folder. Code that is not on this node yet is
    reported as such, and not here.
    """
    places = [getattr(module, "__file__", None) or "", *getattr(module, "__path__", [])]
    place = next((os.path.realpath(path) for path in places if path), "the interpreter itself")
    if os.path.isdir(folder) and not place.startswith(os.path.join(os.path.realpath(folder), "")):
        raise ImportError(
            f"{module.__name__} comes from {place}, not from {folder}: put the right folder first in env.PYTHONPATH, "
            "or remove the other copy"
        )


def check_datasets(datasets: "ModuleType") -> None:
    """Old releases of datasets can be imported with numpy 2, and fail when the first batch is read."""
    try:
        datasets.Dataset.from_dict({"column": [[0]]}).with_format("numpy")[0]
    except ValueError as error:
        numpy = importlib.import_module("numpy")
        reason = str(error).splitlines()[0]
        raise ImportError(
            f"datasets {datasets.__version__} cannot read with numpy {numpy.__version__} ({reason}); "
            "pin numpy<2, or take a newer datasets"
        ) from None


def absent(name: str) -> bool:
    """Whether the package of `?NAME:LAUNCHER` is not installed."""
    return importlib.util.find_spec(name[1:].partition(":")[0]) is None


def main() -> None:
    names = [name for name in sys.argv[1:] if not name.startswith("?")]
    if any(name.endswith("@code") for name in names):
        # As a program at the top of the code sees it.
        sys.path[0] = os.environ.get("RANKZERO_CODE", "")
    missing = [name for name in sys.argv[1:] if name.startswith("?") and absent(name)]
    versions = {"python": platform.python_version(), **{name.partition("@")[0]: version(name) for name in names}}
    print(json.dumps([versions, importlib.util.find_spec("torch") is not None, missing, sys.prefix]))


if __name__ == "__main__":
    main()
