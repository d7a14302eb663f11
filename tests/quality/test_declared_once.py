# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that a declaration has are in no second list: what is added to the declaration would be missing there."""

from __future__ import annotations

import ast
import functools

import pytest

from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.kinds import KINDS as INPUTS
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import STANDINGS
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.containers.registry import RUNTIMES
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.launchers import STARTERS
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.sections.artifact import FORMATS
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.trackers.registry import KINDS as TRACKERS
from tests.repository import bullet_list, files, read

#: What is declared -> its names, and the one other file that has half of them.
DECLARED: dict[str, tuple[set[str], str]] = {
    # Which of them `init --compare` can compare.
    "launchers": ({row.kind for row in STARTERS}, "python/rankzero/both_ways.py"),
    "containers": ({row.name for row in RUNTIMES}, ""),
    # The runtime of a job imports nothing of the collection; its readers are held to the declaration by their own test.
    "formats": ({row.name for row in FORMATS}, "plugins/runtime/artifact/formats.py"),
    "trackers": ({row.name for row in TRACKERS}, ""),
    "inputs": ({row.name for row in INPUTS}, ""),
    "standings": (set(STANDINGS), "plugins/module_utils/run/standings.py"),
}


@functools.cache
def lists() -> list[tuple[str, set[str]]]:
    """Path with line, and texts, of each list, tuple, set or map (its keys) of three or more that is written out."""
    found = []
    for path in (*files("plugins/", ".py"), *files("python/", ".py")):
        for node in ast.walk(ast.parse(read(path))):
            if isinstance(node, (ast.Tuple, ast.List, ast.Set, ast.Dict)):
                parts = node.keys if isinstance(node, ast.Dict) else node.elts
                rows = [part.value for part in parts if isinstance(part, ast.Starred)]
                parts = [*parts, *(part for row in rows if isinstance(row, ast.Tuple) for part in row.elts)]
                texts = {str(part.value) for part in parts if isinstance(part, ast.Constant)}
                found += [(f"{path}:{node.lineno}", texts)] if len(texts) > 2 else []
    return found


@pytest.mark.parametrize("what", DECLARED)
def test_no_list_repeats_half_of_a_declaration(what: str) -> None:
    names, other = DECLARED[what]
    repeated = [
        f"{where}: {', '.join(sorted(texts))}"
        for where, texts in lists()
        if len(names & texts) >= max(3, len(names) / 2, len(texts) / 2) and where.rpartition(":")[0] != other
    ]
    assert not repeated, bullet_list(repeated)
