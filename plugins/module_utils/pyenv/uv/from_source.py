# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of a lock that have no wheel for the target: git sources, folders, source archives. They are built once.

uv takes each from where the lock says, and compares it with its hash or commit. A build runs code of the package, as
the user, with the variables that every program of others gets (`core/process.py`). git reads no settings and
runs no hook.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import file_sha256
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import MOST_LIST_BYTES, text_of
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv import uv
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.lock import (
    LockedFile,
    LockedPackage,
    only,
    without_python,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.wheels import Target, best, parse

# git of uv: no settings of the user or the machine, no hook, no question, no transport that is a command.
_GIT: Mapping[str, str] = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "https:http:ssh:git:file",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "core.hooksPath",
    "GIT_CONFIG_VALUE_0": os.devnull,
}
# The start of 1980 (epoch seconds): the times in a wheel, which is a zip file. Two builds are then alike.
_EPOCH = {"SOURCE_DATE_EPOCH": "315532800"}


@dataclass(frozen=True)
class Workshop:
    """Where wheels are built: the folder of the lock and its trees, the interpreter, and the folder of the wheels."""

    work: str
    interpreter: str
    wheels: str


def builder(tool: uv.Uv, minor: str, work: str) -> str:
    """The interpreter of this host that builds for another one: of the minor version there, or else our own."""
    try:
        return tool.run(["python", "find", "--no-project", minor], work, "looking for a Python").strip()
    except uv.UvError:
        return sys.executable


def to_build(packages: Iterable[LockedPackage], target: Target) -> list[LockedPackage]:
    """The packages without a wheel that fits the target, but with a source."""
    return [
        package
        for package in packages
        if package.source != "wheels"
        and best(filter(None, (parse(file.filename) for file in package.wheels)), target) is None
    ]


def with_built(
    packages: Iterable[LockedPackage], lock: str, target: Target, tool: uv.Uv, shop: Workshop
) -> list[LockedPackage]:
    """The same packages, where those without a fitting wheel have the one that is built here. `lock`: a pylock.toml.

    Raises RankzeroError that names the packages that do not build.
    """
    given = list(packages)
    missing = to_build(given, target)
    if not missing:
        return given
    names = {package.name for package in missing}
    folder = os.path.join(shop.work, "built")
    own = os.path.join(shop.work, "pylock.built.toml")
    with open(own, "w", encoding="utf-8") as stream:
        stream.write(without_python(only(text_of(lock, MOST_LIST_BYTES), names)))
    # What is built lies in uv's cache as a wheel. A new cache has only these.
    replace(tool, environment={**tool.environment, **_GIT, **_EPOCH}).run(
        ["pip", "install", "--quiet", "--no-deps", "--python", shop.interpreter, "-r", own, "--link-mode", "copy"]
        + ["--target", os.path.join(folder, "installed"), "--cache-dir", os.path.join(folder, "cache")],
        shop.work,
        f"building {', '.join(sorted(names))} from source",
    )
    made = _wheels(os.path.join(folder, "cache"), names, shop.wheels)
    lost = sorted(names - set(made))
    if lost:
        raise RankzeroError(
            f"environment: uv {tool.version} built {', '.join(lost)} and kept no wheel. Use another uv."
        )
    return [replace(package, wheels=(made[package.name],)) if package.name in made else package for package in given]


def _wheels(cache: str, names: set[str], target: str) -> dict[str, LockedFile]:
    """Copy the wheels of these packages out of a cache of uv: name -> file."""
    os.makedirs(target, exist_ok=True)
    result = {}
    for folder, _folders, files in os.walk(cache):
        for filename in files:
            wheel = parse(filename)
            if wheel is not None and wheel.name in names:
                path = os.path.join(target, filename)
                shutil.copyfile(os.path.join(folder, filename), path)
                result[wheel.name] = LockedFile(path, file_sha256(path))
    return result
