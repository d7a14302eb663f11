# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job is told about its sealed environment, and why it is copied or not. Pure; the runtime does it."""

from __future__ import annotations

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.aspects.node_copies import archives
from ansible_collections.rankzero.slurm.plugins.module_utils.spec.job import ClusterSettings, LaunchSpec

# Policy -> what each node does with the file, in words. All read it whole once, for its digest.
COPIES = {
    "auto": "each node checks the file and mounts it; copied first where the store is a network file system and a disk "
    "of the node has room: later reads then ask no server",
    "always": "each node copies the file to a disk of its own, checks it and mounts the copy",
    "never": "each node checks the file and mounts it from the store",
}
# Files of the job's runtime that mount the environment for an interactive session.
PROGRAMS = (
    "clearing.py",
    "disk.py",
    "extraction.py",
    "holding.py",
    "holding.sh",
    "own.py",
    "preflight_files.py",
    "processes.sh",
    "sealed.py",
    "sealed.sh",
    "sealed_file.py",
    "sealed_mount.py",
)


def exports(spec: LaunchSpec, settings: ClusterSettings, state_root: str) -> dict[str, str]:
    """Variables of the batch script; none where the environment is not sealed."""
    if spec.environment.mode != "sealed":
        return {}
    told = {
        "RANKZERO_SEALED_COPY": spec.environment.local_copy,
        "RANKZERO_SEALED_BUDGET": str(spec.preflight.stage_budget),
    }
    if settings.local_dir:
        told["RANKZERO_LOCAL_DIR"] = settings.local_dir
    if not settings.store_shared:
        told["RANKZERO_ARCHIVES"] = archives(state_root)
    return told
