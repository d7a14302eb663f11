# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders that a project names as packages: `path` and workspace sources of uv, `-e .` of a requirements.txt.

A tree is known by the digest of its files, so a changed file makes another environment. It is sent as an archive, and
lies where uv works as it lies around the project: uv installs a copy, and never a link to the tree.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, made_of
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import Recipe, Tree
from ansible_collections.rankzero.slurm.plugins.module_utils.store.archive import untar
from ansible_collections.rankzero.slurm.plugins.module_utils.store.tree import digest

#: The folder of a project among its trees. No tree has this name.
_PROJECT = ".rankzero-project"
#: A tree of one of these names is a file: a wheel, or an archive of sources.
_FILES = (".whl", ".tar.gz", ".zip", ".tgz")


def trees_of(given: Iterable[JsonObject]) -> tuple[Tree, ...]:
    """The trees of a request. Raises RankzeroError."""
    return tuple(made_of(Tree, tree) for tree in given)


def absent(trees: Sequence[Tree]) -> bool:
    """Whether an archive of a tree is not on this host yet."""
    return any(tree.archive is None for tree in trees)


def lay_out(made: Recipe, folder: str) -> str:
    """Write a project's texts into an empty folder, and its trees around them. Returns the folder for uv.

    Raises RankzeroError for an archive that is damaged, or a tree outside of what is laid out.
    """
    above = max((_above(tree.path) for tree in made.trees), default=0)
    place = os.path.join(folder, *[_PROJECT] * above)
    for tree in made.trees:
        target = os.path.normpath(os.path.join(place, tree.path))
        if target.endswith(_FILES):
            target = os.path.dirname(target)
        if tree.archive is None or not f"{target}{os.sep}".startswith(f"{os.path.normpath(folder)}{os.sep}"):
            raise RankzeroError(f"environment: the folder {tree.path} of the project was not sent; run again")
        os.makedirs(target, exist_ok=True)
        if digest(untar(tree.archive, target)) != tree.digest:
            raise RankzeroError(f"environment: the folder {tree.path} was damaged on its way; run again")
    os.makedirs(place, exist_ok=True)
    for name, text in (("pyproject.toml", made.pyproject), ("uv.lock", made.lock)):
        if text is not None:
            with open(os.path.join(place, name), "w", encoding="utf-8") as stream:
                stream.write(text)
    return place


def _above(path: str) -> int:
    """How many folders a relative path goes up."""
    return os.path.normpath(path).split(os.sep).count(os.pardir)
