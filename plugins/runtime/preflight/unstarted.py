# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes on which srun could start no task. srun then ends the whole step, so the other nodes do not report either.
Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection

_MAX_BYTES = 1 << 20
_FAILED = re.compile(r"Task launch for \S+ failed on node (\S+?): (.*)")


def errors_of(path: str) -> str:
    """What srun has written to its standard error, at most 1 MiB; empty if there is no such file."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            return stream.read(_MAX_BYTES)
    except OSError:
        return ""


def nodes_in(errors: str, nodes: Collection[str]) -> dict[str, str]:
    """{node: srun's reason} of those of `nodes` on which srun could not start a task."""
    return {node: reason.strip() for node, reason in _FAILED.findall(errors) if node in nodes}


def forget_reports(folder: str) -> None:
    """Remove what the nodes have reported so far, in the folder and those in it: they are asked again."""
    for place, _folders, names in os.walk(folder):
        for name in names:
            # A task that srun is still ending may move its report meanwhile.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(place, name))
