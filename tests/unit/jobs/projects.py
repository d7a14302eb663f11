# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of the fixture `project`, read and prepared as the actions do it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.plan.inputs import Site
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.prepare import Prepared, prepare
from ansible_collections.rankzero.slurm.plugins.plugin_utils.jobs.read import Job, read_job


def job(project: Path, cluster: dict[str, Any] | None = None, **data: Any) -> Job:
    given = {"name": "x", **({} if "roles" in data else {"command": ["train.py"]}), **data}
    return read_job(given, cluster, None, None, str(project))


def ready(read: Job, relaunch: str = "on_failure") -> Prepared:
    return prepare(read, Site("/state", "/store", read.settings), relaunch=relaunch, facts={"collection": "1.2.3"})
