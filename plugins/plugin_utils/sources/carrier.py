# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The call of a module of this collection, as it goes to the Python of a host. Nothing here imports Ansible.

The action of a playbook sends it through Ansible's connection, and the command `rankzero` by itself. The host runs the
module from its copy of the code (module_utils/core/module_cache.py).
"""

from __future__ import annotations

import base64
import functools
import json
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core import module_cache
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# The controller's lab is no part of any module that runs through an action.
_FOLDERS = ("module_utils", "modules")
_LEFT_OUT = (os.path.join("module_utils", "lab"),)
_PLUGINS = "ansible_collections.rankzero.slurm.plugins"
# What Python executes: it reads the call, with the text of module_cache.py, from stdin.
_BOOT = (
    "import json,sys;c=json.load(sys.stdin);n={'__name__':'module_cache'};"
    "exec(compile(c.pop('loader'),'module_cache.py','exec'),n);sys.exit(n['run'](c))"
)

Spec = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Request:
    """What a module is asked. `module`: its short name; `options`: all its options, checked; `paths`: the names of
    those that the host expands.
    """

    module: str
    options: Mapping[str, Any]
    paths: Sequence[str]
    check_mode: bool = False


@dataclass(frozen=True)
class ShellAnswer:
    """What a command on the host has answered, as Ansible's actions run it."""

    rc: int = 0
    stdout: str = ""
    stderr: str = ""


def paths_in(options: Parameters, spec: Spec) -> list[str]:
    """The names of the options that are paths of the host, and are given."""
    paths = [name for name, option in spec.items() if "path" in (option.get("type"), option.get("elements"))]
    return [name for name in paths if options.get(name) is not None]


def carry(
    request: Request, python: str, send: Callable[[str, bytes], ShellAnswer], environment: str = ""
) -> ModuleResult | None:
    """The result of a module from the copy of its code; None if nothing has been done.

    `send`: runs a command for the host's shell with this input. `environment`: stands before the command.
    """
    key, loader = _code()[0], _loader()
    call = {
        "loader": loader,
        "key": key,
        "module": request.module,
        # Releases of Ansible complete options in different orders.
        "options": dict(sorted(request.options.items())),
        "paths": request.paths,
        "check_mode": request.check_mode,
    }
    command = f"{environment} {shlex.quote(python)} -I -S -c {shlex.quote(_BOOT)}".strip()
    try:
        text = json.dumps(call)
    except TypeError:
        return None
    answer = send(command, text.encode())
    if answer.rc == module_cache.MISSING and module_cache.STARTED not in answer.stdout:
        text = json.dumps({**call, "archive": base64.b64encode(module_cache.packed(_code()[1])).decode()})
        answer = send(command, text.encode())
    return result_of(answer)


def result_of(answer: ShellAnswer) -> ModuleResult | None:
    """The result in the output of a call; None if the module has not run."""
    lines = answer.stdout.splitlines()
    if module_cache.STARTED not in lines:
        return None
    for line in reversed(lines[lines.index(module_cache.STARTED) + 1 :]):
        if line.startswith("{"):
            try:
                result: ModuleResult = json.loads(line)
            except ValueError:
                break
            return result
    return {
        "failed": True,
        "msg": f"The module ended without a result (exit code {answer.rc}).",
        "module_stdout": answer.stdout,
        "module_stderr": answer.stderr,
        "rc": answer.rc,
    }


@functools.cache
def _loader() -> str:
    with open(module_cache.__file__, encoding="utf-8") as stream:
        return stream.read()


@functools.cache
def _code() -> tuple[str, dict[str, tuple[bool, str]]]:
    """The digest of the code that modules are made of, and the code."""
    sources: dict[str, tuple[bool, str]] = {}
    for top in _FOLDERS:
        for folder, names, files in os.walk(os.path.join(ROOT, top)):
            relative = os.path.relpath(folder, ROOT)
            names[:] = [name for name in names if os.path.join(relative, name) not in _LEFT_OUT]
            for file in files:
                if file.endswith(".py"):
                    with open(os.path.join(folder, file), encoding="utf-8") as stream:
                        text = stream.read()
                    parts = relative.split(os.sep) + ([] if file == "__init__.py" else [file[: -len(".py")]])
                    sources[".".join([_PLUGINS, *parts])] = (file == "__init__.py", text)
    return module_cache.digest(sources), sources
