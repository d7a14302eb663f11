# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the attempts of a launch began, started their ranks and ended, from the run directory. Reads only."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import Untrusted
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.run.roles import roles_of, waited_for


@dataclass(frozen=True)
class AttemptSpan:
    """The times of an attempt, in epoch seconds. None: not known. `nodes`: the number of its nodes.

    `ranks`: when the ranks were started; `waited`: until when the deciding role waited for the roles `waited_for`;
    `proven`: when the artifact was written; `followed`: another attempt followed;
    `runs`: it has not ended, `ended` is now; `same_job`: it followed the attempt before inside the same job.
    `of_roles`: the node-seconds from the start of each role to its end.
    """

    attempt: int
    began: float
    ended: float
    job_id: str | None = None
    nodes: int = 0
    ranks: float | None = None
    proven: float | None = None
    followed: bool = False
    succeeded: bool = False
    runs: bool = False
    same_job: bool = False
    waited: float | None = None
    waited_for: Sequence[str] = ()
    of_roles: Mapping[str, float] = field(default_factory=dict)


def attempt_spans(run: RunDirectory, launch: LaunchReport, now: float) -> list[AttemptSpan]:
    """The times of each attempt, oldest first. Attempts of which nobody knows the begin are left out."""
    left, newest = run.before(), run.started()
    rows = list(launch.attempts)
    spans: list[AttemptSpan] = []
    for index, row in enumerate(rows):
        last = index == len(rows) - 1
        files = left.get(row.attempt, {})
        current = newest is not None and newest.get("attempt", 0) == row.attempt
        own = (newest if current else files.get("started")) or {}
        began = own.get("time") or row.started_at
        if began is None:
            continue
        runs = last and not launch.completed
        outcome = (launch.outcome if last else files.get("outcome")) or {}
        following = (newest or {}).get("time") if index == len(rows) - 2 else None
        ended = row.finished_at or outcome.get("time") or (now if runs else following)
        roles = roles_of(own)
        gates = [role.name for role in waited_for(roles)] if own.get("launched") else []
        before = left.get(rows[index - 1].attempt, {}).get("outcome", {}) if index else {}
        end = max(float(began), float(ended or began))
        spans.append(
            AttemptSpan(
                row.attempt,
                float(began),
                end,
                job_id=row.job_id,
                nodes=len(own.get("nodes") or row.nodes or ()),
                # A launch with roles writes the file again.
                ranks=own.get("launched") if roles else _ranks_started(run, row.attempt, current=current),
                proven=_proven(run, launch) if last else None,
                followed=not last,
                succeeded=last and launch.success,
                runs=runs,
                same_job=before.get("ended_by") == "restart",
                waited=(roles[0].began or end) if gates else None,
                waited_for=gates,
                of_roles={
                    role.name: len(role.nodes) * max(0.0, (role.ended or end) - role.began)
                    for role in roles
                    if role.began is not None
                },
            )
        )
    return spans


def _ranks_started(run: RunDirectory, attempt: int, *, current: bool) -> float | None:
    """When the ranks were started: the job writes started.json then. On a spare node the preflight comes after that."""
    started = "started.json" if current else f"started.before-attempt-{attempt + 1}.json"
    return max(run.changed(started), run.changed(f"preflight/{attempt}/table")) or None


def _proven(run: RunDirectory, launch: LaunchReport) -> float | None:
    """When the artifact was written; None where that is not known, or where it is not valid."""
    path = launch.artifact.path if launch.artifact else ""
    relative = os.path.relpath(path, run.path) if os.path.isabs(path) else path
    if not launch.success or not path or relative.startswith(os.pardir):
        return None
    try:
        return run.changed(relative) or None
    except (OSError, Untrusted):
        return None
