# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's own programs bring all that they import: they must run after the process that started them has ended."""

from __future__ import annotations

import ast
import inspect

from ansible_collections.rankzero.slurm.plugins.module_utils.lab import library

PACKAGE = "ansible_collections.rankzero.slurm.plugins.module_utils"


def test_every_module_that_a_copied_one_imports_is_copied_too() -> None:
    copied = {module.__name__ for module in library.MODULES}
    for module in library.MODULES:
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
                named = {f"{node.module}.{alias.name}" for alias in node.names}
                wanted = {node.module} if node.module in copied else named
                assert wanted <= copied, f"{module.__name__} imports {', '.join(sorted(wanted - copied))}"
