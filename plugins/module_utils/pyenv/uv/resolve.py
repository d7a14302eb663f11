# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve a recipe to a lock with uv for a platform, and select the source of torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import replace_file
from ansible_collections.rankzero.slurm.plugins.module_utils.core.whole_files import (
    MOST_LIST_BYTES,
    content_of,
    text_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv import wheels
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import Recipe
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv import pip_settings, uv
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.uv.lock import further, only_hashed


@dataclass(frozen=True)
class Platform:
    """The platform to resolve for: an interpreter of this host, uv's options, and the target of the wheels."""

    interpreter: str
    options: tuple[str, ...]
    target: wheels.Target | None


def resolve(
    tool: uv.Uv,
    recipe: Recipe,
    pip: pip_settings.PipSettings,
    work: str,
    lock: str,
    platform: Platform,
) -> None:
    """Write the lock file for a recipe whose files are in `work`. Raises UvError."""
    extras = [word for extra in recipe.extras for word in ("--extra", extra)]
    if recipe.lock is not None:
        # The lock decides, so this setting changes nothing. uv refuses the two together.
        kept = {name: value for name, value in tool.environment.items() if name != "UV_NO_SOURCES"}
        replace(tool, environment=kept).run(
            ["export", "--quiet", "--frozen", "--no-emit-project", "--no-dev", "--no-editable", "-o", lock]
            + ["--format", "pylock.toml", "--python", platform.interpreter, *extras],
            work,
            "reading uv.lock",
        )
        return
    command = ["pip", "compile", "--quiet", "pyproject.toml", "--format", "pylock.toml", "-o", lock, "--no-annotate"]
    command += ["--no-header", "--python", platform.interpreter, *platform.options, *extras]
    command += pip_settings.uv_options(pip)
    constraints, hashes, folders = further(recipe.pyproject)
    if constraints:
        command += ["-c", _written(work, "constraints.txt", constraints)]
    if folders:
        # As pip reads them: what their [tool.uv.sources] name was not sent.
        command = [*command[:4], _written(work, "folders.txt", folders), *command[4:], "--no-sources"]
    _compile(tool, recipe, work, command, local_torch(recipe, pip, platform.target))
    if hashes:
        _written(work, os.path.basename(lock), [only_hashed(text_of(lock, MOST_LIST_BYTES), hashes)])


def _compile(tool: uv.Uv, recipe: Recipe, work: str, command: Sequence[str], chosen: wheels.Wheel | None) -> None:
    """Resolve with the chosen torch of a directory, or with the build that the recipe names. Raises UvError."""
    backend = [] if recipe.torch == "auto" else ["--torch-backend", recipe.torch]
    if chosen is None:
        tool.run([*command, *backend], work, "resolving the packages")
        return
    try:
        pinned = _written(work, "torch.txt", [f"torch=={chosen.version}"])
        tool.run([*command, "-c", pinned], work, f"resolving the packages with {chosen.filename}")
    except uv.Unsolvable:
        # The project requires another version of torch than the one in the directory.
        tool.run([*command, *backend], work, "resolving the packages")


def _written(work: str, name: str, lines: Sequence[str]) -> str:
    path = os.path.join(work, name)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write("\n".join(lines) + "\n")
    return path


def local_torch(recipe: Recipe, pip: pip_settings.PipSettings, target: wheels.Target | None) -> wheels.Wheel | None:
    """The torch wheel from a directory in pip's settings; None if none fits."""
    if target is None:
        return None
    for folder in pip.directories():
        try:
            wheel = wheels.torch_wheel(os.listdir(folder), recipe.torch, target)
        except OSError:
            continue
        if wheel:
            return wheel
    return None


def keep_lock(path: str, lock: str) -> None:
    """Copy a finished lock into the store, by rename. Raises OSError."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    replace_file(path, content_of(lock, MOST_LIST_BYTES))
