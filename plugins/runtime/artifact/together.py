# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the ranks of an attempt met in torch.distributed, as hook/rankzero_together.py saw it. Standard library
only.
"""

from __future__ import annotations

import os
import re

from core import files

# As in hook/rankzero_together.py.
MET = "met"
APART = "each of the {ranks} ranks ran on its own: all loaded torch, and none was in a process group of several ranks"
UNKNOWN = (
    "nothing shows that the {ranks} ranks met: a process group of torch is seen in a rank that is a Python program and "
    "has PYTHONFAULTHANDLER set"
)


def ranks_of(run_dir: str) -> int:
    """The number of ranks of the attempt; 0 where that is not known."""
    try:
        return int(files.document(os.path.join(run_dir, "started.json"))["world_size"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return 0


def seen(run_dir: str) -> bool | None:
    """True where the ranks met, False where all of them ran apart, None where that is unknown or there is only one."""
    try:
        with open(os.path.join(run_dir, ".attempt"), encoding="utf-8") as stream:
            attempt = str(int(stream.readline(16)))
        names = os.listdir(os.path.join(run_dir, "together", attempt))
    except (OSError, ValueError):
        return None
    if MET in names:
        return True
    ranks = ranks_of(run_dir)
    apart = {name for name in names if re.fullmatch("[0-9]{1,7}", name)}
    return False if ranks > 1 and len(apart) >= ranks else None


def complaint(run_dir: str) -> str:
    """Why the ranks have not been seen to meet, as a sentence; empty where they have, or where there is one only."""
    ranks, met = ranks_of(run_dir), seen(run_dir)
    if met or ranks == 1:
        return ""
    return (UNKNOWN if met is None else APART).format(ranks=ranks or "(unknown number of)")
