# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sums of the ledgers of many launches by user, account, month and name. Reads only, apart from the index."""

from __future__ import annotations

import os
import pwd
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, ModuleResult, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.state_files import of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.answers import ask_slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import Allocation, LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launches import report
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.find import find_runs
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.history import History
from ansible_collections.rankzero.slurm.plugins.module_utils.run.select import STATE_ARGUMENTS, identity
from ansible_collections.rankzero.slurm.plugins.module_utils.run.status import trusted_runs
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm import parse
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import CLOCK_SLACK, Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.accounting import accounted
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.attempt_times import PARTS
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.launch_ledger import (
    USUAL,
    Reading,
    job_ids,
    ledger_with,
    submitted,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.ledger import Ledger
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.step_times import FEW_BYTES
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.tables import csv_text, lines_of

GROUPS = ("user", "account", "month", "name")
ARGUMENTS: dict[str, Any] = {
    "by": {"type": "list", "elements": "str", "choices": list(GROUPS), "default": ["user", "account", "month"]},
    "name": {"type": "str"},
    "since": {"type": "str"},
    "until": {"type": "str"},
    **STATE_ARGUMENTS,
}
# Options of the controller's action.
ACTION_ARGUMENTS: dict[str, Any] = {**ARGUMENTS, "dest": {"type": "path"}}
# The index of the ledgers of ended launches, next to that of their reports (run/search/history.py).
FILE = "usage"
READING = Reading(USUAL.limits, FEW_BYTES)
# What accounting does not know of a launch after this many seconds, it will not know later.
LATEST_SECONDS = 86400.0
# What a row has besides its groups.
AMOUNTS = ("launches", "node_hours", "gpu_hours", "energy_kwh", "queue_hours", "estimated")
COLUMNS = (*AMOUNTS, *PARTS)
# What a budget limits.
PROMISED = ("node_hours", "gpu_hours")
_MONTH = re.compile(r"\d{4}-(0[1-9]|1[0-2])")


@dataclass(frozen=True)
class Used:
    """What one launch used, in hours. `accounted`: accounting has told it; `parts`: node-hours by part, known ones.

    `promised`: what a launch that waits or runs may still use; None for one that has ended.
    """

    user: str
    account: str
    month: str
    name: str
    node_hours: float
    gpu_hours: float | None
    energy_kwh: float | None
    queue_hours: float | None
    accounted: bool
    parts: Mapping[str, float] = field(default_factory=dict)
    promised: Mapping[str, float] | None = None

    @classmethod
    def read(cls, document: JsonObject) -> Used:
        """Read it from the index. Raises TypeError for what is not complete."""
        return cls(**{name: value for name, value in document.items() if name not in ("run_dir", "logs_dir")})


def usage(slurm: Slurm, options: Parameters) -> ModuleResult:
    """Return the result of module usage_info. Raises `RankzeroError` for a wrong month."""
    for option in ("since", "until"):
        if options.get(option) and not _MONTH.fullmatch(str(options[option])):
            raise RankzeroError(f"{option}: {options[option]!r} is not a month; write YEAR-MONTH, such as 2026-03")
    root = os.path.expanduser(str(options["state_root"]))
    by_launch, untrusted = used_by(slurm, root, find_runs(root, name=options.get("name")))
    used = by_launch.values()
    active = [launch for launch in used if launch.promised is not None]
    first, last = options.get("since") or "", options.get("until") or "9"
    groups = list(dict.fromkeys(options["by"]))
    rows = sums([launch for launch in used if launch.month and first <= launch.month <= last], groups)
    return {
        "rows": rows,
        "lines": lines_of((*groups, *AMOUNTS, "steps", "lost", "stalls"), rows),
        "csv": csv_text((*groups, *COLUMNS), rows),
        "promised": {name: sum((launch.promised or {}).get(name, 0.0) for launch in active) for name in PROMISED},
        "untrusted": untrusted,
        "slurm_commands": slurm.commands,
    }


def used_by(
    slurm: Slurm, root: str, runs: Sequence[RunDirectory], *, clock: Callable[[], float] = time.time
) -> tuple[dict[str, Used], int]:
    """What launches of a state root used, by run directory, and how many could not be trusted.

    Those that have ended are indexed.
    """
    history = History.of(root, len(runs), FILE)
    known = [run for run in runs if history.has(run)]
    ended = {run.path: Used.read(history.launch(run)) for run in known}
    facts, bad = trusted_runs(run for run in runs if run.path not in ended)
    good = [run for run in runs if run.path in facts]
    answer = ask_slurm(slurm, good, read=facts)
    reports = [report(slurm, run, answer) for run in good]
    since = min((at for launch in reports if (at := submitted(launch.journal)) is not None), default=None)
    rows = accounted(slurm, [job_id for launch in reports for job_id in job_ids(launch)], since)
    owner = owner_of(root)
    now = clock()
    ledgers = {run.path: _ledger(run, launch, rows, now, slurm) for run, launch in zip(good, reports)}
    fresh = {run.path: _used(run, launch, ledgers[run.path], owner) for run, launch in zip(good, reports)}
    if not answer.silent and not answer.queue_only:
        # Accounting lags behind the end of a job. It is not waited for if there is none.
        never = slurm.accounting == "disabled" or slurm.find("sacct") is None
        late = {launch.run_dir for launch in reports if (launch.finished_at or now) < now - LATEST_SECONDS}
        settled = {path: asdict(use) for path, use in fresh.items() if use.accounted or never or path in late}
        history.keep(reports, settled)
    return {**ended, **fresh}, len(bad)


def owner_of(state_root: str) -> str:
    """Return the name of the user whose state root it is; the number without a name."""
    number = of(state_root).owner or 0
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _ledger(
    run: RunDirectory, launch: LaunchReport, rows: Mapping[str, Sequence[Allocation]] | None, now: float, slurm: Slurm
) -> Ledger:
    """The ledger of a launch. Logs that cannot be read are a warning: the hours are known without them."""
    since = submitted(launch.journal)
    # A job id may have been used by another job before.
    own = None if rows is None else {
        job_id: [held for held in allocations if since is None or held.began >= since - CLOCK_SLACK]
        for job_id, allocations in rows.items()
    }  # fmt: skip
    who = identity(run.path)

    def unread(why: str) -> None:
        slurm.note(f"{who.name}/{who.key}/{who.generation}: {why}; its hours count, its steps are not known")

    return ledger_with(run, launch, now, own, replace(READING, told=unread))


def _used(run: RunDirectory, launch: LaunchReport, ledger: Ledger, owner: str) -> Used:
    spec = (run.document("launch.json") or {}).get("spec")
    spec = spec if isinstance(spec, dict) else {}
    used = {"node_hours": ledger.node_seconds / 3600, "gpu_hours": (ledger.gpu_seconds or 0.0) / 3600}
    asked = asked_hours(spec)
    return Used(
        user=ledger.user or owner,
        account=ledger.account or str(_section(spec, "resources").get("account") or ""),
        month=_month(ledger),
        name=identity(run.path).name,
        node_hours=ledger.node_seconds / 3600,
        gpu_hours=None if ledger.gpu_seconds is None else ledger.gpu_seconds / 3600,
        energy_kwh=None if ledger.joules is None else ledger.joules / 3.6e6,
        queue_hours=None if ledger.queue is None else ledger.queue / 3600,
        accounted=ledger.accounted,
        parts={part: seconds / 3600 for part, seconds in ledger.parts.items() if seconds is not None},
        promised={name: max(0.0, asked[name] - used[name]) for name in PROMISED} if launch.active else None,
    )


def asked_hours(spec: Mapping[str, object]) -> dict[str, float]:
    """The most that the job of a spec may use (nodes x time x attempts), in hours; 0 for what the spec does not say."""
    resources, checkpoint = _section(spec, "resources"), _section(spec, "checkpoint")
    seconds = parse.parse_duration(str(resources.get("time") or "")) or 0
    restarts = _count(checkpoint.get("max_restarts"), 5) if str(checkpoint.get("requeue")).lower() == "true" else 0
    roles = [role for role in _section(spec, "roles").values() if isinstance(role, dict)]
    programs: list[Mapping[str, object]] = [{**resources, **_section(role, "resources"), **role} for role in roles] or [
        resources
    ]
    sizes = [(_count(each.get("nodes"), 1), _count(each.get("gpus_per_node"), 0)) for each in programs]
    sizes.append((_count(resources.get("spares"), 0), _count(resources.get("gpus_per_node"), 0)))
    shared = sum(_count(role.get("nodes"), 1) for role in roles if role.get("share"))
    hours = seconds / 3600 * (1 + restarts)
    nodes, gpus = sum(number for number, _gpus in sizes) - shared, sum(number * of_each for number, of_each in sizes)
    return {"node_hours": nodes * hours, "gpu_hours": gpus * hours}


def _section(spec: Mapping[str, object], name: str) -> Mapping[str, object]:
    section = spec.get(name)
    return section if isinstance(section, dict) else {}


def _count(value: object, default: int) -> int:
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 10 else default


def _month(ledger: Ledger) -> str:
    """The month in which the launch got its first nodes, in this host's time zone; empty where it had none."""
    if not ledger.allocations:
        return ""
    return time.strftime("%Y-%m", time.localtime(ledger.allocations[0].began))


def sums(used: Iterable[Used], groups: Sequence[str]) -> list[ModuleResult]:
    """A row for each combination of the groups, with the sums over its launches. What no launch knows is None."""
    rows: dict[tuple[str, ...], list[Used]] = {}
    for launch in used:
        rows.setdefault(tuple(str(getattr(launch, group)) for group in groups), []).append(launch)
    return [_row(dict(zip(groups, values)), rows[values]) for values in sorted(rows)]


def _row(groups: Mapping[str, str], launches: Sequence[Used]) -> ModuleResult:
    amounts: JsonObject = {
        "launches": len(launches),
        "node_hours": sum(launch.node_hours for launch in launches),
        **{
            name: _sum(getattr(launch, name) for launch in launches)
            for name in ("gpu_hours", "energy_kwh", "queue_hours")
        },
        "estimated": sum(not launch.accounted for launch in launches),
    }
    return {**groups, **amounts, **{part: _sum(launch.parts.get(part) for launch in launches) for part in PARTS}}


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
