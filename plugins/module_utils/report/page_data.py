# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the page of a launch shows, from its run directory, in bounded size. Reads only."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import one_alone
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.inputs.ref import recorded
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.names import by_rank, log_names
from ansible_collections.rankzero.slurm.plugins.module_utils.logs.redact import redactor_of
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.from_files import (
    metric_files,
    read_event_files,
    read_json_lines,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.from_logs import (
    MOST_BYTES,
    MOST_OF_A_RANK,
    PART,
    MetricSet,
    RankSteps,
    Span,
    read_metrics,
    read_rank,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.heat_maps import read_heat_maps
from ansible_collections.rankzero.slurm.plugins.module_utils.report.marks import marks, preparations
from ansible_collections.rankzero.slurm.plugins.module_utils.report.timeline import timeline
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_end import Artifact, Tracked
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_report import LaunchReport
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launches import diagnosed
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.launch_ledger import ledger_of

# Limits: attempts, ranks in a chart, lines of a table, characters of a value, values.
MOST_ATTEMPTS, MOST_RANKS, MOST_LINES, MOST_CHARACTERS, MOST_VALUES = 32, 4096, 200, 600, 400
MOST_TRACKERS = 8
DIAGNOSIS = "diagnosis.json"


@dataclass
class Metrics:
    """The metrics and steps of all attempts. `notes`: what could not be read, for people."""

    collected: MetricSet = field(default_factory=MetricSet)
    ranks: list[RankSteps] = field(default_factory=list)
    attempt: int | None = None
    notes: list[str] = field(default_factory=list)


def page_data(run: RunDirectory, launch: LaunchReport, slurm: Slurm | None = None) -> ModuleResult:
    """The summary of a launch. `slurm`: also its nodes, ranks, tables and variables, which a row of a list leaves out.

    Raises `Untrusted` for files that another user could have written.
    """
    manifest = run.document("launch.json") or {}
    spans = _spans(launch)
    metrics = _metrics(run, spans, full=slurm is not None)
    clean = redactor_of(run)
    summary: dict[str, Any] = {
        "name": launch.name, "key": launch.key, "generation": launch.generation, "job_id": launch.job_id,
        "standing": launch.standing, "slurm_state": launch.slurm_state,
        "success": launch.success, "completed": launch.completed, "message": diagnosed(run, launch),
        "run_dir": launch.run_dir, "nodes": list(launch.nodes)[:MOST_RANKS], "started_at": launch.started_at,
        "finished_at": launch.finished_at, "wall_time": launch.wall_time,
        "world_size": (run.started() or {}).get("world_size"),
        "values": _values(launch),
        "trackers": _trackers(run),
        "variables": _variables(manifest), "provenance": _provenance(manifest, launch),
        "metrics": {name: series.as_dict() for name, series in metrics.collected.series.items()},
        "notes": _notes(metrics),
        "spec": {name: value[:MOST_CHARACTERS] for name, value in _flat(manifest.get("spec")).items()},
    }  # fmt: skip
    if slurm is None:
        return cast("ModuleResult", clean.document(summary))
    rows = launch.attempts[-MOST_ATTEMPTS:]
    ledger = ledger_of(run, launch, time.time(), slurm)
    numbers = [span.attempt for span in spans]
    phases = timeline(launch, ledger, {number: preparations(run, number) for number in numbers})
    began, ended = phases[0].began if phases else 0.0, phases[-1].ended if phases else 0.0
    samples = read_heat_maps(run.shown("monitor"), numbers, began, ended)
    summary.update(
        attempts=[_attempt(attempt) for attempt in rows],
        ranks=[_rank(rank) for rank in metrics.ranks],
        ranks_attempt=metrics.attempt,
        timeline=[phase.as_dict() for phase in phases],
        marks=[mark.as_dict() for mark in marks(ledger.attempts, {row.attempt: row.nodes or () for row in rows})],
        heat_maps=samples.as_list(),
        preflight=_preflight(run, launch.attempt),
        variables=_variables(manifest),
        cause=[line[:MOST_CHARACTERS] for line in _cause(run)],
        ledger=ledger.as_dict(),
        provenance=_provenance(manifest, launch),
    )
    return cast("ModuleResult", clean.document(summary))


def _spans(launch: LaunchReport) -> list[Span]:
    rows = launch.attempts[-MOST_ATTEMPTS:]
    now = None if launch.completed else time.time()
    return [Span(row.attempt, row.started_at, row.finished_at or (now if row is rows[-1] else None)) for row in rows]


def _metrics(run: RunDirectory, spans: Sequence[Span], *, full: bool) -> Metrics:
    metrics = Metrics()
    for span in spans:
        folder = run.shown(os.path.join("logs", str(span.attempt)))
        with one_alone(metrics.notes.append):
            _metrics_of(metrics, folder, span, len(spans), full=full)
    _files(run, metrics, spans[-1].attempt if spans else 0)
    return metrics


def _metrics_of(metrics: Metrics, folder: Beneath, span: Span, spans: int, *, full: bool) -> None:
    """Add what the logs of an attempt tell. `spans`: how many attempts share the limit of bytes."""
    logs = list(by_rank(log_names(folder.names)).items())[:MOST_RANKS]
    budget = max(4 * PART, min(MOST_OF_A_RANK, MOST_BYTES // max(1, len(logs) * spans)))
    before = sum(series.count for series in metrics.collected.series.values())
    # Most programs print their metrics on the first rank, Megatron on the last.
    for rank, name in dict.fromkeys([*logs[:1], *logs[-1:]]):
        read_metrics(metrics.collected, folder, name, span, rank)
        if sum(series.count for series in metrics.collected.series.values()) > before:
            break
    if full:
        steps = [read_rank(folder, name, rank, budget) for rank, name in logs]
        if any(of_rank.lines for of_rank in steps):
            metrics.ranks, metrics.attempt = [of_rank for of_rank in steps if of_rank.lines], span.attempt


def _files(run: RunDirectory, metrics: Metrics, attempt: int) -> None:
    """Add the metrics of JSON-lines and TensorBoard's files in the working directory of the ranks."""
    root = run.shown("work")
    lines, folders = metric_files(root)
    for name in lines:
        read_json_lines(metrics.collected, root, name, attempt)
    for folder in folders:
        note = read_event_files(metrics.collected, os.path.join(root.path, folder), attempt)
        if note:
            metrics.notes.append(note)
            break


def _notes(metrics: Metrics) -> list[str]:
    extracted, notes = metrics.collected, list(metrics.notes)
    if extracted.dropped:
        notes.append(f"{extracted.dropped} values of further metrics were left out")
    if extracted.estimated:
        notes.append("the log lines have no time stamps: times of steps are estimated")
    if extracted.shifted:
        notes.append(f"the clocks of the log and of the job are {abs(extracted.shifted):.0f} s apart: corrected")
    for name, series in extracted.series.items():
        if series.not_numbers:
            notes.append(
                f"{name}: {series.not_numbers} of {series.count} values are not finite, the first at step "
                f"{series.first_not_a_number}"
            )
    return notes[:MOST_LINES]


def _attempt(row: Any) -> ModuleResult:
    names = ("attempt", "job_id", "slurm_state", "started_at", "finished_at", "exit_code", "reason", "node_list")
    return {name: getattr(row, name) for name in names}


def _rank(rank: RankSteps) -> ModuleResult:
    quantiles = [round(value, 6) for value in rank.seconds.quantiles()]
    throughput = [float(f"{value:.6g}") for value in rank.throughput.quantiles()]
    counted = {"rank": rank.rank, "lines": rank.lines, "first": rank.first, "last": rank.last}
    return {**counted, "seconds": quantiles, "throughput": throughput}


def _preflight(run: RunDirectory, attempt: int) -> list[str]:
    """The newest preflight table. An attempt on a spare node may have no preflight of its own."""
    for number in range(attempt, -1, -1):
        text = run.text(os.path.join("preflight", str(number), "table"))
        if text:
            return [line[:MOST_CHARACTERS] for line in text.splitlines()[:MOST_LINES]]
    return []


def _cause(run: RunDirectory) -> list[str]:
    lines = (run.document(DIAGNOSIS) or {}).get("lines")
    return [str(line) for line in lines[:MOST_LINES]] if isinstance(lines, list) else []


def _variables(manifest: Mapping[str, Any]) -> list[ModuleResult]:
    rows = manifest.get("variables")
    names = ("name", "value", "reason", "set_by")
    return [
        {name: _text(row.get(name, "")) for name in names}
        for row in (rows if isinstance(rows, list) else [])[:MOST_LINES]
        if isinstance(row, dict)
    ]


def _trackers(run: RunDirectory) -> list[dict[str, str]]:
    """Where the launch is found in its trackers, as its job has recorded it."""
    try:
        rows = json.loads(run.text("trackers.json") or "[]")
    except (ValueError, RecursionError):
        return []
    kept = Tracked.all_of(rows)[:MOST_TRACKERS]
    return [{name: _text(value) for name, value in vars(tracked).items()} for tracked in kept]


def _values(launch: LaunchReport) -> dict[str, str]:
    values = launch.artifact.scalars if launch.artifact else {}
    return {str(name): _text(value) for name, value in list(values.items())[:40]}


def _provenance(manifest: Mapping[str, Any], launch: LaunchReport) -> list[ModuleResult]:
    artifact = launch.artifact or Artifact()
    code = manifest.get("code")
    rows: list[tuple[str, object]] = [
        ("key", manifest.get("key") or launch.key), ("collection", manifest.get("collection")),
        *((f"code {name}", code[name]) for name in _CODE if isinstance(code, dict) and code.get(name) is not None),
        ("runtime", manifest.get("runtime")),
        *((ref.kind, ref.key) for ref in recorded(manifest.get("refs"))),
        ("artifact", artifact.path), ("artifact SHA-256", artifact.sha256),
        ("run directory", launch.run_dir),
    ]  # fmt: skip
    return [{"name": name, "value": _text(value)} for name, value in rows[:MOST_LINES] if value not in (None, "", [])]


_CODE = ("repository", "commit", "branch", "dirty", "changed", "digest", "diff_digest")


def _flat(spec: object, prefix: str = "") -> dict[str, str]:
    """The spec with dotted names."""
    flat: dict[str, str] = {}
    for name, value in spec.items() if isinstance(spec, dict) else ():
        if isinstance(value, dict) and value:
            flat.update(_flat(value, f"{prefix}{name}."))
        else:
            flat[f"{prefix}{name}"] = _text(value)
    return dict(list(flat.items())[:MOST_VALUES])


def _text(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text[:MOST_CHARACTERS]
