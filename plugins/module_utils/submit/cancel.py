# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cancel recorded launches, selected by name, key, generation or job id. The job file is not needed."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Untrusted
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import duration
from ansible_collections.rankzero.slurm.plugins.module_utils.run import rank_looks, steps
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.find import one_run, select_runs
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import identity
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import FAILED
from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import LaunchStatus
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.jobs import base_id
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.patience import statuses, submitting

# Of several launches that are cancelled together, so many are looked at before.
LOOKS = 4


def cancel(
    slurm: Slurm,
    options: Parameters,
    *,
    check_mode: bool = False,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> ModuleResult:
    """Cancel the active jobs of the selected launches. Returns the result of module `job_cancel`.

    A job that was cancelled before and is about to end is left. Raises RankzeroError if nothing matches, or if several
    jobs match without `all`.
    """
    selected = _selected(options)
    for root in {os.path.normpath(os.path.join(run.path, *[os.pardir] * 4)) for run in selected}:
        state_files.own(root)
    policy = submitting(slurm, check_mode, sleep, clock)
    known = [status.decided() for status in statuses(slurm, selected, policy)]
    now = clock()
    ending = {status.run.path: passed for status in known if (passed := status.cancelled_for(now)) is not None}
    active = [
        status for status in known if status.active and status.job_id is not None and status.run.path not in ending
    ]
    _refuse_several(active, bool(options.get("all")))
    if not check_mode:
        _look(slurm, active, sleep, clock)
        _end(slurm, active, clock)
    ended = {status.run.path for status in active}
    others = [status for status in known if status.run.path not in ended]
    idle = [status for status in others if status.run.path not in ending]
    return {
        "changed": bool(active),
        "cancelled": [_row(status) for status in active],
        "unchanged": [_row(status) for status in others],
        "lines": [
            *(f"{_words(status)}: job {status.job_id} cancelled" for status in active),
            *(_closing(status, ending[status.run.path]) for status in others if status.run.path in ending),
            *_rest(idle, len(idle) < len(known)),
        ],
        "slurm_commands": slurm.commands,
    }


def _selected(options: Parameters) -> list[RunDirectory]:
    """Return the newest generation of every selected key, or the generation that was given."""
    if not any(options.get(option) for option in ("run_dir", "name", "job_id")):
        raise RankzeroError("which launch? Give run_dir, or name (with key and generation), or job_id.")
    runs = select_runs(options)
    if not runs:
        one_run(options)  # raises an error that lists the recorded names
    newest = {os.path.dirname(run.path): run for run in runs}
    return runs if options.get("generation") else list(newest.values())


def _refuse_several(active: list[LaunchStatus], everything: bool) -> None:
    """Raise an error if several jobs are selected without `all`.

    A name may belong to launches with different specs. The elements of one sweep are one job.
    """
    jobs = {base_id(steps.job_of(str(status.job_id))) for status in active}
    if len(jobs) > 1 and not everything:
        known = ", ".join(f"{_words(status)} (job {status.job_id})" for status in active[:8])
        raise RankzeroError(
            f"{len(active)} active launches are meant: {known}. Give key or job_id for one of them, or "
            "all: true for all of them."
        )


def _look(slurm: Slurm, active: list[LaunchStatus], sleep: Callable[[float], None], clock: Callable[[], float]) -> None:
    """Have a job that seems to hang record what its ranks do: once it is cancelled, nobody can tell any more."""
    for status in active[:LOOKS]:
        try:
            rank_looks.before_the_end(status.run, clock(), sleep)
        except (OSError, Untrusted) as error:
            slurm.note(f"{status.run.path}: its ranks cannot be asked what they do ({error})")


def _end(slurm: Slurm, active: list[LaunchStatus], clock: Callable[[], float]) -> None:
    jobs = [status for status in active if not steps.is_step(status.job_id)]
    if jobs:
        slurm.cancel(job_id for status in jobs for job_id in status.jobs)
    for status in active:
        if status in jobs:
            status.run.forget_secrets()  # there may be no script left to remove them
        else:
            asked = [event["time"] for event in status.run.events() if event["event"] == "cancelled"]
            hard = bool(asked) and clock() - asked[0] > steps.CANCEL_SECONDS
            name = identity(status.run.path).job_name
            steps.cancel(slurm, steps.job_of(str(status.job_id)), name, hard=hard)
        try:
            status.run.record("cancelled", job_id=status.job_id)
        except OSError as error:
            slurm.note(f"{status.run.path}: the cancellation cannot be noted there ({error.strerror})")


def _closing(status: LaunchStatus, passed: float) -> str:
    """One line about a job that was cancelled before and is not gone yet."""
    return f"{_words(status)}: job {status.job_id} was cancelled {duration(passed)} ago and is still ending"


def _row(status: LaunchStatus) -> dict[str, object]:
    who = identity(status.run.path)
    return {
        "name": who.name,
        "key": who.key,
        "generation": who.generation,
        "job_id": status.job_id,
        "run_dir": status.run.path,
        "standing": status.standing,
    }


def _rest(others: list[LaunchStatus], more: bool) -> list[str]:
    """One line about the launches without an active job. `more`: whether there are others."""
    if not others:
        return []
    if len(others) == 1 and not more:
        cancelled = any(event["event"] == "cancelled" for event in others[0].facts.events)
        state = "was cancelled" if cancelled and others[0].standing == FAILED else others[0].standing
        return [f"{_words(others[0])}: {state}, nothing to cancel"]
    counts = Counter(status.standing for status in others)
    counted = ", ".join(f"{count} {standing}" for standing, count in counts.items())
    launches = f"{len(others)} {'other ' if more else ''}launch{'' if len(others) == 1 else 'es'}"
    return [f"{launches}: {counted}, nothing to cancel"]


def _words(status: LaunchStatus) -> str:
    who = identity(status.run.path)
    return f"{who.name}/{who.key}/{who.generation}"
