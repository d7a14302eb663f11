# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster side of a reconciliation: look up the launches of a set of specs, and cancel those that should end.

One query to Slurm serves all launches. If Slurm does not answer, nothing is planned and nothing is done.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import SlurmUnavailable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject
from ansible_collections.rankzero.slurm.plugins.module_utils.core.state_files import own, record_of_sweep
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile import register
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.plan import Step, make_plan
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.request import ReconcileRequest
from ansible_collections.rankzero.slurm.plugins.module_utils.reconcile.wanted import Found
from ansible_collections.rankzero.slurm.plugins.module_utils.run import steps as slurm_steps
from ansible_collections.rankzero.slurm.plugins.module_utils.run.answers import Policy, SlurmAnswer, ask_slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import SWEEP_PREFIX, RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launches import described
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.walk import RunFilter, walk
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import KEY_LENGTH, identity
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import (
    FAILED,
    RUNNING,
    SUCCEEDED,
    UNKNOWN,
    Standing,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import LaunchStatus, RunFacts, status_of
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm

# Seconds that a cancelled job has to leave its nodes before its successor is launched.
GONE_SECONDS = 90.0


def newest_generations(
    slurm: Slurm, state_root: str, set_name: str, names: Iterable[str], related: Collection[str] = ()
) -> list[Found]:
    """Return the newest generation of every key under `names`, and under the names that the set launched before.

    Slurm is not asked about launches that have succeeded. `related`: the names for which the time of submission is
    needed. Raises SlurmUnavailable if Slurm does not answer.
    """
    own(state_root)
    registered = register.entries(state_root, set_name)
    sweeps = register.elements(registered)
    wanted = sorted({*names, *(name for name, _key in registered)})
    runs, history = walk(state_root, RunFilter(wanted, newest=True))
    answer = ask_slurm(slurm, [run for run in runs if not history.has(run)], Policy(decided=False))
    if answer.silent:
        raise SlurmUnavailable(f"{answer.silent} Nothing is planned and nothing is done; try again later.")
    launches = []
    for run in runs:
        launch = _ended(run, history.launch(run)) if history.has(run) else _found(slurm, run, answer)
        at = (launch.name, launch.key)
        sweep = "" if at in registered else sweeps.get(at, "")
        since = _since(run) if launch.name in related else launch.since
        ours = at in registered or bool(sweep)
        gone = bool(registered.get((launch.name, sweep or launch.key), {}).get("gone"))
        launches.append(replace(launch, ours=ours, sweep=sweep, since=since, gone=gone))
    return launches


def _found(slurm: Slurm, run: RunDirectory, answer: SlurmAnswer) -> Found:
    """Return a launch from its run directory and Slurm's answer."""
    who, status = identity(run.path), answer.status(run)
    launch = Found(who.name, who.key, who.generation, _standing(status), run.path)
    launch = replace(launch, job_id=status.job_id, message=status.message)
    if status.standing == SUCCEEDED:
        return launch
    begun = run.claim() is not None or status.facts.started is not None
    return replace(launch, message=described(slurm, status, answer).message, begun=begun)


def _ended(run: RunDirectory, report: JsonObject) -> Found:
    """Return a launch from the index of ended launches. A job that wrote an outcome had begun."""
    who, outcome = identity(run.path), report["outcome"] or {}
    if report["success"]:
        standing, message = SUCCEEDED, str(outcome.get("message") or "")
    else:
        standing, message = FAILED, str(report["message"])
    begun = bool(outcome) or run.claim() is not None or run.started() is not None
    job_id = report["job_id"]
    return Found(who.name, who.key, who.generation, standing, run.path, job_id=job_id, message=message, begun=begun)


def _standing(status: LaunchStatus) -> Standing:
    """Return the standing for a plan. A job whose end is unknown counts as running, and is not launched again."""
    return RUNNING if status.may_run and status.standing == UNKNOWN else status.standing


def _since(run: RunDirectory) -> float:
    """Return when the job of a generation was submitted, in epoch seconds.

    If another job continues it (end/chain.py of the runtime), the time of that job's claim is used.
    """
    events = run.own_events()
    intents = [float(event["time"]) for event in events if event["event"] == "intent"]
    since = max(intents, default=0.0)
    known = {str(event["job_id"]) for event in run.events() if event.get("job_id")}
    claim = run.claim()
    if claim is not None and claim.job_id not in known:
        since = max(since, run.changed("claim"))
    return since


def planned(slurm: Slurm, request: ReconcileRequest) -> list[Step]:
    """Return the plan for the specs that the controller has read."""
    wanted = []
    for spec in request.wanted:
        key, elements = spec.key[:KEY_LENGTH], tuple(each[:KEY_LENGTH] for each in spec.elements)
        place = os.path.join(request.state_root, "runs", spec.name, SWEEP_PREFIX + key)
        recorded = not elements or record_of_sweep(place) is not None
        wanted.append(replace(spec, key=key, elements=elements, recorded=recorded))
    related = {name for spec in wanted if spec.after for name in (spec.name, *spec.after)}
    launches = newest_generations(slurm, request.state_root, request.set, [spec.name for spec in wanted], related)
    return make_plan(wanted, launches, request.policies)


def prepare(
    slurm: Slurm,
    request: ReconcileRequest,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> list[str]:
    """Register the launches that will be submitted or adopted, and which specs are gone, then cancel. Returns warnings.

    This must precede the launches. The request's steps are those to carry out, as `planned` returned them.
    """
    steps = request.steps or ()
    elements = {spec.name: [key[:KEY_LENGTH] for key in spec.elements] for spec in request.wanted}
    for step in steps:
        if step.action in ("launch", "adopt"):
            facts = {**request.facts, "file": step.file, "time": clock(), "elements": elements[step.name]}
            register.keep(request.state_root, request.set, step.name, step.key, facts)
    gone_names = {step.name for step in steps if step.action == "gone"}
    for (name, key), entry in register.entries(request.state_root, request.set).items() if gone_names else ():
        if name in gone_names:
            register.keep(request.state_root, request.set, name, key, {**entry, "gone": True})
    ended = [step for step in steps if step.action == "cancel"]
    for step in ended:
        cancel(slurm, step)
    successors = {step.name for step in steps if step.action == "launch"}
    waited = [run for step in ended if step.name in successors for run in _runs(step)]
    left = gone(slurm, waited, sleep=sleep, clock=clock)
    return [f"job {run.job_id()} was cancelled and is still there after {GONE_SECONDS:.0f} s" for run in left]


def _runs(step: Step) -> list[RunDirectory]:
    """Return the launches that a step refers to."""
    paths = [element.run_dir for element in step.elements] if step.kind == "sweep" else [step.run_dir]
    return [RunDirectory(str(path)) for path in paths]


def cancel(slurm: Slurm, step: Step) -> None:
    """Cancel the launches of a step. Launches that have ended in the meantime are no error."""
    runs = _runs(step)
    ids = [str(element.job_id) for element in step.elements] if step.kind == "sweep" else [str(step.job_id)]
    if slurm_steps.is_step(ids[0]):
        slurm_steps.cancel(slurm, slurm_steps.job_of(ids[0]), identity(runs[0].path).job_name, hard=False)
    else:
        # A launch that waits may have several jobs (resources.any_of).
        single = [] if step.kind == "sweep" else runs
        slurm.cancel([*ids, *(job_id for run in single for job_id in status_of(RunFacts.read(run)).jobs)])
    for run, job_id in zip(runs, ids):
        run.record("cancelled", job_id=job_id, reason=step.reason)


def gone(
    slurm: Slurm,
    runs: Sequence[RunDirectory],
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> list[RunDirectory]:
    """Wait until cancelled launches have left their nodes; return those that have not within GONE_SECONDS.

    Two launches of one spec should not share a checkpoint folder.
    """
    until, pause, left = clock() + GONE_SECONDS, 0.5, list(runs)
    while left:
        answer = ask_slurm(slurm, left)
        statuses = [answer.status(run) for run in left]
        left = [status.run for status in statuses if answer.silent or status.may_run or status.in_queue]
        if not left or clock() + pause > until:
            break
        sleep(pause)
        pause = min(pause * 1.5, 5.0)
    return left
