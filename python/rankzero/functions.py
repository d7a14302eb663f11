# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Python functions as launches: the code is the folder of the function's file, the proof is what it returns.

Nothing is pickled. The job imports the function by its name, the arguments and the value travel as JSON. So what runs
can be read in the job's command, and the same call again is the same launch.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from rankzero.api import FILE, VALUE, Launch, Listener, run
from rankzero.errors import UsageError
from rankzero.many import Launches, sweep

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
) -> Launch:
    """Run `function(*args, **kwargs)` on the cluster exactly once. Returns when the job is queued.

    `function`: at the top of a file, which the job imports; so what starts the file's own work must stand below
    `if __name__ == "__main__":`. `job`: what the rest of the job is, such as {"resources": {"time": "00:10:00"}}, or a
    job file; command, artifact and code are those of the function. Arguments and value are JSON. The other parameters
    are those of `run`.
    """
    own = _own(function, _given(function, args, kwargs))
    return run(
        spec_of(function.__name__, job),
        nodes=nodes,
        overrides={**own, **(overrides or {})},
        rerun=rerun,
        cluster=cluster,
        inventory=inventory,
        listener=listener,
    )


def submit_each(
    function: Callable[..., Any],
    *values: Iterable[Any],
    job: str | Path | Mapping[str, Any] | None = None,
    nodes: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    rerun: bool = False,
    cluster: str | None = None,
    inventory: str | None = None,
    listener: Listener | None = None,
) -> Launches:
    """Run `function(a, b)` for each a and b of `values`, as `map` does, as one job array; each exactly once.

    The values of each parameter are as many. `job`: as for `submit`; its `sweep.parallel` is how many run at once. A
    call is the launch that `submit` makes of it. Equal calls are one launch. The other parameters are those of `run`.
    """
    calls = [_given(function, args, {}) for args in zip(*values, strict=True)]
    each = list(dict.fromkeys(calls))
    if not each:
        return Launches()
    launches = sweep(
        spec_of(function.__name__, job),
        {"call": each},
        nodes=nodes,
        overrides={**_own(function, "{call}"), **(overrides or {})},
        rerun=rerun,
        cluster=cluster,
        inventory=inventory,
        listener=listener,
    )
    by_call = dict(zip(each, launches, strict=True))
    return Launches(by_call[call] for call in calls)


def _given(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """The arguments of a call, as its program reads them. Raises UsageError."""
    try:
        return json.dumps({"args": args, "kwargs": kwargs}, allow_nan=False, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{function.__name__}: its arguments must be JSON, as numbers, texts and lists: {error}"
        ) from None


def spec_of(name: str, job: str | Path | Mapping[str, Any] | None) -> str | dict[str, Any]:
    """The rest of a job whose program is Python, by default with this name. Raises UsageError if it has a program."""
    if job is not None and not isinstance(job, Mapping):
        return str(job)
    taken = sorted({"command", "shell", "script", "roles"} & {*(job or {})})
    if taken:
        raise UsageError(f"job: {', '.join(taken)}: the function is the program; leave that out")
    name = re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")[:64]
    return {"name": name or "function", **(job or {})}


def _own(function: Callable[..., Any], given: str) -> dict[str, Any]:
    """What the function is of its job. Raises UsageError."""
    root, module = place_of(function)
    return {
        "command": ["python3", "-c", PROGRAM, module, function.__qualname__, given],
        "code.src": root,
        "artifact": {"path": FILE, "format": "json"},
    }


def place_of(function: Callable[..., Any]) -> tuple[str, str]:
    """(the folder from which the function can be imported, its module). Raises UsageError."""
    name = getattr(function, "__qualname__", "")
    if not inspect.isfunction(function) or "<" in name:
        raise UsageError(f"{name or function!r}: must be a function at the top of a file, which a job can import")
    module = sys.modules.get(function.__module__)
    file = getattr(module, "__file__", None)
    if module is None or not file or not file.endswith(".py"):
        raise UsageError(f"{name}: is in no file that a job can import, as in a notebook; write it to a file NAME.py")
    folder, stem = os.path.split(os.path.abspath(file))
    # `python -m PACKAGE.MODULE` keeps the name there.
    known = getattr(module.__spec__, "name", stem.removesuffix(".py"))
    parts = (known if function.__module__ == "__main__" else function.__module__).split(".")
    packages = parts if stem == "__init__.py" else parts[:-1]
    for _package in packages:
        folder = os.path.dirname(folder)
    return folder, ".".join(parts)
