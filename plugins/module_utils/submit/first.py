# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of whoever watches a launch that several clusters were asked to run: look, record, settle.

Each is done on one cluster, may be done by several watchers at once, and may be done again: a winner and a grant are
made once (run/grants.py). The winner is recorded before anything is granted, so at most one launch is ever granted.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import NoLaunch, RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.run import grants
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.find import one_run, select_runs
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import (
    FIRST_SPEC,
    identity,
    newest_of_each,
    state_root_of,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import SUCCEEDED, WITHDRAWN, withdrawn
from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import LaunchStatus
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.cancel import cancel
from ansible_collections.rankzero.slurm.plugins.module_utils.submit.patience import statuses, submitting

LOOK, RECORD, _SETTLE = FIRST_SPEC["step"]["choices"]


def step(
    slurm: Slurm,
    options: Parameters,
    *,
    check_mode: bool = False,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> ModuleResult:
    """Carry out a step on this cluster. Returns the result of module `job_first`. Raises RankzeroError."""
    run = _run(slurm, options)
    state_files.own(state_root_of(run.path))
    clusters, asked = grants.clusters_of(run), list(options["clusters"])
    if clusters and clusters != asked:
        raise RankzeroError(
            f"clusters: {run.path} was submitted with --first {','.join(clusters)}, not {','.join(asked)}: the first "
            "of them decides which one runs; give the same names in the same order"
        )
    what, changed = options["step"], False
    winner = grants.Winner.of(str(options.get("winner") or ""))
    if what != LOOK:
        if winner is None:
            raise RankzeroError(f"winner: {what} needs the cluster and its run directory, as in 'alpha /path'")
        if not check_mode:
            changed = _record(run, clusters, winner) if what == RECORD else _settle(slurm, run, options, winner)
    policy = submitting(slurm, check_mode, sleep, clock)
    (status,) = statuses(slurm, [run], policy)
    return {**_row(status.decided(), clusters), "changed": changed, "slurm_commands": slurm.commands}


def _run(slurm: Slurm, options: Parameters) -> RunDirectory:
    """Return the launch on this cluster: the one that is named, or that of `name` which was asked with that of the
    arbiter. Its key is another one where the clusters' settings differ.
    """
    arbiter = options.get("arbiter")
    if not arbiter:
        return one_run(options, slurm)
    if not options.get("name"):
        raise RankzeroError(f"arbiter: {arbiter} selects among the launches of a name; give name")
    runs = [run for run in select_runs(options) if (run.document(grants.FIRST) or {}).get("arbiter") == arbiter]
    if not runs:
        root = options["state_root"]
        raise NoLaunch(f"no launch {options['name']} that was asked with {arbiter} is recorded under state_root {root}")
    return newest_of_each(runs)[0]


def _record(run: RunDirectory, clusters: list[str], winner: grants.Winner) -> bool:
    """Record the winner at the arbiter, whose run directory this is, unless there is one."""
    if not clusters:
        raise RankzeroError(f"winner: {run.path} waits for no grant, so it decides nothing; launch with --first")
    before = run.text(grants.WINNER)
    grants.made_once(run, grants.WINNER, winner.line)
    return not before


def _settle(slurm: Slurm, run: RunDirectory, options: Parameters, winner: grants.Winner) -> bool:
    """Grant the winner what it waits for, or withdraw the launch of another cluster, and cancel its job."""
    if not grants.clusters_of(run):
        # Submitted by somebody for this cluster alone.
        return False
    before = run.text(grants.GRANT)
    if winner == grants.Winner(str(options["cluster"]), run.path):
        grants.made_once(run, grants.GRANT, f"{grants.GRANTED} {winner.line}")
        return not before
    line = grants.made_once(run, grants.GRANT, f"{WITHDRAWN} {winner.cluster} has started first")
    if not withdrawn(line):
        raise RankzeroError(f"winner: {run.path} was granted to another one before: {line}; nothing is cancelled")
    who = identity(run.path)
    ended = cancel(slurm, {**options, "run_dir": run.path, "generation": who.generation})
    return not before or bool(ended["changed"])


def _row(status: LaunchStatus, clusters: list[str]) -> ModuleResult:
    who, run = identity(status.run.path), status.run
    grant, winner = status.facts.grant, run.text(grants.WINNER).strip()
    told = {"winner": winner, "grant": grant}
    return {
        "name": who.name,
        "key": who.key,
        "generation": who.generation,
        "run_dir": run.path,
        "job_id": status.job_id,
        "standing": status.standing,
        "message": status.message,
        "active": status.may_run,
        "success": status.standing == SUCCEEDED,
        "clusters": clusters,
        "asks": status.facts.asks and status.active and not status.pending,
        "grant": grant,
        "winner": winner,
        "lines": [status.message, *(f"{what}: {text}" for what, text in told.items() if text)],
    }
