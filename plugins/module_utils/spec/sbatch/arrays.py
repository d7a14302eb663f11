# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The numbers of an array of sbatch, and the sweep that is the same. Pure."""

from __future__ import annotations

import json
import re

_TASKS = re.compile(r"(?P<first>[0-9]{1,4})(?:-(?P<last>[0-9]{1,4})(?::(?P<step>[0-9]{1,4}))?)?")
# Longer lists of values are not written out.
_MOST_TASKS = 100


def tasks_of(value: str) -> tuple[list[int], int | None] | None:
    """Return (the numbers, how many run at once) of an array, such as 0-7:2%4. None for what is no small array."""
    tasks: set[int] = set()
    array, _percent, parallel = value.partition("%")
    for part in array.split(","):
        match = _TASKS.fullmatch(part)
        last = int(match["last"] or match["first"]) if match else 0
        if match is None or last >= _MOST_TASKS:
            return None
        tasks.update(range(int(match["first"]), last + 1, int(match["step"] or 1) or 1))
    if not tasks:
        return None
    return sorted(tasks), int(parallel) if parallel.isdecimal() else None


def as_sweep(value: str) -> str:
    """Return the job file's lines that are the same as an array. Empty for what is no small array."""
    array = tasks_of(value)
    if array is None:
        return ""
    tasks, parallel = array
    line = {
        "shell": 'SLURM_ARRAY_TASK_ID="$TASK" bash SCRIPT',
        "launcher": {"kind": "none"},
        "env": {"TASK": "{task}"},
        "sweep": {"parameters": {"task": tasks}, **({"parallel": parallel} if parallel else {})},
    }
    return f": {json.dumps(line)}, with the script's other options under `resources`"
