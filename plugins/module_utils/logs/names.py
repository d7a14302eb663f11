# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of log files."""

from __future__ import annotations

import re

_RANK_LOG = re.compile(r"rank-([0-9]+)\.log|.+\.[0-9]+\.[^/]+\.([0-9]+)\.out")


def rank_of(path: str) -> int | None:
    """The rank of a log by its name (rank-0003.log or job.123.node01.3.out); None for other files."""
    match = _RANK_LOG.fullmatch(path.rpartition("/")[2])
    return int(match.group(1) or match.group(2)) if match else None
