# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Send the folders that a project names as packages to the host that builds them, when it asks for them."""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import amount
from ansible_collections.rankzero.slurm.plugins.module_utils.pyenv.recipe import Recipe, Tree
from ansible_collections.rankzero.slurm.plugins.plugin_utils.actions.producer import Producer
from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.project import pack_trees


class Trees:
    """The trees of a project, packed at most once. `folder`: for their archives on this machine."""

    def __init__(self, producer: Producer, project: str, wanted: Recipe, folder: str) -> None:
        self._producer = producer
        self._project = project
        self.wanted = wanted
        self._folder = folder

    @functools.cached_property
    def here(self) -> Recipe:
        """The recipe with the archives on this machine. Raises RankzeroError."""
        return pack_trees(self._project, self.wanted, self._folder)

    def asked(self, result: ModuleResult) -> bool:
        """Whether a module's result says that the host has to get them."""
        return bool((result.get("needs") or {}).get("trees"))

    def there(self) -> tuple[Tree, ...]:
        """Send them: the trees with their archives on the host."""
        archives = [str(tree.archive) for tree in self.here.trees]
        names = ", ".join(tree.path for tree in self.here.trees)
        self._producer.show_line(f"sending {names}, {amount(sum(map(os.path.getsize, archives)))}")
        folder = self._producer.send(archives)
        return tuple(
            replace(tree, archive=os.path.join(folder, os.path.basename(archive)))
            for tree, archive in zip(self.here.trees, archives)
        )


@contextlib.contextmanager
def trees_of(producer: Producer, project: str, wanted: Recipe) -> Iterator[Trees]:
    """The trees of a project; their archives on this machine are removed at the end."""
    with tempfile.TemporaryDirectory(prefix="rankzero-") as folder:
        yield Trees(producer, project, wanted, folder)
