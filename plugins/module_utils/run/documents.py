# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON documents of a run directory, as `RunDirectory` has read and checked them. A missing field is unknown.

Other fields may be present: an older or newer release or a site's template may have written them.
"""

from __future__ import annotations

from typing import Any, TypedDict


class _Line(TypedDict):
    event: str
    time: float


class Event(_Line, total=False):
    """A line of the journal.

    `event`: intent, submitted, adopted, rejected, cancelled and so on. `time`: epoch seconds. `submitter`: host:pid of
    an intent. `array`, `task`: the place of a sweep's element. `inside_job`: the job that the launch runs inside.
    `number`: the place of a submission among resources.any_of, from 0.
    """

    job_id: str | None
    submitter: str
    message: str
    reason: str
    array: str | None
    task: int
    inside_job: str | None
    number: int | None


class Started(TypedDict, total=False):
    """What the batch script wrote when an attempt began (started.json). `launched`: when its ranks were started.
    `roles`: of each, the deciding one first, its name, the number of its first rank, its nodes, and HOST:PORT of each
    of its processes.
    """

    attempt: int
    job_id: str | None
    time: float | None
    launched: float | None
    nodes: list[str] | None
    world_size: int | None
    seed: int | None
    roles: list[dict[str, Any]]


class Outcome(TypedDict, total=False):
    """The outcome of an attempt (outcome.json).

    `time` is its end and `started` its beginning, in epoch seconds. `role`: the one that has ended the launch, where it
    is not the one that decides. `after_ranks`: what went wrong on the nodes after the ranks. `unfit_nodes`: node ->
    reason. `trackers`: where the launch is found in its trackers. `together`: whether the ranks were in one process
    group.
    """

    attempt: int
    job_id: str | None
    success: bool
    message: str
    ended_by: str
    exit_code: int | None
    time: float | None
    started: float | None
    artifact: dict[str, Any] | None
    role: str
    after_ranks: str
    unfit_nodes: dict[str, str] | None
    nodes: list[str] | None
    world_size: int | None
    trackers: list[dict[str, str]]
    together: bool | None


class Left(TypedDict, total=False):
    """The files that an attempt left in the run directory. A missing key means that there is no such file."""

    started: Started
    outcome: Outcome
