# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An environment with torch for CPUs that the lab's ordinary user can use: the one that was given, or one made here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import profile
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.pythons import inspect_python
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv import pip_settings
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.wheels import torch_wheel

#: Not the first python3 of PATH: under root's home, as pyenv has it, no other user can start it.
PYTHON = "/usr/bin/python3"


def environment_of(given: str, default: Path) -> Path:
    """The environment `given`, or the one at `default`, made if it is missing. Exits where the lab's user cannot."""
    place = Path(given).absolute() if given else default
    if not given and refusal(place):
        _make(place)
    why = refusal(place)
    if why:
        raise SystemExit(
            f"--environment: user {profile.UID} of the lab cannot import torch with {place}/bin/python ({why}); give "
            f"one whose folders and interpreter every user can read ({PYTHON} -m venv, with torch and numpy), or none "
            "to have it made"
        )
    return place


def refusal(environment: Path, user: int = profile.UID) -> str:
    """Why a user cannot use this environment; "" if he can."""
    command = [str(environment / "bin" / "python"), "-c", "import numpy, torch"]
    try:
        done = subprocess.run(
            command,
            cwd="/",
            env={},
            text=True,
            capture_output=True,
            check=False,
            user=user,
            group=user,
            extra_groups=(),
        )
    except OSError as error:
        return f"{error.strerror}: {_unreadable(environment, error)}"
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1] if done.returncode else ""


def _unreadable(environment: Path, error: OSError) -> str:
    """The first folder on the way to the interpreter that others may not enter."""
    program = Path(os.path.realpath(environment / "bin" / "python"))
    ways = [*reversed(environment.parents), environment, *reversed(program.parents)]
    return str(next((path for path in ways if path.exists() and not path.stat().st_mode & 0o001), error.filename))


def _make(place: Path) -> None:
    pip = pip_settings.read_pip_settings(os.environ)
    settings = pip_settings.uv_environment(pip, os.environ)
    _run(["uv", "venv", "--clear", "--python", PYTHON, str(place)], settings)
    install = ["uv", "pip", "install", "--python", str(place / "bin" / "python"), *pip_settings.uv_options(pip)]
    _run([*install, *_torch(pip), "numpy"], settings)


def _torch(pip: pip_settings.PipSettings) -> Sequence[str]:
    """A wheel for CPUs from pip's find-links: who has a mirror of packages may not reach the index of PyTorch."""
    python = inspect_python(PYTHON)
    target = python.target() if python else None
    for folder in pip.directories() if target else ():
        wheel = torch_wheel(os.listdir(folder), "cpu", target)
        if wheel:
            return [os.path.join(folder, wheel.filename)]
    return ["--torch-backend", "cpu", "torch"]


def _run(command: Sequence[str], settings: dict[str, str]) -> None:
    # What root makes is for another user.
    subprocess.run(command, check=True, env=settings, umask=0o022)
