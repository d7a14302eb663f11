# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The versions of Python and of some packages, as the job's own interpreter imports them: run as `python -c` with the
names as arguments, prints one JSON list [versions, whether there is torch, the absent names, sys.prefix]. A name
`?NAME:LAUNCHER` is only looked for. Standard library only; any Python 3.
"""

import importlib
import importlib.util
import json
import platform
import sys


def version(name):
    """Import a package; its version, or `ok`. Raises whatever the package raises."""
    module = importlib.import_module(name)
    if name == "datasets":
        check_datasets(module)
    return str(getattr(module, "__version__", "ok"))


def check_datasets(datasets):
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


def absent(name):
    """Whether the package of `?NAME:LAUNCHER` is not installed."""
    return importlib.util.find_spec(name[1:].partition(":")[0]) is None


def main():
    names = [name for name in sys.argv[1:] if not name.startswith("?")]
    missing = [name for name in sys.argv[1:] if name.startswith("?") and absent(name)]
    versions = {"python": platform.python_version(), **{name: version(name) for name in names}}
    print(json.dumps([versions, importlib.util.find_spec("torch") is not None, missing, sys.prefix]))


if __name__ == "__main__":
    main()
