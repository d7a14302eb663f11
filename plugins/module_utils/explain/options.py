# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a diagnosis. Who only asks for one loads none of what makes it."""

from __future__ import annotations

from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import STALL_FACTOR, STALL_SECONDS
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import RUN_ARGUMENTS

DIAGNOSIS_SPEC: dict[str, Any] = {
    **RUN_ARGUMENTS,
    "path": {"type": "path"},
    "write": {"type": "bool", "default": True},
    "processes": {"type": "int", "default": 0},
    "stall_factor": {"type": "float", "default": STALL_FACTOR},
    "stall_seconds": {"type": "float", "default": STALL_SECONDS},
    "families": {"type": "list", "elements": "str", "default": []},
    "x_families": {"type": "list", "elements": "dict", "default": []},
    "x_paces": {"type": "list", "elements": "float", "default": []},
    "reader": {"type": "dict"},
    "x_digest": {"type": "bool", "default": False},
    "code_roots": {"type": "list", "elements": "str"},
}
