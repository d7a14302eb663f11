# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the path of a launch's artifact, for callers that wait for it."""

from __future__ import annotations

import os

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory


def proof_of(run: RunDirectory) -> str:
    """Return the artifact's path. Raises `RankzeroError` if the job has no artifact."""
    contract = run.document("contract.json")
    if contract is None:
        raise RankzeroError(f"until: artifact needs contract.json of the launch; {run.path} lacks it")
    artifact = contract.get("artifact")
    if not artifact:
        raise RankzeroError(f"until: artifact, but the launch {run.path} names none (artifact in its job file)")
    if isinstance(artifact, dict) and "reader" in artifact:
        raise RankzeroError(
            f"until: artifact, but only the job itself judges artifacts of format {artifact.get('format')}, which the "
            "cluster declares (launch_cluster.artifact_formats); wait for `finished` instead"
        )
    path = artifact.get("path") if isinstance(artifact, dict) else None
    if not isinstance(path, str) or os.path.isabs(path) or ".." in path.split("/"):
        raise RankzeroError(
            f"until: artifact, but contract.json of {run.path} names no path in the job's working directory"
        )
    return os.path.normpath(run.file(os.path.join("work", path)))
