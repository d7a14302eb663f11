# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a launch failed: its logs' word (room `diagnosis`) joined with its job's and Slurm's (room `slurm`).

Here and not in a room, because neither room may know the other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis import advice, cause, scan
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.events import (
    ARTIFACT,
    LAUNCHER,
    SETUP,
    Event,
    FileEvents,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.model import (
    CAUSE,
    DECISIVE,
    ECHO,
    LIMIT,
    WEAK,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.signatures.registry import SIGNATURES
from ansible_collections.rankzero.slurm.plugins.module_utils.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.journal import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.launches import final_report
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.logs import rank_of
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.runs import RUN_ARGUMENTS, one_run
from ansible_collections.rankzero.slurm.plugins.module_utils.staging.publish import write_text

DIAGNOSIS = "diagnosis.json"
DIAGNOSIS_SPEC: dict[str, Any] = {
    **RUN_ARGUMENTS,
    "path": {"type": "path"},
    "write": {"type": "bool", "default": True},
    "processes": {"type": "int", "default": 0},
}
# Slurm's word for an end -> the family, and how much it proves.
_STATES = {
    "OUT_OF_MEMORY": ("host_oom_killed", DECISIVE),
    "NODE_FAIL": ("node_failure", DECISIVE),
    "BOOT_FAIL": ("node_failure", DECISIVE),
    "TIMEOUT": ("time_limit", LIMIT),
    "DEADLINE": ("time_limit", LIMIT),
    "PREEMPTED": ("preempted_or_cancelled", LIMIT),
    "CANCELLED": ("preempted_or_cancelled", LIMIT),
    "REJECTED": ("sbatch_rejected", CAUSE),
}


def diagnose(slurm: Slurm, options: Mapping[str, Any], *, check_mode: bool = False) -> dict[str, Any]:
    """The result of module job_diagnosis for DIAGNOSIS_SPEC. Raises `RankzeroError` where there is nothing to read."""
    processes = options["processes"] or min(4, os.cpu_count() or 1)
    if options.get("path"):
        return _of_path(os.path.expanduser(options["path"]), processes)
    run = one_run(options)
    return _of_run(slurm, run, processes, write=options["write"], check_mode=check_mode)


def _of_path(path: str, processes: int) -> dict[str, Any]:
    if not os.path.exists(path):
        raise RankzeroError(f"path: {path} does not exist on this host. Name a log or a folder of logs.")
    logs = scan.find_logs(path)
    if not logs:
        raise RankzeroError(f"path: {path} holds no logs (*.log, *.out, *.err, *.txt, their .gz and .zst).")
    found = scan.scan(logs, processes)
    base = path if os.path.isdir(path) else os.path.dirname(path)
    return _result(advice.report(cause.find_cause(found.logs), found, base), changed=False)


def _of_run(slurm: Slurm, run: RunDirectory, processes: int, *, write: bool, check_mode: bool) -> dict[str, Any]:
    launch = final_report(slurm, run)
    found = scan.scan(newest_logs(run.file("logs"), launch["attempt"]), processes)
    for log in found.logs:
        rank = rank_of(log.file)
        log.events = [advice.with_rank(event, rank) for event in log.events]
    if not launch["success"]:
        found.logs += job_words(launch, run.rejected())
    chosen = cause.Cause(cause.HEALTHY, None, "high") if launch["success"] else cause.find_cause(found.logs)
    diagnosis = advice.report(chosen, found, run.path)
    keys = ("name", "key", "generation", "job_id", "state", "attempt", "message", "run_dir", "completed", "success")
    diagnosis["launch"] = {key: launch[key] for key in keys}
    changed = False
    if write and launch["completed"]:
        text = json.dumps(diagnosis, indent=1, sort_keys=True) + "\n"
        changed = bool(write_text(run.file(DIAGNOSIS), text, check_mode=check_mode)["changed"])
    return _result(diagnosis, changed=changed, story=run.file(DIAGNOSIS) if write else run.file("logs"))


def _result(diagnosis: dict[str, Any], *, changed: bool, story: str = "") -> dict[str, Any]:
    lines = advice.screen(diagnosis, story)
    return {"changed": changed, "families": len(SIGNATURES), "diagnosis": diagnosis, "lines": lines}


def newest_logs(logs_dir: str, attempt: int) -> list[str]:
    """The logs of one attempt, rank by rank, then those of the whole job, which hold every attempt in a row."""
    own = scan.find_logs(os.path.join(logs_dir, str(attempt)))
    own = [path for path in own if os.path.isfile(path)]
    try:
        shared = [os.path.join(logs_dir, name) for name in sorted(os.listdir(logs_dir))]
    except OSError:
        shared = []
    ranks = sorted((path for path in own if rank_of(path) is not None), key=lambda path: rank_of(path) or 0)
    return [*ranks, *(path for path in own if rank_of(path) is None), *(p for p in shared if os.path.isfile(p))]


def job_words(launch: Mapping[str, Any], rejected: str | None) -> list[FileEvents]:
    """What the job and Slurm themselves say, as one more log of one line."""
    family, strength = _STATES.get(str(launch["state"]), ("", 0))
    text = str(launch["message"] or "")
    if rejected is not None:
        family, strength = _STATES["REJECTED"]
    if not family and launch["completed"]:
        # The batch script's own verdict: it names what no log of a rank can say.
        if (launch["outcome"] or {}).get("ended_by") == "setup":
            family, strength = SETUP, DECISIVE
        elif launch["exit_code"] == 0:
            family, strength = ARTIFACT, WEAK
        else:
            family, strength = LAUNCHER, ECHO
    if not family:
        return []
    event = Event(family, strength, f"{launch['state']}: {text}", 1, file="Slurm", run=0)
    return [FileEvents("Slurm", [event], lines=1)]
