# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Launches as an aligned table for people. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import about, duration, moment, short_list
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import shown

Launch = Mapping[str, Any]
KEY_DIGITS = 8


def _took(launch: Launch, now: float) -> float | None:
    begun = launch["started_at"]
    return None if begun is None else max(0.0, (launch["finished_at"] or now) - begun)


#: Column -> the value that it shows and is sorted by, None if there is none.
COLUMNS: Mapping[str, Callable[[Launch, float], Any]] = {
    "name": lambda launch, _now: launch["name"],
    "key": lambda launch, _now: launch["key"],
    "gen": lambda launch, _now: launch["generation"],
    "job": lambda launch, _now: launch["job_id"],
    "standing": lambda launch, _now: shown(launch["standing"], launch["slurm_state"]),
    "queued": lambda launch, _now: _queued_at(launch),
    "started": lambda launch, _now: launch["started_at"],
    "ended": lambda launch, _now: launch["finished_at"],
    "time": _took,
    "result": lambda launch, _now: next(iter(numbers_of(launch).values()), None),
}
HEAD = (*COLUMNS, "what")
_MOMENTS = ("queued", "started", "ended")
# What a narrow screen does without, the first one first, until so many characters are left for what is said.
_LEFT_OUT, _SAID = ("queued", "ended", "gen", "started", "job"), 24
_LEAST = 8


def listing(launches: Sequence[ModuleResult], now: float, sort: str = "", width: int = 0) -> list[str]:
    """A header line and one line for each launch from job_info; empty without launches. `now`: epoch seconds.

    Active launches come first, then the most recent, if `sort` names no other order, in which they are then given.
    `time` is the time that a launch has run, or ran. `width`: of the screen in characters; 0 cuts nothing.
    """

    def order(launch: ModuleResult) -> tuple[bool, float]:
        return not launch["active"], -(launch["finished_at"] or launch["started_at"] or 0.0)

    ordered = launches if sort else sorted(launches, key=order)
    rows = [HEAD, *(_row(launch, now, sort.lstrip("-")) for launch in ordered)]
    if len(rows) == 1:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    kept = list(range(len(COLUMNS)))
    for title in _LEFT_OUT:
        if width and sum(widths[column] + 2 for column in kept) + _SAID > width:
            kept.remove(HEAD.index(title))
    if width:
        rest = sum(widths[column] + 2 for column in kept[1:]) + 2 + _LEAST
        widths[0] = max(_LEAST, min(widths[0], width - rest))
        rows = [(printable(row[0], widths[0]), *row[1:]) for row in rows]
    lines = ["  ".join([*(row[column].ljust(widths[column]) for column in kept), row[-1]]).rstrip() for row in rows]
    return [printable(line, width) for line in lines] if width else lines


def in_order(launches: Sequence[ModuleResult], sort: str, now: float) -> list[ModuleResult]:
    """The launches by a column, or by a number of their results; `-` before it means the largest first. Those that have
    no such value come last. Raises `RankzeroError` if no launch has it.
    """
    name = sort.lstrip("-")
    of_column = COLUMNS.get(name)
    values = [of_column(launch, now) if of_column else numbers_of(launch).get(name) for launch in launches]
    if launches and not of_column and values == [None] * len(values):
        known = dict.fromkeys(printable(each, 40) for launch in launches for each in numbers_of(launch))
        raise RankzeroError(
            f"sort: {printable(name, 40)!r} is neither a column ({', '.join(COLUMNS)}) nor a number of these launches "
            f"({', '.join(known) or 'they have none'})"
        )
    there = sorted((index for index, value in enumerate(values) if value is not None), key=lambda at: _sign(values[at]))
    there = there[::-1] if sort.startswith("-") else there
    return [launches[index] for index in (*there, *(at for at, value in enumerate(values) if value is None))]


def numbers_of(launch: Launch) -> dict[str, float]:
    """The numbers of a valid artifact, the required ones and the loss first; of a running launch the newest loss."""
    artifact = launch.get("artifact") or {}
    scalars = artifact.get("scalars") or {} if artifact.get("valid") else {}
    loss = (launch.get("progress") or {}).get("loss")
    scalars = scalars or ({} if loss is None else {"loss": loss})
    first = [*(artifact.get("required") or ()), "loss"]
    return {
        name: scalars[name]
        for name in dict.fromkeys([*(name for name in first if name in scalars), *scalars])
        if isinstance(scalars[name], (int, float))
        and not isinstance(scalars[name], bool)
        and math.isfinite(scalars[name])
    }


def _sign(value: Any) -> Any:
    """What a value is sorted by: of text such as a job's id, its numbers as numbers."""
    if not isinstance(value, str):
        return value
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d{1,18})", value)]


def _row(launch: Launch, now: float, number: str) -> tuple[str, ...]:
    message = str(launch["message"])
    if launch["active"] and launch["nodes"]:
        message = f"on {short_list(launch['nodes'])}" + (
            f", attempt {launch['attempt'] + 1}" if launch["attempt"] else ""
        )
        message += _progress(launch.get("progress") or {})
    cells = {title: _cell(title, value(launch, now), now) for title, value in COLUMNS.items()}
    numbers = numbers_of(launch)
    asked = number if number in numbers else next(iter(numbers), None)
    cells["result"] = "" if asked is None else f"{printable(asked, 20)} {numbers[asked]:.4g}"
    return (*cells.values(), message)


def _cell(title: str, value: Any, now: float) -> str:
    if title == "time":
        return "" if value is None else duration(value)
    if title in _MOMENTS and value is not None:
        return moment(value, now)
    return "-" if value is None else str(value)[:KEY_DIGITS] if title == "key" else str(value)


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
