# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Launches as an aligned table for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import about, duration, moment, short_list
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import shown

HEAD = ("name", "key", "gen", "job", "standing", "queued", "started", "ended", "time", "what")


def listing(launches: Sequence[ModuleResult], now: float) -> list[str]:
    """A header line and one line for each launch from job_info; empty without launches. `now`: epoch seconds.

    Active launches come first, then the most recent. `time` is the time that a launch has run, or ran.
    """

    def order(launch: ModuleResult) -> tuple[bool, float]:
        return not launch["active"], -(launch["finished_at"] or launch["started_at"] or 0.0)

    rows = [HEAD, *(_row(launch, now) for launch in sorted(launches, key=order))]
    if len(rows) == 1:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD) - 1)]
    return ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[-1]]).rstrip() for row in rows]


def _row(launch: Mapping[str, Any], now: float) -> tuple[str, ...]:
    begun, ended = launch["started_at"], launch["finished_at"]
    took = "" if begun is None else duration(max(0.0, (ended or now) - begun))
    message = str(launch["message"])
    if launch["active"] and launch["nodes"]:
        message = f"on {short_list(launch['nodes'])}" + (
            f", attempt {launch['attempt'] + 1}" if launch["attempt"] else ""
        )
        message += _progress(launch.get("progress") or {})
    times = [moment(at, now) if at is not None else "-" for at in (_queued_at(launch), begun, ended)]
    who = (launch["name"], launch["key"], str(launch["generation"]), launch["job_id"] or "-")
    return (*who, shown(launch["standing"], launch["slurm_state"]), *times, took, message)


def _queued_at(launch: Mapping[str, Any]) -> float | None:
    """When the newest job of a launch was submitted."""
    times = [event["time"] for event in launch.get("journal") or [] if event["event"] == "submitted"]
    return times[-1] if times else None


def _progress(progress: Mapping[str, Any]) -> str:
    """The newest step of a running launch, as text that follows its nodes."""
    if progress.get("step") is None:
        return ""
    total, loss, left = progress["total"], progress["loss"], progress["seconds_left"]
    text = f", step {progress['step']}{'' if total is None else f'/{total}'}"
    text += "" if loss is None else f", loss {loss:.4g}"
    if left is not None:
        return f"{text}, {about(left)} left"
    age = progress.get("step_age")
    return text + ("" if age is None else f", last step {duration(age)} ago")
