# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of builds share: a small project, and how one asks for its environment."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.build import Request, build
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.ensure import ensure_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import recipe

PYPROJECT = '[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["alpha"]\n'


def ensure(store: str, check_mode: bool = False, uv_lock: str | None = None, **changes: Any) -> dict[str, Any]:
    options = {
        "store_root": store, "extras": [], "python": None, "torch": "auto", "download": "auto", "uv": None,
        "state": "present", **changes,
    }  # fmt: skip
    return ensure_environment(options, {"pyproject": PYPROJECT, "uv_lock": uv_lock}, check_mode=check_mode)


def built(store: str, **changes: Any) -> dict[str, Any]:
    result = build(Request(recipe(changes.pop("pyproject", PYPROJECT)), store, **changes))
    assert isinstance(result, dict)
    return result


def leftovers(store: str) -> list[str]:
    return [name for _folder, folders, files in os.walk(store) for name in folders + files if name.endswith(".tmp")]


def value(path: str) -> str:
    command = [f"{path}/bin/python", "-c", "import alpha; print(alpha.VALUE)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@contextlib.contextmanager
def no_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """While inside, whoever starts a process fails the test: an environment that is there needs none."""

    def started(*_arguments: object, **_options: object) -> None:
        raise AssertionError("an environment that is there needs no process")

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "run", started)
        patch.setattr(subprocess, "Popen", started)
        yield


def until_it_publishes(module: str, sign: Path, work: Callable[[], object]) -> multiprocessing.Process:
    """A process, to be started, that does the work until it would call `publish` of this module: it makes a file as the
    sign of that, and waits to be killed.
    """
    return multiprocessing.Process(target=_stopped, args=(module, sign, work))


def _stopped(module: str, sign: Path, work: Callable[[], object]) -> None:
    def stop(_folder: str, _path: str) -> None:
        sign.touch()
        signal.pause()

    vars(importlib.import_module(module))["publish"] = stop
    work()
