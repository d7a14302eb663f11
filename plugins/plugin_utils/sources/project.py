# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A user's project on the controller: the files that define its environment."""

from __future__ import annotations

import os

from ansible_collections.rankzero.slurm.plugins.module_utils.core.edges import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import MOST_BYTES, named_text
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import Recipe, recipe
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.allowed_folders import ANYWHERE, Roots

# Lock files are generated and contain an entry for each file of each package.
MOST_LOCK_BYTES = 50_000_000


def project_recipe(folder: str, wanted: JsonObject, roots: Roots = ANYWHERE) -> Recipe:
    """The recipe of the environment for the project in `folder`: its pyproject.toml, and its uv.lock if it has one.

    `wanted`: extras, python, torch, mode and the settings of the mode, as `recipe` takes them.
    Raises RankzeroError if the folder has no pyproject.toml, and for invalid values.
    """
    for name in ("pyproject.toml", "uv.lock"):
        roots.check("environment.project", os.path.join(folder, name))
    pyproject = _read(os.path.join(folder, "pyproject.toml"))
    if pyproject is None:
        raise RankzeroError(
            f"environment.project: there is no pyproject.toml in {os.path.abspath(folder)}. "
            "Name the folder that has it, or set environment.mode to none."
        )
    lock = _read(os.path.join(folder, "uv.lock"), MOST_LOCK_BYTES)
    return recipe(pyproject, lock, wanted["extras"], wanted["python"], wanted["torch"], wanted["mode"], wanted)


def _read(path: str, most: int = MOST_BYTES) -> str | None:
    try:
        return named_text(path, "environment.project", most)
    except FileNotFoundError:
        return None
