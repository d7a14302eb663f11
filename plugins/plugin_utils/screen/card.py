# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result card: the outcome of a launch in a few lines. Pure except for reading fetched logs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import one_alone
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import Parameters, record_of
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import IN_PLACE, duration, node_list, significant
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.checklist import ends_by_rank, read_ends
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import UNKNOWN
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.log_facts import (
    FetchedLogs,
    evidence,
    newest,
    rank_logs,
)

TAIL_LINES = 8
# Of the end of a log, this much is searched.
TAIL_BYTES = 32768
VALUES_SHOWN = 12
APART = "no: each rank ran on its own (all loaded torch, none was in a process group with others)"
TRACKERS_SHOWN = 8
# The last line of a Python traceback, with the exception's message.
_EXCEPTION = re.compile(
    r"^(?:\[[^\]]*\]:?\s*)?(?:[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)|Killed|Segmentation fault)\b"
)


def shown_value(value: object) -> str:
    """A value of an artifact for one line: numbers with four digits, text up to 24 characters."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return significant(value, 4)
    return printable(value, 24)


def standing_of(result: Parameters) -> str:
    """The standing that module `job_wait` returned; unknown where it could not return any."""
    return str(result.get("standing") or UNKNOWN)


def hours_of(result: Parameters) -> str:
    """What the hours of a launch that has ended went to, in one line; empty where that is not known."""
    ledger = result.get("ledger")
    return str(ledger.get("sentence") or "") if isinstance(ledger, Mapping) else ""


def card(launch: Parameters, result: Parameters, logs: Parameters, why: Parameters | None = None) -> list[str]:
    """The lines of the card, from the results of the role's tasks. `why`: that of module job_diagnosis, if it was run.

    A diagnosis with a cause follows the card. A message that only describes Slurm's final state would repeat it.
    """
    fetched = record_of(FetchedLogs, logs)
    nodes = result.get("nodes") or []
    job = f"{result.get('job_id') or launch.get('job_id') or '(none)'}, generation {launch.get('generation')}"
    attempt, state = result.get("attempt"), result.get("slurm_state") or "not known to Slurm"
    rows: list[tuple[str, str]] = [
        ("job", job + (f", attempt {attempt}" if attempt else "") + f", {state}"),
        ("nodes", f"{len(nodes)}: {node_list(nodes)}" if isinstance(nodes, list) else str(nodes)),
        ("wall time", duration(result.get("wall_time"))),
        ("hours", hours_of(result)),
    ]
    unfit = (result.get("outcome") or {}).get("unfit_nodes") or {}
    rows += [("not fit", f"{node}: {why}") for node, why in unfit.items()]
    if (result.get("outcome") or {}).get("together") is False:
        rows.append(("together", APART))
    rows.append(("after", after_ranks(result)))
    if fetched.dest:
        with one_alone(lambda why: rows.append(("log", why))):
            rows += evidence(fetched.dest)
    artifact = result.get("artifact") or {}
    if artifact:
        values = list((artifact.get("scalars") or {}).items())
        shown = [f"{printable(name, 40)} {shown_value(value)}" for name, value in values[:VALUES_SHOWN]]
        path = os.path.relpath(str(artifact.get("path")), str(launch.get("run_dir")))
        rows.append(("artifact", f"{path} is {'proven' if artifact.get('valid') else 'not valid'}"))
        rows += [("", " · ".join(shown[start : start + 4])) for start in range(0, len(shown), 4)]
    message = str(result.get("message") or result.get("msg") or "")
    if not (((why or {}).get("diagnosis") or {}).get("root") and message.startswith(f"{result.get('slurm_state')}: ")):
        rows.append(("verdict", message))
    rows += [("tracker", line) for line in tracker_lines(result)]
    rows += [("code", line) for line in launch.get("plan") or () if str(line).startswith(IN_PLACE)]
    rows.append(("run", f"{launch.get('run_dir')} (on the cluster)"))
    if fetched.dest:
        rows.append(("logs", f"{os.path.relpath(fetched.dest)} (every rank's, fetched here)"))
    elif fetched.msg:
        rows.append(("logs", f"not fetched: {fetched.msg}"))
    explained = launch.get("explain") or []
    rows += [("variables" if index == 0 else "", str(line)) for index, line in enumerate(explained)]
    lines = [f"{launch.get('name')} {standing_of(result)}"]
    lines += [f"  {title:<10}{text}" for title, text in rows if text]
    return [printable(line) for line in lines]


def after_ranks(result: Parameters) -> str:
    """What went wrong on the nodes after the ranks had ended; empty if nothing did."""
    return printable(str((result.get("outcome") or {}).get("after_ranks") or ""), 400)


def tracker_lines(result: Parameters) -> list[str]:
    """Where a launch is found in each of its trackers; the id of its run where the address is not known."""
    rows = [row for row in (result.get("outcome") or {}).get("trackers") or [] if isinstance(row, dict)]
    return [
        printable(f"{row.get('tracker')} {row.get('place') or 'run ' + str(row.get('run'))}", 300)
        for row in rows[:TRACKERS_SHOWN]
    ]


def last_words(logs_dir: str) -> list[str]:
    """The end of the most informative log: of the lowest rank with an exception, or else the job's own log."""
    with Place.of_logs(logs_dir).files() as logs:
        paths = rank_logs(logs)
        tails = [(paths[rank], log.tail.splitlines()) for rank, log in ends_by_rank(paths, TAIL_BYTES, logs.at)]
        for path, tail in tails:
            for index in range(len(tail) - 1, -1, -1):
                if _EXCEPTION.match(tail[index]):
                    return _titled(path, logs_dir, tail[max(0, index - TAIL_LINES + 1) : index + 1])
        others = [*_named(logs, "step.log"), *_named(logs, "job.")]
        ends = [(path, read_ends(path, TAIL_BYTES, logs.at).tail.splitlines()) for path in others]
        for path, tail in [*ends, *tails]:
            lines = [line for line in tail if line.strip()]
            if lines:
                return _titled(path, logs_dir, lines[-TAIL_LINES:])
    return []


def _titled(path: str, logs_dir: str, lines: Sequence[str]) -> list[str]:
    return [f"from {os.path.relpath(path, logs_dir)}:", *(f"  {printable(line)}" for line in lines)]


def _named(logs: Beneath, start: str) -> list[str]:
    return [
        os.path.join(folder.path, name)
        for folder in newest(logs)
        for name in folder.names("")
        if name.startswith(start)
    ]
