# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many launches from Python: each function runs one playbook, however many launches it is about."""

from __future__ import annotations

import os
import time as clock
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from rankzero import errors
from rankzero.api import ONE_CLUSTER, Launch, Listener, Options, job_variables
from rankzero.documents import document

#: Of the numbers in the results, a table has the first of these.
MOST_NUMBERS = 8


class Launches(list[Launch]):
    """Launches in the order in which they were named."""

    def wait(self, first: int | None = None, timeout: float = 0) -> Waited:
        """As the function `wait`."""
        return wait(self, first=first, timeout=timeout)

    def compare(self, time: str | None = None) -> Comparison:
        """As the function `compare`."""
        return compare(self, time=time)

    def table(self) -> str:
        """A line for each launch, as it was last seen: its values of the sweep, how it stands, and its results."""
        rows = self._rows()
        widths = [max(map(len, column)) for column in zip(*rows)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        """The table, as a notebook shows it."""
        head, *rows = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in self._rows()]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><thead><tr>{head.replace('td>', 'th>')}</tr></thead><tbody>{body}</tbody></table>"

    def _rows(self) -> list[list[str]]:
        """The cells of the table, the heads first."""
        results = [launch.seen.result or {} if launch.seen else {} for launch in self]
        numbers = list(dict.fromkeys(name for result in results for name, value in result.items() if _number(value)))
        values = list(dict.fromkeys(name for launch in self for name in launch.parameters))
        named = ["launch"] if len({launch.name for launch in self}) > 1 or not values else []
        rows = [[*named, *values, "standing", "seconds", *numbers[:MOST_NUMBERS]]]
        for launch, result in zip(self, results):
            seen = launch.seen
            own = [f"{launch.name}/{launch.key[:8]}"] if named else []
            own += [launch.parameters.get(name, "-") for name in values]
            own += [seen.standing if seen else "-", _text(seen.wall_time if seen else None)]
            rows.append(own + [_text(result.get(name)) for name in numbers[:MOST_NUMBERS]])
        return rows


class Waited(NamedTuple):
    """What a wait came to: the launches that have ended, and the others."""

    done: Launches
    pending: Launches


@dataclass(frozen=True)
class Comparison:
    """Launches side by side. `rows`: one map a launch, with its `scalars`, its `seconds` (of the time that is compared,
    `time`), `speed_up` and `efficiency` against the first one.
    """

    time: str
    rows: list[dict[str, Any]]
    lines: list[str] = field(repr=False)

    def __str__(self) -> str:
        return "\n".join(self.lines)


def sweep(
    job: str | Path | Mapping[str, Any],
    grid: Mapping[str, Iterable[Any]] | None = None,
    *arguments: str,
    nodes: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    rerun: bool = False,
    cluster: str | None = None,
    inventory: str | None = None,
    listener: Listener | None = None,
) -> Launches:
    """Submit a launch for every combination of the values of `grid`, as one job array, each exactly once.

    `grid`: name -> values, which replace {name} in the job's command, env or checkpoint.dir; without one it is the
    section `sweep` of the job. Returns when they are queued. The other parameters are those of `run`.
    """
    changes = dict(overrides or {})
    if grid is not None:
        changes["sweep.parameters"] = {name: [str(value) for value in values] for name, values in grid.items()}
    options = Options(cluster, inventory, listener)
    again = {"rerun": True} if rerun else {}
    variables = {**job_variables(job, nodes, changes, arguments), "launch_wait": False, **again, **ONE_CLUSTER}
    rows = document("sweep", options.play("sweep", variables), 0)["elements"]
    return Launches(Launch(row, options) for row in rows)


def submit_many(
    jobs: Iterable[str | Path | Mapping[str, Any]],
    *,
    overrides: Mapping[str, Any] | None = None,
    rerun: bool = False,
    cluster: str | None = None,
    inventory: str | None = None,
    listener: Listener | None = None,
) -> Launches:
    """Submit jobs of which none waits for another, each exactly once: one playbook, and one call of the cluster.

    Returns them in the order of `jobs` once they are queued. Raises Refused if one cannot be submitted; the others are,
    and the same call again adopts them.
    """
    given: list[str | dict[str, Any]] = [dict(job) if isinstance(job, Mapping) else str(job) for job in jobs]
    if not given:
        return Launches()
    options = Options(cluster, inventory, listener)
    items: list[dict[str, Any]] = [{"job": job, "after": []} for job in given]
    variables = {**job_variables("", None, overrides, ()), "job": items, "launch_wait": False, **ONE_CLUSTER}
    played = options.play("pipeline", {**variables, **({"rerun": True} if rerun else {})})
    host = (played.hosts() or [""])[0]
    stages = {stage["file"]: {**stage, "cluster": host} for stage in played.results("job_pipeline")[-1]["stages"]}
    known = {file: Launch({**stage, "key": stage["key"][:16]}, options) for file, stage in stages.items()}
    return Launches(known[_file(job, number)] for number, job in enumerate(given, 1))


def _file(job: str | Mapping[str, Any], number: int) -> str:
    """How the playbook names a job of the list."""
    return f"item {number}" if isinstance(job, Mapping) else os.path.relpath(os.path.expanduser(job))


def wait(launches: Iterable[Launch], *, first: int | None = None, timeout: float = 0) -> Waited:
    """Wait until all of these launches have ended, or the `first` so many of them, whichever they are.

    A launch that has failed is one that has ended: its `result` raises LaunchFailed. After `timeout` seconds the wait
    ends, and what has not ended is `pending`. All are asked about at once, on one cluster.
    """
    given = list({launch.run_dir: launch for launch in launches}.values())
    if first is not None and first < 1:
        raise errors.UsageError(f"wait: first must be at least 1, not {first}")
    left = [launch for launch in given if not launch.ended]
    wanted = min(first or len(given), len(given)) - (len(given) - len(left))
    if left and wanted > 0:
        options = _options_of(left)
        variables: dict[str, Any] = {"run_dirs": [launch.run_dir for launch in left], "first": wanted}
        played = options.played(
            "attach", {**variables, **({"wait_timeout": max(1, round(timeout))} if timeout else {})}
        )
        # The end of the wait before the launches is no failure here, nor is a launch that failed.
        answers = played.results("job_wait")
        if not answers:
            options.raise_for(played)
        rows = {row["run_dir"]: row for row in answers[-1]["launches"]}
        for launch in left:
            launch.see(rows[launch.run_dir])
    return Waited(
        Launches(launch for launch in given if launch.ended), Launches(launch for launch in given if not launch.ended)
    )


def as_completed(launches: Iterable[Launch], *, timeout: float = 0) -> Iterator[Launch]:
    """The launches as they end. Raises Unfinished after `timeout` seconds; the jobs continue."""
    end = clock.monotonic() + timeout if timeout else None
    done, pending = Launches(), Launches(launches)
    while pending:
        left = 0.0 if end is None else max(1.0, end - clock.monotonic())
        done, pending = wait(pending, first=1, timeout=left)
        yield from done
        if pending and end is not None and clock.monotonic() >= end:
            raise errors.Unfinished(f"{len(pending)} launches have not ended after {timeout:g} s; their jobs continue")


def compare(
    launches: Sequence[Launch | str],
    *,
    time: str | None = None,
    cluster: str | None = None,
    inventory: str | None = None,
    listener: Listener | None = None,
) -> Comparison:
    """The results of launches side by side. `time`: the number of the artifacts that is the time.

    A launch may be given by its name, as for the command. What has no result is left out, and named in the last line.
    """
    own = [launch for launch in launches if isinstance(launch, Launch)]
    options = _options_of(own) if own else Options(cluster, inventory, listener)
    names = [launch.run_dir if isinstance(launch, Launch) else launch for launch in launches]
    played = options.play("compare", {"launches": names, **({"time": time} if time else {}), **ONE_CLUSTER})
    (compared,) = played.results("job_compare")[-1:]
    return Comparison(compared["time"], compared["launches"], compared["lines"])


def _options_of(launches: Sequence[Launch]) -> Options:
    """Where these launches are. Raises UsageError for several clusters."""
    clusters = sorted({launch.cluster for launch in launches})
    if len(clusters) > 1:
        raise errors.UsageError(f"launches of {' and '.join(clusters)}: give those of one cluster")
    return launches[0].options


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _text(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
