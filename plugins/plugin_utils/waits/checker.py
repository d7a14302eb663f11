# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runtime's checker of artifacts as text, for a wait that checks one itself: no file of the cluster is executed."""

from __future__ import annotations

import ast
import functools
import os

from ansible_collections.rankzero.slurm.plugins.plugin_utils.sources.carrier import ROOT

_PROGRAM = "artifact.outcome"


@functools.cache
def checker() -> tuple[tuple[str, str], ...]:
    """The modules of the runtime that check an artifact, as (name, source), each after those that it imports."""
    sources: dict[str, str] = {}
    _gather(_PROGRAM, sources)
    return tuple(sources.items())


def _gather(name: str, sources: dict[str, str]) -> None:
    """Add the source of a module of the runtime, after the sources of those that it imports by room."""
    path = os.path.join(ROOT, "runtime", *name.split(".")) + ".py"
    if name in sources or not os.path.isfile(path):
        return
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for wanted in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                _gather(wanted, sources)
    sources[name] = text
