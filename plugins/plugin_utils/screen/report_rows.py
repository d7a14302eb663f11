# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a launch on the screen: the proven values, or the reason of the failure. Pure except for reading logs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import Parameters, TaskVariables, record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import duration, verdict_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import FAILED, SUCCEEDED
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.card import (
    APART,
    after_ranks,
    hours_of,
    last_words,
    shown_value,
    standing_of,
    tracker_lines,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.hints import commands_of
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import BAD, GOOD, NOTE, WARNING, Row
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.log_facts import FetchedLogs

VALUES_SHOWN = 6
SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "=", "ne": "!="}
# How many lines of a traceback are shown, and how many bytes of the log before its end are read.
TRACEBACK_LINES = 8
READ_BYTES = 32768
LONGEST = 400
TITLE = 8
# An empty line, or Python's marks below a line of code, perhaps after torchrun's prefix.
_MARKS = re.compile(r"(\[rank\d+\]:)?[\s^~]*")

# The evidence is nothing but Slurm's final state: the cause is its description.
_STATE = re.compile("[A-Z_]+")


def report(
    task_vars: TaskVariables, launch: Parameters, result: Parameters, logs: Parameters, why: Parameters
) -> list[Row]:
    """The last rows of a launch. `why`: the result of module job_diagnosis, if it was run."""
    host = str(task_vars.get("inventory_hostname", "localhost"))
    standing, fetched = standing_of(result), record_of(FetchedLogs, logs)
    if standing == SUCCEEDED:
        rows = [_proven(host, launch, result)]
    elif standing == FAILED:
        rows = _failed(host, launch, result, fetched, why.get("diagnosis") or {})
    else:
        text = f"{launch.get('name')}: {standing}, job {launch.get('job_id')} continues. {_said(result)}".rstrip()
        rows = [Row(host, WARNING, text=text)]
    rows += [Row(host, NOTE, text=printable(hours_of(result), LONGEST))] if hours_of(result) else []
    rows += [Row(host, WARNING, text=line) for line in _unfit_lines(_unfit(result))]
    if (result.get("outcome") or {}).get("together") is False:
        rows.append(Row(host, WARNING, text=f"together: {APART}"))
    rows += [Row(host, WARNING, text=f"after the ranks: {after_ranks(result)}")] if after_ranks(result) else []
    rows += [Row(host, NOTE, text=line) for line in tracker_lines(result)]
    rows += [Row(host, NOTE, text=str(line)) for line in launch.get("explain") or []]
    end = f"logs {_here(fetched.dest)}" if fetched.dest else ""
    if standing not in (SUCCEEDED, FAILED):
        end = "   ".join(part for part in (end, hints(launch, task_vars)) if part)
    return rows + ([Row(host, NOTE, text=end)] if end else [])


def hints(launch: Parameters, task_vars: TaskVariables) -> str:
    """How to attach to a launch that is still running, and how to stop it."""
    attach, cancel = commands_of(str(launch.get("run_dir")), task_vars).values()
    return f"again: {attach}   stop: {cancel}"


def _proven(host: str, launch: Parameters, result: Parameters) -> Row:
    artifact = result.get("artifact") or {}
    values = artifact.get("scalars") or {}
    require = (launch.get("proof") or {}).get("require") or {}
    order = [*(name for name in require if name in values), *(name for name in values if name not in require)]
    shown = [f"{printable(name, 40)} {shown_value(values[name])}{_wanted(require.get(name))}" for name in order]
    took = result.get("wall_time")
    text = f"{'Proven' if artifact else 'Succeeded'}{'' if took is None else f' in {duration(float(took))}'}"
    text += f": {', '.join(shown[:VALUES_SHOWN])}" if shown else ""
    text += f" and {len(shown) - VALUES_SHOWN} more" if len(shown) > VALUES_SHOWN else ""
    path = artifact.get("path")
    right = os.path.relpath(str(path), str(launch.get("run_dir"))) if path else ""
    return Row(host, GOOD, text=text, right=right)


def _wanted(conditions: object) -> str:
    if not isinstance(conditions, Mapping) or not conditions:
        return ""
    words = [f"{SIGNS.get(str(name), name)} {shown_value(value)}" for name, value in conditions.items()]
    return f" ({', '.join(words)})"


def _failed(host: str, launch: Parameters, result: Parameters, logs: FetchedLogs, why: Parameters) -> list[Row]:
    took = result.get("wall_time")
    after = "" if took is None else f" after {duration(float(took))}"
    root = why.get("root") or {}
    cause = str(why.get("what") or "") if root else ""
    lines: list[tuple[str, str]] = []
    local = _local(root, logs)
    if root:
        unfit = _unfit(result).values()  # each in a row of its own
        lines += [("", line) for line in _traceback(_lines(local, root, logs), root) if not _STATE.fullmatch(line)]
        if not local and any(str(reason) in str(root.get("text")) for reason in unfit):
            lines = []
        place = " ".join(part for part in (_rank(root.get("rank")), _on(root.get("node"))) if part)
        lines.append(("where", place or ", ".join(map(str, why.get("nodes") or []))))
        lines.append(("log", f"{_here(local)}:{root.get('line')}" if local else ""))
        told = verdict_of(result.get("outcome"), cause).own
        lines += [("verdict", told)] if not any(told in line for _title, line in lines) else []
        lines.append(("advice", str(why.get("remedy") or "")))
    elif logs.dest:
        lines += [("", line) for line in last_words(logs.dest)]
    head = f"{launch.get('name')} failed{after}: {cause or _said(result)}"
    shown = [f"    {title.ljust(TITLE)}{text}" if title else f"    {text}" for title, text in lines if text]
    return [Row(host, BAD, text=head), *(Row(host, NOTE, text=line) for line in shown)]


def _said(result: Parameters) -> str:
    return str(result.get("message") or result.get("msg") or "no verdict")


def _unfit(result: Parameters) -> Parameters:
    return (result.get("outcome") or {}).get("unfit_nodes") or {}


def _unfit_lines(unfit: Parameters) -> list[str]:
    """Why nodes are not fit, each reason once."""
    nodes: dict[str, list[str]] = {}
    for node, reason in unfit.items():
        nodes.setdefault(str(reason), []).append(str(node))
    return [f"{', '.join(named)} {'is' if len(named) == 1 else 'are'} not fit: {why}" for why, named in nodes.items()]


def _rank(rank: object) -> str:
    return "" if rank is None else f"rank {rank}"


def _on(node: object) -> str:
    return "" if node is None else f"on {node}"


def _here(path: object) -> str:
    """A path as the user can type it here: relative if it is below the working directory."""
    relative = os.path.relpath(str(path))
    return str(path) if relative.startswith("..") else relative


def _local(root: Parameters, logs: FetchedLogs) -> str:
    """The fetched log with the root line; empty if not fetched. A diagnosis names it relative to the run directory."""
    name = str(root.get("file") or "")
    if not name.startswith("logs/") or not logs.dest:
        return ""
    path = os.path.normpath(os.path.join(os.path.dirname(logs.dest), name))
    inside = path.startswith(logs.dest.rstrip("/") + "/")
    return path if inside and os.path.isfile(path) else ""


def _traceback(lines: Sequence[str], root: Parameters) -> list[str]:
    """The log's lines from the beginning of the traceback to the root line; without a traceback, only the root line."""
    text = str(root.get("text") or "")
    end = next((index for index in range(len(lines) - 1, -1, -1) if text and text[:40] in lines[index]), None)
    if end is None:
        return [printable(text, LONGEST)] if text else []
    begin = max(0, end - TRACEBACK_LINES + 1)
    opened = [index for index in range(end) if "Traceback (most recent call last)" in lines[index]]
    # The last frames of a traceback are the informative ones; earlier lines do not belong to it.
    begin = max(begin, opened[-1] + 1) if opened else end
    return [printable(line, LONGEST) for line in lines[begin : end + 1] if not _MARKS.fullmatch(line)]


def _lines(path: str, root: Parameters, logs: FetchedLogs) -> list[str]:
    """The lines up to the root line, if they are within the last bytes before it."""
    kept: list[bytes] = []
    number, size = int(root.get("line") or 0), 0
    if not path or not number:
        return []
    try:
        with Place.of_logs(logs.dest).files() as files, files.at(path) as stream:
            for count, line in enumerate(iter(lambda: stream.readline(READ_BYTES), b""), 1):
                kept.append(line)
                size += len(line)
                while size > READ_BYTES and len(kept) > 1:
                    size -= len(kept.pop(0))
                if count >= number:
                    break
    except OSError:
        return []
    return [line.decode("utf-8", "replace").rstrip("\r\n") for line in kept]
