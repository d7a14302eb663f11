# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reconciliation's dealings with the cluster: what is there of a set of specs, and ending what no longer should be.

One question to Slurm for all launches, however many. While Slurm is silent nothing is planned, and so nothing is done.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.errors import SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile import register
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.plan import (
    Found,
    Policies,
    Step,
    Wanted,
    make_plan,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import steps as slurm_steps
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.journal import RunDirectory, generations
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.launches import ask_slurm, report
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.runs import KEY_LENGTH, identity, keys_of

# A cancelled job has this many seconds to leave its nodes before its successor is launched.
GONE_SECONDS = 90.0


def look(slurm: Slurm, state_root: str, set_name: str, names: Iterable[str]) -> list[Found]:
    """The newest generation of every key under `names`, and under the names that the set has launched before."""
    registered = register.entries(state_root, set_name)
    runs: list[RunDirectory] = []
    for name in sorted({*names, *(name for name, _key in registered)}):
        for key in keys_of(state_root, name):
            runs += generations(os.path.join(state_root, "runs", name, key))[-1:]
    answer = ask_slurm(slurm, runs)
    if answer.silent:
        raise SlurmUnavailable(f"{answer.silent} Nothing is planned and nothing is done; try again later.")
    found = []
    for run in runs:
        who, seen = identity(run.path), report(slurm, run, answer)
        state = "active" if seen["active"] else "succeeded" if seen["success"] else "failed"
        if not seen["active"] and not seen["completed"]:
            state = "unknown"
        job_id, ours = seen["job_id"], (who.name, who.key) in registered
        found.append(Found(who.name, who.key, who.generation, state, run.path, job_id, seen["message"], ours))
    return found


def planned(slurm: Slurm, request: Mapping[str, Any]) -> list[Step]:
    """The plan for what the controller has read: {"state_root", "set", "wanted": [...], "policies": {...}}."""
    wanted = [Wanted(one["name"], one["key"][:KEY_LENGTH], one["file"]) for one in request["wanted"]]
    found = look(slurm, request["state_root"], request["set"], [one.name for one in wanted])
    return make_plan(wanted, found, Policies(**request["policies"]))


def prepare(
    slurm: Slurm,
    request: Mapping[str, Any],
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> list[str]:
    """Do what must precede the launches: register what is about to be launched or is adopted, then cancel. Warnings.

    request: {"state_root", "set", "facts", "steps": those to carry out, as `planned` gave them}.
    """
    steps = [Step(**step) for step in request["steps"]]
    for step in steps:
        if step.action in ("launch", "adopt"):
            facts = {**request["facts"], "file": step.file, "time": clock()}
            register.keep(request["state_root"], request["set"], step.name, step.key, facts)
    ended = [step for step in steps if step.action == "cancel"]
    for step in ended:
        cancel(slurm, RunDirectory(str(step.run_dir)), str(step.job_id), step.reason)
    successors = {step.name for step in steps if step.action == "launch"}
    waited = [RunDirectory(str(step.run_dir)) for step in ended if step.name in successors]
    left = gone(slurm, waited, sleep=sleep, clock=clock)
    return [f"job {run.job_id()} was cancelled and is still there after {GONE_SECONDS:.0f} s" for run in left]


def cancel(slurm: Slurm, run: RunDirectory, job_id: str, reason: str) -> None:
    """End one launch. One that has ended meanwhile does no harm."""
    if slurm_steps.is_step(job_id):
        slurm_steps.cancel(slurm, slurm_steps.job_of(job_id), identity(run.path).job_name, hard=False)
    else:
        slurm.call("scancel", job_id)
    run.record("cancelled", job_id=job_id, reason=reason)


def gone(
    slurm: Slurm,
    runs: Sequence[RunDirectory],
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> list[RunDirectory]:
    """Wait until cancelled launches have left their nodes: two launches of one spec should not share a checkpoint
    folder. Those that have not within GONE_SECONDS.
    """
    until, pause, left = clock() + GONE_SECONDS, 0.5, list(runs)
    while left:
        answer = ask_slurm(slurm, left)
        left = [run for run in left if answer.silent or report(slurm, run, answer)["active"]]
        if not left or clock() + pause > until:
            break
        sleep(pause)
        pause = min(pause * 1.5, 5.0)
    return left
