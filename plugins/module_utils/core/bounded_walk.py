# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`os.walk` for folders that a job or another user has made: it calls itself for each level, so depth needs a limit."""

from __future__ import annotations

import os
from collections.abc import Iterator

#: More than any program nests its files, and far from Python's limit of recursion.
LEVELS = 100


def bounded_walk(top: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """As `os.walk(top)`, without what lies deeper than LEVELS folders."""
    for place, folders, names in os.walk(top):
        if place[len(top) :].count("/") >= LEVELS:
            folders.clear()
        yield place, folders, names
