# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files with metrics that a program writes in its working directory: JSON lines, and TensorBoard's event files."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, TypeVar

from ansible_collections.rankzero.slurm.plugins.module_utils.core import children
from ansible_collections.rankzero.slurm.plugins.module_utils.core.process import child_environment
from ansible_collections.rankzero.slurm.plugins.module_utils.core.safe_read import Beneath
from ansible_collections.rankzero.slurm.plugins.module_utils.core.text import DIGITS
from ansible_collections.rankzero.slurm.plugins.module_utils.metrics.from_logs import MOST_OF_A_LOG, MetricSet, parts

_Name = TypeVar("_Name", str, tuple[str, str])
# At most so many files of each kind are read.
MOST_FILES = 16
# Names of JSON-lines files with metrics contain one of these.
_NAMED = ("metric", "train", "log", "scalar", "history")
_STEPS, _TIMES = ("step", "global_step", "iteration", "_step"), ("_timestamp", "timestamp", "time")
_POSITIONS = frozenset((*_STEPS, *_TIMES, "x_runtime"))


def metric_files(work: Beneath) -> tuple[list[str], list[str]]:
    """The JSON-lines files with metrics and the folders with event files below a working directory, relative to it."""
    lines: set[tuple[str, str]] = set()
    folders: set[str] = set()
    for path, entry, _folder in work.entries():
        if not entry.is_file(follow_symlinks=False):
            continue
        if entry.name.endswith(".jsonl") and any(word in path.lower() for word in _NAMED):
            lines = _first({*lines, (os.path.dirname(path), entry.name)})
        if "tfevents" in entry.name:
            folders = _first({*folders, os.path.dirname(path) or "."})
    return [os.path.join(*parts) for parts in sorted(lines)], sorted(folders)


def _first(names: set[_Name]) -> set[_Name]:
    """The first MOST_FILES names: of a million, no more are kept."""
    return set(sorted(names)[:MOST_FILES])


def _number(value: object) -> float | None:
    """A number of JSON; None for anything else, and for one that is too large to be computed with."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    with contextlib.suppress(OverflowError):
        return float(value)
    return None


def _rows(root: Beneath, name: str, most: int) -> Iterator[tuple[dict[str, Any], int | None, float | None, bool]]:
    """(an object, its step, its time in epoch seconds, whether it follows the one before) for each line of a file.

    A line whose step is no number is left out.
    """
    for line, follows in parts(root, name, most):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(row, dict):
            continue
        given, dated = (next((row[key] for key in keys if key in row), None) for keys in (_STEPS, _TIMES))
        step, stamp = _number(given), _number(dated)
        if given is None or (step is not None and abs(step) < 10**DIGITS):
            usable = stamp is not None and 1e9 < stamp < 1e11
            yield row, None if step is None else int(step), stamp if usable else None, follows


def read_json_lines(into: MetricSet, root: Beneath, name: str, attempt: int) -> None:
    """Add the numbers of a file whose lines are JSON objects. An object without a step counts by its number."""
    for count, (row, step, stamp, _follows) in enumerate(_rows(root, name, MOST_OF_A_LOG), 1):
        for key, value in row.items():
            number = _number(value)
            if number is not None and key not in _POSITIONS:
                into.add(str(key), count if step is None else step, stamp, number, attempt)


def step_times(work: Beneath, most: int) -> list[tuple[int, float, bool]]:
    """(step, epoch seconds, whether it follows the one before) of the first JSON-lines file whose lines have both.

    `most`: the limit for the bytes that are read of a file.
    """
    for name in metric_files(work)[0]:
        rows = [
            (step, stamp, follows)
            for _row, step, stamp, follows in _rows(work, name, most)
            if step is not None and stamp is not None
        ]
        if rows:
            return rows
    return []


# The reader of TensorBoard is no part of the standard library: a process of its own tries to import it.
_READER = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 1000})
events.Reload()
for tag in events.Tags()["scalars"][:40]:
    for event in events.Scalars(tag):
        print(json.dumps([str(tag)[:80], event.step, event.wall_time, event.value]))
"""
READER_SECONDS = 120


def read_event_files(into: MetricSet, folder: str, attempt: int, python: str = sys.executable) -> str:
    """Add the scalars of TensorBoard's event files, where `python` has its reader. Returns a note for people, or ""."""
    try:
        done = children.run(
            [python, "-I", "-c", _READER, folder], child_environment(os.environ), seconds=READER_SECONDS, cwd="/"
        )
    except (OSError, children.Late) as error:
        return f"{folder}: its TensorBoard event files were not read: {error}"
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return f"{folder}: its TensorBoard event files were not read: {why}"
    for line in done.stdout.splitlines():
        tag, step, time, value = json.loads(line)
        into.add(tag, int(step), float(time), float(value), attempt)
    return ""
