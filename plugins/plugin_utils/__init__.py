# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the collection that runs on the controller only.

Ansible compiles each file of a collection anew in every command: a hundred files for a launch. From here on, Python's
own loader imports this collection's libraries. It keeps what it has compiled next to the files (`__pycache__`), as for
any other Python package, if the user may write there.

Without this finder and the `gc.freeze` below a warm launch takes 1.34 times the CPU time (quartiles 1.29 to 1.40), and
without the `gc.freeze` alone 1.25 times (1.08 to 1.28), in 12 rounds that ran each in turn. Less than 1.05 would not be
worth what an import does here by itself.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

_PLUGINS = __name__.rpartition(".")[0]


class Compiled:
    """Finds the files of module_utils and plugin_utils in the folders of this copy of the collection."""

    def __init__(self, plugins: str) -> None:
        self._plugins = plugins
        self._folders: dict[str, FileFinder] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module of the libraries, or None."""
        if path is None or not fullname.startswith((f"{_PLUGINS}.module_utils.", f"{_PLUGINS}.plugin_utils.")):
            return None
        for folder in path:
            if not folder.startswith(self._plugins):
                return None
            if folder not in self._folders:
                self._folders[folder] = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))
            spec = self._folders[folder].find_spec(fullname)
            if spec is not None and spec.loader is not None:
                return spec
        return None


def install() -> None:
    """Let Python import the libraries where Ansible would compile them: in its own programs.

    Elsewhere Python does so already, or nothing may change how it imports, as in ansible-test.
    """
    compiles = "ansible.cli" in sys.modules and type(__spec__.loader).__module__.startswith("ansible.")
    if compiles and not any(isinstance(finder, Compiled) for finder in sys.meta_path):
        sys.meta_path.insert(0, Compiled(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
        # Ansible's own modules and settings are here by now, and never garbage. Python would look through them whenever
        # it has imported more, here and in the process of each task, which thereby copies their memory.
        gc.freeze()


install()
