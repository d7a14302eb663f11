# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a launch on the screen: the proven values, or the reason of the failure. Pure except for reading logs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import TaskVariables, play_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import duration, verdict_of
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import SUCCEEDED, UNPROVEN
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.card import (
    APART,
    after_ranks,
    last_words,
    shown_value,
    tracker_lines,
)
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.ending import Ending, FetchedLogs, Launched
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.hints import commands_of
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.live.rows import BAD, GOOD, NOTE, WARNING, Row

if TYPE_CHECKING:
    from ansible_collections.rankzero.slurm.plugins.module_utils.diagnosis.diagnosis import Evidence

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


def report(task_vars: TaskVariables, ending: Ending) -> list[Row]:
    """The last rows of a launch."""
    host = play_of(task_vars).host
    launch, end, logs = ending.launch, ending.end, ending.logs
    if end.standing == SUCCEEDED:
        rows = [_proven(host, ending)]
    elif end.standing in UNPROVEN:
        rows = _failed(host, ending)
    else:
        text = f"{launch.name}: {end.standing}, job {launch.job_id} continues. {_words(ending)}".rstrip()
        rows = [Row(host, WARNING, text=text)]
    rows += [Row(host, NOTE, text=printable(ending.hours, LONGEST))] if ending.hours else []
    rows += [Row(host, WARNING, text=line) for line in _unfit_lines(end.unfit)]
    rows += [Row(host, WARNING, text=f"together: {APART}")] if end.apart else []
    rows += [Row(host, WARNING, text=f"after the ranks: {after_ranks(end)}")] if end.after_ranks else []
    rows += [Row(host, NOTE, text=line) for line in (*tracker_lines(end), *launch.explain)]
    last = f"logs {_here(logs.dest)}" if logs.dest else ""
    if end.standing != SUCCEEDED and end.standing not in UNPROVEN:
        last = "   ".join(part for part in (last, hints(launch, task_vars)) if part)
    return rows + ([Row(host, NOTE, text=last)] if last else [])


def hints(launch: Launched, task_vars: TaskVariables) -> str:
    """How to attach to a launch that is still running, and how to stop it."""
    attach, cancel = commands_of(launch.run_dir, task_vars).values()
    return f"again: {attach}   stop: {cancel}"


def _proven(host: str, ending: Ending) -> Row:
    artifact, took = ending.end.artifact, ending.end.wall_time
    values = artifact.scalars if artifact else {}
    require = ending.launch.proof.require if ending.launch.proof else {}
    order = [*(name for name in require if name in values), *(name for name in values if name not in require)]
    shown = [f"{printable(name, 40)} {shown_value(values[name])}{_wanted(require.get(name, {}))}" for name in order]
    text = f"{'Proven' if artifact else 'Succeeded'}{'' if took is None else f' in {duration(took)}'}"
    text += f": {', '.join(shown[:VALUES_SHOWN])}" if shown else ""
    text += f" and {len(shown) - VALUES_SHOWN} more" if len(shown) > VALUES_SHOWN else ""
    right = os.path.relpath(artifact.path, ending.launch.run_dir) if artifact and artifact.path else ""
    return Row(host, GOOD, text=text, right=right)


def _wanted(conditions: Mapping[str, object]) -> str:
    words = [f"{SIGNS.get(name, name)} {shown_value(value)}" for name, value in conditions.items()]
    return f" ({', '.join(words)})" if words else ""


def _failed(host: str, ending: Ending) -> list[Row]:
    end, logs, why = ending.end, ending.logs, ending.diagnosis
    cause = why.what if why and why.root else ""
    lines: list[tuple[str, str]] = []
    if why and why.root:
        root, local = why.root, _local(why.root, logs)
        lines += [("", line) for line in _traceback(_lines(local, root, logs), root) if not _STATE.fullmatch(line)]
        if not local and any(reason in root.text for reason in end.unfit.values()):
            lines = []  # each of them is in a row of its own
        place = " ".join(part for part in (_rank(root.rank), _on(root.node)) if part)
        lines.append(("where", place or ", ".join(why.nodes)))
        lines.append(("log", f"{_here(local)}:{root.line}" if local else ""))
        verdict = verdict_of(end.outcome, cause).own
        lines += [("verdict", verdict)] if not any(verdict in line for _title, line in lines) else []
        lines.append(("advice", why.remedy))
    elif logs.dest:
        lines += [("", line) for line in last_words(logs.dest)]
    after = "" if end.wall_time is None else f" after {duration(end.wall_time)}"
    head = f"{ending.launch.name} failed{after}: {cause or _words(ending)}"
    shown = [f"    {title.ljust(TITLE)}{text}" if title else f"    {text}" for title, text in lines if text]
    return [Row(host, BAD, text=head), *(Row(host, NOTE, text=line) for line in shown)]


def _words(ending: Ending) -> str:
    return ending.message or "no verdict"


def _unfit_lines(unfit: Mapping[str, str]) -> list[str]:
    """Why nodes are not fit, each reason once."""
    nodes: dict[str, list[str]] = {}
    for node, reason in unfit.items():
        nodes.setdefault(reason, []).append(node)
    return [f"{', '.join(named)} {'is' if len(named) == 1 else 'are'} not fit: {why}" for why, named in nodes.items()]


def _rank(rank: object) -> str:
    return "" if rank is None else f"rank {rank}"


def _on(node: object) -> str:
    return "" if node is None else f"on {node}"


def _here(path: object) -> str:
    """A path as the user can type it here: relative if it is below the working directory."""
    relative = os.path.relpath(str(path))
    return str(path) if relative.startswith("..") else relative


def _local(root: Evidence, logs: FetchedLogs) -> str:
    """The fetched log with the root line; empty if not fetched. A diagnosis names it relative to the run directory."""
    if not root.file.startswith("logs/") or not logs.dest:
        return ""
    path = os.path.normpath(os.path.join(os.path.dirname(logs.dest), root.file))
    inside = path.startswith(logs.dest.rstrip("/") + "/")
    return path if inside and os.path.isfile(path) else ""


def _traceback(lines: Sequence[str], root: Evidence) -> list[str]:
    """The log's lines from the beginning of the traceback to the root line; without a traceback, only the root line."""
    text = root.text
    end = next((index for index in range(len(lines) - 1, -1, -1) if text and text[:40] in lines[index]), None)
    if end is None:
        return [printable(text, LONGEST)] if text else []
    begin = max(0, end - TRACEBACK_LINES + 1)
    opened = [index for index in range(end) if "Traceback (most recent call last)" in lines[index]]
    # The last frames of a traceback are the informative ones; earlier lines do not belong to it.
    begin = max(begin, opened[-1] + 1) if opened else end
    return [printable(line, LONGEST) for line in lines[begin : end + 1] if not _MARKS.fullmatch(line)]


def _lines(path: str, root: Evidence, logs: FetchedLogs) -> list[str]:
    """The lines up to the root line, if they are within the last bytes before it."""
    kept: list[bytes] = []
    size = 0
    if not path or not root.line:
        return []
    try:
        with Place.of_logs(logs.dest).files() as files, files.at(path) as stream:
            for count, line in enumerate(iter(lambda: stream.readline(READ_BYTES), b""), 1):
                kept.append(line)
                size += len(line)
                while size > READ_BYTES and len(kept) > 1:
                    size -= len(kept.pop(0))
                if count >= root.line:
                    break
    except OSError:
        return []
    return [line.decode("utf-8", "replace").rstrip("\r\n") for line in kept]
