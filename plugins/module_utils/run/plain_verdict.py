# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert the file that a batch script without a Python leaves in its run directory to an outcome. Pure.

runtime/start/no_python.sh writes it:

    ATTEMPT TIME ENDED_BY EXIT_CODE JOB_ID NODE
    the sentence
"""

from __future__ import annotations

import re

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject

FILE = "no-python"
REASON = "no python3"
_FIRST = re.compile(r"(\d{1,6}) (\d{1,10}) (setup|requeue) (\d{1,3}) (\S{1,64}) (\S{1,255})")


def verdict(text: str) -> JsonObject | None:
    """Return the document as outcome.json would contain it; None for any other text."""
    first, _newline, message = text.partition("\n")
    match = _FIRST.fullmatch(first)
    if match is None:
        return None
    attempt, time, ended_by, exit_code, job_id, node = match.groups()
    return {
        "job_id": job_id,
        "attempt": int(attempt),
        "started": float(time),
        "time": float(time),
        "exit_code": int(exit_code),
        "ended_by": ended_by,
        "artifact": None,
        "success": False,
        "message": " ".join(message.split()),
        "unfit_nodes": {node: REASON},
    }
