# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One self-contained HTML file from what the cluster returned. Everything from the cluster is escaped.

The page has a content security policy: it loads nothing, and runs only the two scripts whose digests are in the policy.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import math
import os
import re
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from ansible_collections.rankzero.slurm.plugins.module_utils.core.json_types import ModuleResult
from ansible_collections.rankzero.slurm.plugins.module_utils.core.printable import printable_lines
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import duration, significant
from ansible_collections.rankzero.slurm.plugins.module_utils.report.page import (
    COMPARE,
    INDEX,
    LAUNCH,
    SWEEP,
    Curve,
    Page,
    PageLaunch,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.report.sweep_results import SweepOutcome

FOLDER = os.path.join(os.path.dirname(__file__), "files")
# The page cannot be larger than about this (bytes); larger data loses the metrics that come last.
MOST_DATA = 700_000
# Rows of the table that compares environments.
MOST_DIFFERENCES = 200


def html(result: ModuleResult, path: str = "") -> str:
    """The page. `result`: the result of module report_page. `path`: where it will be; a list links to the pages that
    are there, at their default places.
    """
    # A copy, in which marks of text direction are visible: they would let a name or a path read as another.
    result = _visible(result)
    page = Page.of(result)
    scripts = [_file("uPlot.iife.min.js"), _file("page.js")]
    styles = [_file("uPlot.min.css") + _file("page.css")]
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_digest, scripts))}; "
        f"style-src {' '.join(map(_digest, styles))}; base-uri 'none'; form-action 'none'"
    )
    environment = jinja2.Environment(
        autoescape=True, loader=jinja2.FileSystemLoader(FOLDER), undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    environment.filters.update(duration=duration, moment=moment, significant=significant, web=web)
    return environment.get_template("page.html.j2").render(
        found=page,
        differences=differences(page.launches) if page.kind == COMPARE else [],
        measured=measured(page.launches) if page.kind == COMPARE else [],
        environments=environments(page.launches) if page.kind == COMPARE else [],
        parameters=parameters(page.sweep) if page.sweep else [],
        links=links(page, path) if page.kind == INDEX else [],
        title=title(page),
        policy=policy,
        scripts=[Markup(script) for script in scripts],
        styles=[Markup(style) for style in styles],
        data=Markup(embedded(result)),
    )


def _visible(value: Any) -> Any:
    """A document whose texts and keys show every character that they have."""
    if isinstance(value, str):
        return value if value.isprintable() else printable_lines(value)
    if isinstance(value, dict):
        return {_visible(name): _visible(each) for name, each in value.items()}
    return [_visible(each) for each in value] if isinstance(value, (list, tuple)) else value


def title(page: Page) -> str:
    """The title of the page."""
    if page.kind == LAUNCH:
        launch = page.launches[0]
        return f"{launch.name} {launch.key[:8]}/{launch.generation}"
    if page.kind == COMPARE:
        return "Comparison of " + ", ".join(dict.fromkeys(launch.name for launch in page.launches))
    return f"Sweep {page.sweep.name}" if page.sweep else "Launches"


def differences(launches: Sequence[PageLaunch]) -> list[tuple[str, list[str]]]:
    """The keys of the job specs that differ, with the value of each launch."""
    keys = sorted({key for launch in launches for key in launch.spec})
    rows = [(key, [str(launch.spec.get(key, "")) for launch in launches]) for key in keys]
    return [(key, values) for key, values in rows if len(set(values)) > 1]


def measured(launches: Sequence[PageLaunch]) -> list[tuple[str, list[str]]]:
    """What each launch has come to: the values of its artifact, and the medians of time and throughput in its log."""
    names = dict.fromkeys(name for launch in launches for name in launch.values)
    rows = [(name, [str(launch.values.get(name, "")) for launch in launches]) for name in names]
    for name, text in (("step_seconds", "median seconds of a step"), ("tokens_per_second", "median tokens per second")):
        medians = [_median(launch.metrics.get(name)) for launch in launches]
        if any(median is not None for median in medians):
            rows.append((text, ["" if median is None else significant(median, 4) for median in medians]))
    return rows


def environments(launches: Sequence[PageLaunch]) -> list[tuple[str, list[str], bool]]:
    """(name, the value of each launch, whether they differ) of code and environment, and of variables that differ."""
    sides = [{row.name: row.value for row in launch.provenance if row.name not in _OWN} for launch in launches]
    rows = [(name, [side.get(name, "") for side in sides]) for name in dict.fromkeys(n for side in sides for n in side)]
    own = [{row.name: row.value for row in launch.variables if launch.key[:16] not in row.value} for launch in launches]
    for name in sorted({name for side in own for name in side}):
        values = [side.get(name, "") for side in own]
        rows += [(name, values)] if len(set(values)) > 1 else []
    return [(name, values, len(set(values)) > 1) for name, values in rows[:MOST_DIFFERENCES]]


# What is another one for each launch, and says nothing about its environment.
_OWN = ("key", "artifact", "artifact SHA-256", "run directory")


def _median(curve: Curve | None) -> float | None:
    values = sorted(value for value in (curve.values if curve else ()) if value is not None)
    return values[len(values) // 2] if values else None


def parameters(sweep: SweepOutcome) -> list[str]:
    """The names of a sweep's parameters."""
    return list(dict.fromkeys(name for row in sweep.elements for name in row.parameters))


def default_path(page: Page) -> str:
    """Where the page is written by default."""
    if page.kind == LAUNCH:
        return _path_of(page.launches[0])
    if page.sweep:
        return os.path.join("runs", page.sweep.name, "report.html")
    return os.path.join("runs", "compare.html" if page.kind == COMPARE else "report.html")


def _path_of(launch: PageLaunch) -> str:
    return os.path.join("runs", launch.name, launch.key, str(launch.generation), "report.html")


def links(page: Page, path: str) -> list[str]:
    """The address of each launch's own page from a list at `path`; empty where there is none."""
    places = map(_path_of, page.launches)
    folder = os.path.dirname(path)
    return [quote(os.path.relpath(place, folder)) if path and os.path.isfile(place) else "" for place in places]


def embedded(result: ModuleResult) -> str:
    """The data of the charts as JSON that cannot end its element. Of too many metrics the last ones are left out."""
    kind = result.get("kind")
    launches = [] if kind == INDEX else result.get("launches", [])
    shown: list[ModuleResult] = [
        _finite({name: part for name, part in launch.items() if name not in _TABLES}) for launch in launches
    ]
    data = {"kind": kind, "launches": shown, **({"sweep": _finite(result.get("sweep"))} if kind == SWEEP else {})}
    while len(text := json.dumps(data, separators=(",", ":"), allow_nan=False)) > MOST_DATA:
        metrics: ModuleResult = max((launch.get("metrics", {}) for launch in shown), key=len, default={})
        if not metrics:
            break
        metrics.popitem()
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


# What the template shows, and no chart.
_TABLES = ("variables", "preflight", "cause", "provenance", "ledger", "spec", "message", "trackers")


def _finite(value: Any) -> Any:
    """The value without numbers that JSON does not have."""
    if isinstance(value, dict):
        return {str(name): _finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def moment(seconds: float | None) -> str:
    """A time for people, in UTC: a page is read in other time zones than the cluster's."""
    if seconds is None:
        return "-"
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


_WEB = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+(?:/[!-~]*)?")


def web(address: str) -> bool:
    """Whether an address may become a link: one of the web, without user and password, and nothing that runs."""
    return bool(_WEB.fullmatch(address))


@functools.cache
def _file(name: str) -> str:
    with open(os.path.join(FOLDER, name), encoding="utf-8") as stream:
        return stream.read()


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
