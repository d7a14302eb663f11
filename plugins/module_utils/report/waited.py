# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What module job_wait says of launches before a wait and after it."""

from __future__ import annotations

import os
import time
from dataclasses import asdict

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.state_files import NOTIFY, is_foreign
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.final import packed
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.redact import redactor_of
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.transfer import FetchRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.run.artifact import proof_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.bounded import bounded
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launches import final_reports
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.find import choice_made, chosen_runs
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.attempt_spans import attempt_spans


def reported(options: Parameters, *, check_mode: bool) -> ModuleResult:
    """The result of the module. `options`: WAIT_SPEC. Raises RankzeroError."""
    slurm = Slurm()
    runs = chosen_runs(options, slurm)
    launches = final_reports(slurm, runs, settle=options["x_settle"])
    results = [launch.as_dict() for launch in launches]
    if len(runs) == 1:
        # With the fetched logs, the controller divides the time of the nodes by them.
        results[0]["spans"] = [asdict(span) for span in attempt_spans(runs[0], launches[0], time.time())]
    for result, run in zip(results, runs):
        result.update(progress=None, matched=None, proven=result["success"])
        if result["completed"] and options["x_logs"] and not check_mode:
            # Before the secrets are removed, which are replaced in the logs.
            result["_logs"] = packed(run, FetchRequest.of(options["x_logs"]), redactor_of(run))
        # A job that Slurm ended, or that never began, has not done it itself.
        if result["completed"] and not check_mode and not is_foreign(run.path):
            run.forget_secrets()
        # By the cluster's clock, which gave that time, too: the controller's may be any.
        ended = result["finished_at"]
        if result["outcome"] is None and ended is not None and time.time() - ended < options["outcome_grace"]:
            result["_hidden"] = True
        if os.path.isfile(run.file(NOTIFY)):
            result["_notify"] = True
        if options["until"] == "artifact" and not result["completed"]:
            result["_proof"] = proof_of(run)
    alone = options["run_dirs"] is None
    choice = {"choice": choice_made(slurm, options, runs[0])} if alone else {}
    counts = {"waited": 0.0, "polls": 0, "slurm_commands": slurm.commands, "warnings": slurm.notes}
    if alone:
        return {"changed": False, **results[0], **counts, **choice}
    return {"changed": False, "launches": bounded(results), **counts}
