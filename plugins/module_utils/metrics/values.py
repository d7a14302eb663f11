# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All named numbers of a log line, and its times, in the formats of common trainers. Pure.

Known are Megatron, the Trainer of Hugging Face, Lightning, KempnerForge, DeepSpeed, lines such as `step=10 loss=2.3`,
progress bars, and lines that are JSON objects.
"""

from __future__ import annotations

import functools
import itertools
import re
from datetime import datetime

from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import (
    DECIMALS,
    LINE_CHARACTERS,
    NUMBER,
    real_number,
)
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.progress import Metrics, gaps, parse_metrics

# A number with its name, as `name: 1.5`, `name=1.5`, `'name': 1.5`, `name (ms): 1.5` or `lr=[1.5]`.
_VALUE = re.compile(
    r"(?<![\w.])(?P<name>[A-Za-z_][\w./-]{0,40}(?: [A-Za-z_][\w./-]{0,24}){0,4}?)(?: \((?P<unit>[\w/%]{1,8})\))?['\"]?"
    rf"\s{{0,8}}[:=]\s{{0,8}}[\[(]?['\"]?{NUMBER}(?![\w:/]|\.\d)",
    re.I,
)
# Names of positions, which are no metrics.
_POSITIONS = frozenset(
    ["step", "steps", "global_step", "iter", "iters", "iteration", "iterations", "it", "rank", "local_rank",
     "world_size", "time", "timestamp", "ts", "pid", "v_num", "num_steps", "total_steps", "max_steps", "total"]
)  # fmt: skip
_EVALUATION = re.compile(r"(?:val|valid|validation|eval|test)\b|(?:val|valid|validation|eval|test)[_/.-]", re.I)
_STEP_TIME_NAME = re.compile(r"per iteration|(?:step|iter(?:ation)?)[_ ]time", re.I)
# Further numbers of a line are left out.
MOST_VALUES = 48
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?")
# The time of a step in its own line: Megatron's "elapsed time per iteration (ms): 512.3", "(12.3 ms)", "1.2s/it".
_AMOUNT = rf"([\d.]{{1,{DECIMALS}}})(?![\d.])"
# Each form: texts of which a line with it has one, in lower case, the pattern, and how many seconds its unit has.
_STEP_TIMES = (
    (
        ("(ms)",),
        re.compile(rf"(?:per iteration|step[ _]time|iter(?:ation)?[ _]time)\D{{0,12}}?\(ms\)\D{{0,4}}{_AMOUNT}", re.I),
        0.001,
    ),
    (("ms",), re.compile(rf"(?<![\w.]){_AMOUNT} ?ms\b"), 0.001),
    (("s/it", "s/step"), re.compile(rf"(?<![\w.]){_AMOUNT} ?s/(?:it|step|iter)"), 1.0),
    (
        ("time",),
        re.compile(rf"(?:step|iter(?:ation)?)[_ ]time(?: \(s\))?[\"']?\s{{0,24}}[:=]\s{{0,24}}{_AMOUNT}(?:s\b)?", re.I),
        1.0,
    ),
)
_PER_SECOND = ("it/s", "step/s", "steps/s", "iter/s")
# A line without any of them gives no time of a step.
_TIME_TEXTS = tuple(dict.fromkeys([*_PER_SECOND, *(text for texts, *_rest in _STEP_TIMES for text in texts)]))
_STEPS_PER_SECOND = re.compile(rf"(?<![\w.]){_AMOUNT} ?(?:it|steps?|iter)/s")


def values_in(line: str, metrics: Metrics) -> dict[str, float]:
    """All named numbers of a line with progress. `metrics`: those of `parse_metrics`.

    The loss, the rate and the time of a step have the names loss, tokens_per_second and step_seconds, whatever the
    trainer calls them. The loss of an evaluation keeps its name.
    """
    values: dict[str, float] = {}
    line = line[:LINE_CHARACTERS]
    # A time at the beginning is no value of a name, and often has the only colon.
    stamp = _TIME.match(line)
    begin = stamp.end() if stamp else 0
    named = line.find("=", begin) >= 0 or line.find(":", begin) >= 0
    for match in itertools.islice(_VALUE.finditer(line, begin) if named else (), MOST_VALUES):
        name = match["name"].strip()
        value = real_number(match[3])
        if value is None or name.lower() in _POSITIONS:
            continue
        values[f"{name} ({match['unit']})" if match["unit"] else name] = value
    if metrics.loss is not None:
        # The first loss of the line is found again under the name that the trainer gives it.
        loss = next((name for name in values if name.lower().endswith("loss")), "loss")
        if not _EVALUATION.match(loss):
            values = {"loss": metrics.loss, **{name: value for name, value in values.items() if name != loss}}
    if metrics.tokens_per_second is not None:
        values = {name: value for name, value in values.items() if not name.lower().startswith("tok")}
        values["tokens_per_second"] = metrics.tokens_per_second
    seconds = seconds_in(line)
    if seconds is not None:
        values = {name: value for name, value in values.items() if not _STEP_TIME_NAME.search(name)}
        values["step_seconds"] = seconds
    return values


def time_in(line: str) -> float | None:
    """Epoch seconds of a line's time stamp, read in this host's time zone; None without one."""
    match = _TIME.search(line[:200])
    if not match:
        return None
    day, clock, part = match.groups()
    moment = _moment(day, clock)
    return moment if moment is None or not part else moment + float(f"0.{part}")


@functools.lru_cache(maxsize=64)
def _moment(day: str, clock: str) -> float | None:
    """Epoch seconds of a date and a time of day; None where there is no such time. Many lines share their second."""
    try:
        return datetime.fromisoformat(f"{day}T{clock}").timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def seconds_in(line: str) -> float | None:
    """The seconds of a step that a line gives; None if it gives none."""
    line = line[:LINE_CHARACTERS]
    low = line.lower()
    if not any(map(low.__contains__, _TIME_TEXTS)):
        return None
    for texts, pattern, unit in _STEP_TIMES:
        match = pattern.search(line) if any(text in low for text in texts) else None
        if match:
            return _scaled(match[1], unit)
    match = _STEPS_PER_SECOND.search(line) if any(text in low for text in _PER_SECOND) else None
    rate = _scaled(match[1], 1.0) if match else None
    return 1 / rate if rate else None


def step_times(text: str) -> list[float]:
    """The times of the steps that a part of a log shows, in seconds: as the lines state them, else between their time
    stamps.
    """
    stated: list[float] = []
    steps: list[tuple[int, float | None]] = []
    for line in re.split(r"[\r\n]", text):
        metrics = parse_metrics(line)
        if metrics is None or metrics.step is None:
            continue
        seconds = seconds_in(line)
        if seconds:
            stated.append(seconds)
        steps.append((metrics.step, time_in(line)))
    return stated or gaps(steps)


def _scaled(text: str, unit: float) -> float | None:
    value = real_number(text)
    return value * unit or None if value is not None else None
