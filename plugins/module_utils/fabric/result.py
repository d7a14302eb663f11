# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and check the result that a sweep left on the cluster, and derive the reports from it. Reads only."""

from __future__ import annotations

import json
import os
from typing import Any, cast

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric import group_vars, report
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.documents import SweepResult
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.judge import Rule, judge
from ansible_collections.rankzero.slurm.plugins.module_utils.fabric.suggest import suggest
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory

RESULT = os.path.join("work", "result.json")
FORMAT = 1

ARGUMENTS: dict[str, Any] = {
    "run_dir": {"type": "path", "required": True},
    "cluster": {"type": "dict", "default": {}},
    "share": {"type": "float", "default": 0.7},
    "mads": {"type": "float", "default": 4.0},
    "expected": {"type": "float", "default": 0.0},
}
# Options of the action on the controller, which writes the files; the module does not use them.
ACTION_ARGUMENTS: dict[str, Any] = {
    **ARGUMENTS,
    "dest": {"type": "path"},
    "overwrite": {"type": "bool", "default": False},
}


def load(run_dir: str) -> SweepResult:
    """The result of a sweep. Raises RankzeroError if it is missing or invalid."""
    path = os.path.join(os.path.expanduser(run_dir), RESULT)
    text = RunDirectory(os.path.expanduser(run_dir)).text(RESULT)
    if not text:
        raise RankzeroError(
            f"run_dir: {path} does not exist: the sweep has not ended, or has failed",
            # The action adds the command that tells the cause: only it knows the inventory.
            no_result=True,
        )
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    about = document.pop("about", None) if isinstance(document, dict) else None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise RankzeroError(f"run_dir: {path} is not a result of this version's sweep: run it again (-e rerun=true)")
    return cast("SweepResult", {**about, **document})


def described(run_dir: str, cluster: Parameters, rule: Rule) -> ModuleResult:
    """The result of module fabric_report."""
    if not 0 < rule.share < 1:
        raise RankzeroError(f"share: must be above 0 and below 1, not {rule.share:g}")
    if rule.mads < 0 or rule.expected < 0:
        raise RankzeroError(f"mads, expected: must not be negative, not {rule.mads:g} and {rule.expected:g}")
    result = load(run_dir)
    judged = judge(result, rule)
    suggested = suggest(cluster, result["facts"])
    return {
        **judged,
        "method": result["method"],
        "backend": result["backend"],
        "why": result["why"],
        "job_id": result["job_id"],
        "measured_at": result["measured_at"],
        "candidates": result["candidates"],
        "chosen": result["chosen"],
        "variables": group_vars.measured(result),
        "suggestions": suggested,
        "table": report.table(result, judged, rule, suggested),
        "reason": f"slow in the fabric check of {report.day(result)} (job {result['job_id']})",
        "group_vars": group_vars.render(result, judged, suggested),
    }
