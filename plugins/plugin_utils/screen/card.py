# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result card: the outcome of a launch in a few lines. Pure except for reading fetched logs."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import one_alone
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import IN_PLACE, duration, node_list, significant
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.checklist import ends_by_rank, read_ends
from ansible_collections.rankzero.slurm.plugins.module_utils.run.launch_end import LaunchEnd
from ansible_collections.rankzero.slurm.plugins.plugin_utils.output.writer import Place
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.ending import Ending
from ansible_collections.rankzero.slurm.plugins.plugin_utils.screen.log_facts import evidence, newest, rank_logs

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


def card(ending: Ending) -> list[str]:
    """The lines of the card.

    A diagnosis with a cause follows the card. A message that only describes Slurm's final state would repeat it.
    """
    launch, end, logs = ending.launch, ending.end, ending.logs
    job = f"{end.job_id or launch.job_id or '(none)'}, generation {launch.generation}"
    job += f", attempt {end.attempt}" if end.attempt else ""
    rows: list[tuple[str, str]] = [
        ("job", f"{job}, {end.slurm_state or 'not known to Slurm'}"),
        ("nodes", f"{len(end.nodes)}: {node_list(end.nodes)}"),
        ("wall time", duration(end.wall_time)),
        ("hours", ending.hours),
        *(("not fit", f"{node}: {why}") for node, why in end.unfit.items()),
        ("together", APART if end.apart else ""),
        ("after", after_ranks(end)),
    ]
    if logs.dest:
        with one_alone(lambda why: rows.append(("log", why))):
            rows += evidence(logs.dest)
    if artifact := end.artifact:
        values = list(artifact.scalars.items())[:VALUES_SHOWN]
        shown = [f"{printable(name, 40)} {shown_value(value)}" for name, value in values]
        path = os.path.relpath(artifact.path, launch.run_dir) if artifact.path else "(no path)"
        rows.append(("artifact", f"{path} is {'proven' if artifact.valid else 'not valid'}"))
        rows += [("", " · ".join(shown[start : start + 4])) for start in range(0, len(shown), 4)]
    caused = ending.diagnosis is not None and ending.diagnosis.root is not None
    if not (caused and ending.message.startswith(f"{end.slurm_state}: ")):
        rows.append(("verdict", ending.message))
    rows += [("tracker", line) for line in tracker_lines(end)]
    rows += [("code", line) for line in launch.plan if line.startswith(IN_PLACE)]
    rows.append(("run", f"{launch.run_dir} (on the cluster)"))
    if logs.dest:
        rows.append(("logs", f"{os.path.relpath(logs.dest)} (every rank's, fetched here)"))
    elif logs.msg:
        rows.append(("logs", f"not fetched: {logs.msg}"))
    rows += [("" if index else "variables", line) for index, line in enumerate(launch.explain)]
    lines = [f"{launch.name} {end.standing}"]
    lines += [f"  {title:<10}{text}" for title, text in rows if text]
    return [printable(line) for line in lines]


def after_ranks(end: LaunchEnd) -> str:
    """What went wrong on the nodes after the ranks had ended; empty if nothing did."""
    return printable(end.after_ranks, 400)


def tracker_lines(end: LaunchEnd) -> list[str]:
    """Where a launch is found in each of its trackers; the id of its run where the address is not known."""
    rows = end.trackers[:TRACKERS_SHOWN]
    return [printable(f"{row.tracker} {row.place or 'run ' + row.run}", 300) for row in rows]


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
