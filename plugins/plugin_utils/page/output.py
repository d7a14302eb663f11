# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a page on the controller: written by rename, and only where their content differs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import difference
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place

HTML = ".html"


def write_files(files: Mapping[str, str], *, pretend: bool) -> list[ModuleResult]:
    """Make the files have these contents, and return a difference for each file that had another one.

    `files`: path -> content. `pretend` writes nothing. Raises RankzeroError.
    """
    differences = []
    for path, content in files.items():
        folder, name = Place.of_file(path)
        before = folder.read(name)
        if before == content:
            continue
        if not pretend:
            folder.write(name, content)
        differences.append(difference(path, shown(path, before), shown(path, content)))
    return differences


def shown(path: str, content: str | None) -> str:
    """A file's content for a diff. A page is long, so its size and digest stand for it."""
    if content is None:
        return ""
    if not path.endswith(HTML):
        return content
    data = content.encode("utf-8", "surrogateescape")
    return f"a page of {len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}\n"
