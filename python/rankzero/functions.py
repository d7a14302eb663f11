# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Python function as a launch: the code is the folder of its file, the proof is what it returns.

Nothing is pickled. The job imports the function by its name, the arguments and the value travel as JSON. So what runs
can be read in the job's command, and the same call again is the same launch.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rankzero.api import Launch, Listener, run
from rankzero.errors import UsageError

FILE, VALUE = "returned.json", "returned"
#: What each rank runs, in the folder of the code. Of several ranks the first one's value counts.
PROGRAM = f"""\
import importlib, json, os, sys
module, name, given = sys.argv[1:]
sys.path.insert(0, os.getcwd())
function = importlib.import_module(module)
for part in name.split("."):
    function = getattr(function, part)
given = json.loads(given)
value = function(*given["args"], **given["kwargs"])
if os.environ.get("RANK", "0") == "0":
    with open("{FILE}.part", "w") as stream:
        json.dump({{"{VALUE}": value}}, stream, allow_nan=False)
    os.replace("{FILE}.part", "{FILE}")
"""


class Call(Launch):
    """The launch of a function. `returned` is its value."""

    def returned(self, timeout: int = 0) -> Any:
        """Wait for its end, and return its value. Raises LaunchFailed, or Unfinished after `timeout` seconds."""
        if not self.ended:
            self.wait(timeout)
        if VALUE in self.result:
            return self.result[VALUE]
        # Only numbers and short texts come with the status.
        with tempfile.TemporaryDirectory(prefix="rankzero-") as folder:
            (path,) = self.pull(FILE, dest=folder)
            return json.loads(path.read_text(encoding="utf-8"))[VALUE]


def submit(
    function: Callable[..., Any],
    *args: Any,
    job: str | Path | Mapping[str, Any] | None = None,
    nodes: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    rerun: bool = False,
    cluster: str | None = None,
    inventory: str | None = None,
    listener: Listener | None = None,
    **kwargs: Any,
) -> Call:
    """Run `function(*args, **kwargs)` on the cluster exactly once. Returns when the job is queued.

    `function`: at the top of a file, which the job imports; so what starts the file's own work must stand below
    `if __name__ == "__main__":`. `job`: what the rest of the job is, such as {"resources": {"time": "00:10:00"}}, or a
    job file; command, artifact and code are those of the function. Arguments and value are JSON. The other parameters
    are those of `run`.
    """
    root, module = _place(function)
    try:
        given = json.dumps({"args": args, "kwargs": kwargs}, allow_nan=False, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{function.__name__}: its arguments must be JSON, as numbers, texts and lists: {error}"
        ) from None
    spec: str | dict[str, Any]
    if job is None or isinstance(job, Mapping):
        taken = sorted({"command", "shell", "script", "roles"} & {*(job or {})})
        if taken:
            raise UsageError(f"job: {', '.join(taken)}: the function is the program; leave that out")
        name = re.sub(r"[^A-Za-z0-9.]+", "-", function.__name__).strip("-.")[:64]
        spec = {"name": name or "function", **(job or {})}
    else:
        spec = str(job)
    own = {
        "command": ["python3", "-c", PROGRAM, module, function.__qualname__, given],
        "code.src": root,
        "artifact": {"path": FILE, "format": "json"},
    }
    launched = run(
        spec,
        nodes=nodes,
        overrides={**own, **(overrides or {})},
        rerun=rerun,
        cluster=cluster,
        inventory=inventory,
        listener=listener,
    )
    return Call(launched.known, launched.options)


def _place(function: Callable[..., Any]) -> tuple[str, str]:
    """(the folder from which the function can be imported, its module). Raises UsageError."""
    name = getattr(function, "__qualname__", "")
    if not inspect.isfunction(function) or "<" in name:
        raise UsageError(f"{name or function!r}: must be a function at the top of a file, which a job can import")
    module = sys.modules.get(function.__module__)
    file = getattr(module, "__file__", None)
    if module is None or not file or not file.endswith(".py"):
        raise UsageError(f"{name}: is in no file that a job can import, as in a notebook; write it to a file NAME.py")
    folder, stem = os.path.split(os.path.abspath(file))
    parts = [stem.removesuffix(".py")] if function.__module__ == "__main__" else function.__module__.split(".")
    packages = parts if stem == "__init__.py" else parts[:-1]
    for _package in packages:
        folder = os.path.dirname(folder)
    return folder, ".".join(parts)
