# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The uv of a store: this host's own, or one that was downloaded into the store once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.core import children
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import is_own_below
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import child_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.pythons import Python
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv import pip_settings, uv
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.wheels import WheelFile
from ansible_collections.rankzero.slurm.plugins.module_utils.store.archive import said_of, unzip
from ansible_collections.rankzero.slurm.plugins.module_utils.store.atomic import fresh_folder, publish


def find_uv(store_root: str, given: str | None, hint: str | None, settings: Mapping[str, str]) -> uv.Uv | None:
    """The uv at the path `given`; else one of this host, the one at the path `hint`, or the store's own."""
    tools = os.path.join(store_root, "tools")
    kept = sorted(os.listdir(tools), reverse=True) if os.path.isdir(tools) else []
    ours = [os.path.join(tools, name, "uv") for name in kept if name.startswith("uv-")]
    ours = [path for path in ours if is_own_below(store_root, path)]
    if given:
        return uv.uv_at(given, settings)
    return uv.find([*uv.usual_places(settings), *([hint] if hint else []), *ours], settings)


def bootstrap_uv(store_root: str, python: Python, environ: Mapping[str, str]) -> uv.Uv:
    """Download uv with pip, once per store. Raises Unreachable if that fails: the controller may be able to."""
    with fresh_folder(os.path.join(store_root, "tools", "uv")) as work:
        house = os.path.join(work, "environment")
        commands = [
            [python.path, "-I", "-m", "venv", house],
            [f"{house}/bin/python", "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "uv"],
        ]
        for command in commands:
            # Isolated, because the folder of the caller may have a module of any name.
            done = children.run(command, child_environment(environ, "PIP_"), cwd=work)
            if done.returncode != 0:
                output = pip_settings.redact((done.stderr or done.stdout).strip())[-400:]
                raise uv.Unreachable(
                    "uv: this host has none, and it could not be downloaded with pip. Install uv there (or name one "
                    f"with the option uv), or python3-venv and a package source for pip:\n{output}"
                )
        settings = pip_settings.uv_environment(pip_settings.read_pip_settings(environ), environ)
        fetched = uv.uv_at(f"{house}/bin/uv", settings)
        return _keep_uv(store_root, fetched.path, fetched.version, settings)


def uv_from_wheel(store_root: str, path: str, wheel: WheelFile, settings: Mapping[str, str]) -> uv.Uv:
    """Extract uv from its wheel and keep it in the store: it is one file without dependencies."""
    version = wheel.version
    with fresh_folder(os.path.join(store_root, "tools", "uv")) as work:
        return _keep_uv(store_root, program_of(path, version, work), version, settings)


def program_of(wheel: str, version: str, folder: str) -> str:
    """Extract uv from its wheel into an empty folder; returns its path. Raises RankzeroError."""
    member = f"uv-{version}.data/scripts/uv"
    with said_of(f"uv: the wheel {wheel}", "Remove it, and run again."):
        unzip(wheel, folder, only=member)
    return os.path.join(folder, member)


def _keep_uv(store_root: str, program: str, version: str, settings: Mapping[str, str]) -> uv.Uv:
    target = os.path.join(store_root, "tools", f"uv-{version}")
    with fresh_folder(target) as folder:
        shutil.copyfile(program, os.path.join(folder, "uv"))
        os.chmod(os.path.join(folder, "uv"), 0o755)
        publish(folder, target)
    return uv.uv_at(os.path.join(target, "uv"), settings)
