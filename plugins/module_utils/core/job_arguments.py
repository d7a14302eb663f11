# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options that several modules take for a job."""

from __future__ import annotations

from typing import Any

# What says which job: its layers, as the action plugins read them.
JOB_ARGUMENTS: dict[str, Any] = {
    "job": {"type": "raw", "required": True},
    "cluster": {"type": "dict", "default": {}},
    "overrides": {"type": "dict", "default": {}},
}
# What is to become of it on the cluster.
LAUNCH_ARGUMENTS: dict[str, Any] = {
    **JOB_ARGUMENTS,
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "relaunch": {"type": "str", "choices": ["on_failure", "always", "never"], "default": "on_failure"},
}
