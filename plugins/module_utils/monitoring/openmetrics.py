# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers about launches for a monitoring system: gauges as text, which node-exporter's textfile collector reads.

The text is valid OpenMetrics, and valid in the format of Prometheus. What has ended counts for a window, because run
directories are removed some day, and a counter must not decrease.
"""

from __future__ import annotations

import os
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.rankzero.slurm.plugins.module_utils.core import state_files
from ansible_collections.rankzero.slurm.plugins.module_utils.core.content import replace_file
from ansible_collections.rankzero.slurm.plugins.module_utils.core.errors import RankzeroError
from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import JsonObject, Parameters
from ansible_collections.rankzero.slurm.plugins.module_utils.core.ownership import user_name
from ansible_collections.rankzero.slurm.plugins.module_utils.run.directory import RunDirectory
from ansible_collections.rankzero.slurm.plugins.module_utils.run.search.launch_list import job_info
from ansible_collections.rankzero.slurm.plugins.module_utils.run.standings import (
    FAILED,
    RUNNING,
    STANDINGS,
    SUCCEEDED,
    UNPROVEN,
    WAITING,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.slurm.client import Slurm
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.attempt_times import PARTS, STEPS, UNKNOWN
from ansible_collections.rankzero.slurm.plugins.module_utils.usage.sums import used_by

# What the node-seconds of launches that succeeded went to, and those of launches that failed.
USES = (*PARTS, FAILED)
# The family of a failure that nobody has diagnosed yet.
UNDIAGNOSED = "undiagnosed"
# At most so many diagnoses are read, the newest ones.
MOST_DIAGNOSES = 1000


@dataclass(frozen=True)
class Gauge:
    """A gauge and what it means. `{hours}` in `doc` is the window."""

    name: str
    doc: str


GAUGES = (
    Gauge(
        "rankzero_launches",
        "Launches by standing. Of those that ended, the ones of the last {hours} hours.",
    ),
    Gauge("rankzero_nodes_in_use", "Nodes of the running launches."),
    Gauge("rankzero_queue_seconds", "Time in the queue of the launches that started in the last {hours} hours."),
    Gauge("rankzero_queue_waiting_seconds", "The longest time that a waiting launch has been waiting."),
    Gauge("rankzero_node_seconds", "Node-seconds of the launches that ended in the last {hours} hours, by their use."),
    Gauge("rankzero_goodput_ratio", "The part of those that are known that steps of launches that succeeded had."),
    Gauge("rankzero_restarts", "Further attempts of the launches that ended in the last {hours} hours."),
    Gauge("rankzero_failures", "Launches that failed in the last {hours} hours, by the family of the cause."),
    Gauge("rankzero_nodes_excluded", "Nodes that the next launches exclude."),
    Gauge("rankzero_node_excluded_until_timestamp_seconds", "When the exclusion of a node ends."),
    Gauge("rankzero_window_seconds", "The window of the numbers about launches that have ended."),
    Gauge("rankzero_written_timestamp_seconds", "When these numbers were written."),
)


@dataclass(frozen=True)
class Ended:
    """What is known of a launch that has ended: its node-seconds by part of the ledger, and the family of a failure."""

    node_seconds: Mapping[str, float] = field(default_factory=dict)
    family: str = ""


@dataclass
class Numbers:
    """The values of all gauges: (labels, value) by name."""

    values: dict[str, list[tuple[dict[str, str], float]]] = field(default_factory=dict)

    def add(self, name: str, value: float, **labels: str) -> None:
        """Add a value."""
        self.values.setdefault(name, []).append((labels, value))


def numbers(
    launches: Iterable[Parameters],
    excluded: Mapping[str, float],
    ended: Mapping[str, Ended],
    window: float,
    now: float,
) -> Numbers:
    """Count launches. `launches`: as job_info returns them; `excluded`: node -> end of its exclusion; `ended`: by run
    directory, of launches that ended in the window. `window`: seconds; `now`: epoch seconds.
    """
    result, counts, use = Numbers(), Counter(dict.fromkeys(STANDINGS, 0)), Counter(dict.fromkeys(USES, 0.0))
    failures: Counter[str] = Counter()
    queued: list[float] = []
    waiting = [0.0]
    nodes = restarts = 0
    for launch in launches:
        standing, submitted, started = launch["standing"], _submitted(launch), _first_start(launch)
        if started is not None and submitted is not None and now - started < window:
            queued.append(max(0.0, started - submitted))
        if standing == WAITING and submitted is not None:
            waiting.append(now - submitted)
        if standing == RUNNING:
            nodes += len(launch["nodes"])
        if standing == SUCCEEDED or standing in UNPROVEN:
            if now - _ended(launch) >= window:
                continue
            known = ended.get(str(launch["run_dir"]), Ended())
            use.update(known.node_seconds if standing == SUCCEEDED else {FAILED: sum(known.node_seconds.values())})
            restarts += int(launch["attempt"])
        if standing == FAILED:
            failures[known.family or UNDIAGNOSED] += 1
        counts[standing] += 1
    _write_times(result, queued, max(waiting))
    # Also those that nobody has: a series that is missing would look like an outage.
    for standing in STANDINGS:
        result.add("rankzero_launches", counts[standing], standing=standing)
    for name in USES:
        result.add("rankzero_node_seconds", use[name], use=name)
    told = sum(use.values()) - use[UNKNOWN]
    if told > 0:
        result.add("rankzero_goodput_ratio", use[STEPS] / told)
    for family, count in sorted(failures.items()):
        result.add("rankzero_failures", count, family=family)
    for node, until in sorted(excluded.items()):
        result.add("rankzero_node_excluded_until_timestamp_seconds", until, node=node)
    result.add("rankzero_nodes_in_use", nodes)
    result.add("rankzero_nodes_excluded", len(excluded))
    result.add("rankzero_restarts", restarts)
    result.add("rankzero_window_seconds", window)
    result.add("rankzero_written_timestamp_seconds", now)
    return result


def _write_times(result: Numbers, queued: Sequence[float], waiting: float) -> None:
    result.add("rankzero_queue_waiting_seconds", waiting)
    if queued:
        ordered = sorted(queued)
        result.add("rankzero_queue_seconds", statistics.median(ordered), statistic="median")
        result.add("rankzero_queue_seconds", ordered[int(0.9 * (len(ordered) - 1))], statistic="p90")
        result.add("rankzero_queue_seconds", ordered[-1], statistic="max")


def _submitted(launch: Parameters) -> float | None:
    events = launch.get("journal") or ()
    return next((float(event["time"]) for event in events if event["event"] == "submitted"), None)


def _first_start(launch: Parameters) -> float | None:
    starts: list[float | None] = [each["started_at"] for each in launch.get("attempts") or ()]
    return next((start for start in starts if start is not None), launch["started_at"])


def _ended(launch: Parameters) -> float:
    """When a launch ended; for one that Slurm refused, when it was refused."""
    times = [event["time"] for event in launch.get("journal") or ()]
    return float(launch["finished_at"] or max(times, default=0.0))


def text(result: Numbers, user: str) -> str:
    """Return the gauges as text. `user`: a label of all of them, so that the files of several users fit together."""
    hours = result.values["rankzero_window_seconds"][0][1] / 3600
    lines = []
    for gauge in GAUGES:
        lines += [f"# TYPE {gauge.name} gauge", f"# HELP {gauge.name} {gauge.doc.format(hours=f'{hours:g}')}"]
        for labels, value in result.values.get(gauge.name, ()):
            shown = ",".join(f'{name}="{_escaped(label)}"' for name, label in {"user": user, **labels}.items())
            lines.append(f"{gauge.name}{{{shown}}} {value:.15g}")
    return "\n".join([*lines, "# EOF", ""])


def _escaped(label: str) -> str:
    """A label's value. Control characters of a name from elsewhere are replaced."""
    plain = "".join(char if char.isprintable() else "?" for char in label)
    return plain.replace("\\", "\\\\").replace('"', '\\"')


def ended_in(slurm: Slurm, root: str, launches: Iterable[Parameters], window: float, now: float) -> dict[str, Ended]:
    """Return run directory -> what is known of the launches that ended in the window."""
    over = [launch for launch in launches if launch["completed"] and now - _ended(launch) < window]
    used, _untrusted = used_by(slurm, root, [RunDirectory(str(launch["run_dir"])) for launch in over])
    failed = [launch for launch in over if launch["standing"] == FAILED]
    newest = {str(launch["run_dir"]) for launch in sorted(failed, key=_ended, reverse=True)[:MOST_DIAGNOSES]}
    return {
        path: Ended({part: 3600 * hours for part, hours in use.parts.items()}, _family(path) if path in newest else "")
        for path, use in used.items()
    }


def _family(run_dir: str) -> str:
    family = _diagnosis(run_dir).get("family")
    return family if isinstance(family, str) and len(family) <= 64 else ""


def _diagnosis(run_dir: str) -> JsonObject:
    try:
        return RunDirectory(run_dir).document("diagnosis.json") or {}
    except (OSError, RankzeroError):
        return {}


def measure(slurm: Slurm, options: Parameters, check_mode: bool, now: float) -> str:
    """Count all launches of a state root and write the file. Returns its text. `options`: those of module job_notify.

    Launches that have ended are read from the index; Slurm is asked once about the others, and accounting once about
    those that ended in the window. Raises RankzeroError.
    """
    root, window = os.path.expanduser(options["state_root"]), 3600.0 * max(1, int(options["metrics_hours"]))
    launches = job_info(slurm, {"state_root": root})["launches"]
    gauges = numbers(launches, exclusions(root, now), ended_in(slurm, root, launches, window, now), window, now)
    content = text(gauges, user_name(os.geteuid()).removeprefix("user "))
    if not check_mode:
        write(options["metrics_file"], content)
    return content


def exclusions(state_root: str, now: float) -> dict[str, float]:
    """Return node -> end of its exclusion, of all clusters under a state root. Slurm is not asked."""
    # A timer that only sends messages does not need it.
    from ansible_collections.rankzero.slurm.plugins.module_utils.submit.admission.excluded_nodes import load

    clusters = state_files.own(state_root).names("clusters")
    return {each.node: each.expires for cluster in clusters for each in load(state_root, cluster, now)}


def write(path: str, content: str) -> None:
    """Write the file by rename, readable by everyone, so that a reader sees all of it. Raises RankzeroError."""
    try:
        replace_file(path, content, permissions=0o644)
    except OSError as error:
        raise RankzeroError(
            f"metrics_file: {path} cannot be written: {error.strerror or error}. Name a file in a folder that this "
            "user may write, such as one for the textfile collector of node-exporter."
        ) from error
